"""The API gives what the commands give with `--json`, and a console that is read-only changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

pytest.importorskip("nicegui", reason="the console is an extra: ./scripts/setup installs it")

import httpx

from holdfast.schemas.topics import Partition
from holdfast.services.console.actions import Actions, Machine
from holdfast.services.console.api import api_page, make_app
from holdfast.services.console.feed import Feed
from holdfast.services.view.reader import named_job, read_all
from tests.support.shown_cluster import ShownCluster


class Site:
    """The API of a cluster in memory. struck: what was done to workers."""

    def __init__(self, *, read_only: bool) -> None:
        self.cluster, self.struck = ShownCluster(), list[tuple[str, str]]()
        self.feed = Feed(self.cluster.door)
        machine = Machine(
            lambda worker: self.struck.append(("kill", worker)),
            lambda worker, seconds: self.struck.append(("stall", worker)),
        )
        actions = Actions(self.cluster.door, machine, [], read_only=read_only)
        self._way = httpx.ASGITransport(app=make_app(self.feed, self.cluster.door, actions))

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._ask("GET", path))

    def post(self, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._ask("POST", path, **more))

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=self._way, base_url="http://console/api/v1") as client:
            return await client.request(method, path, **more)


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(read_only=getattr(request, "param", False))
    made.feed.start()
    yield made
    made.feed.close()


def test_the_api_gives_what_the_commands_give(site: Site) -> None:
    site.cluster.fail()
    view = read_all(site.cluster.door)
    job = named_job(view, "counted")
    plan = view.plan(job.generation)
    assert plan is not None
    get = site.get
    assert get("/jobs/counted/units").json() == msgspec.json.decode(msgspec.json.encode(view.units(plan)))
    assert get("/jobs").json()[0]["state"] == job.state
    assert get("/jobs/counted").json()["generation"] == job.generation
    assert [one["worker"] for one in get("/workers").json()] == ["worker-1", "worker-2"]
    (taken,) = get("/takeovers").json()
    assert (taken["leads"], taken["kept"], taken["first_output_ms"]) == ("worker-2", True, 56.0)
    assert get("/jobs/counted/dead-letters").json()[0]["offset"] == 7
    assert get("/jobs/counted/incident").json() is None
    missing = get("/jobs/other")
    assert (missing.status_code, missing.json()["error"]) == (404, "no job 'other' runs")


def test_each_operation_is_described_and_stands_on_the_page(site: Site) -> None:
    schema = site.get("/openapi.json").json()
    html = api_page(schema)
    assert {"/api/v1/jobs", "/api/v1/takeovers", "/api/v1/jobs/{job}/{action}"} <= schema["paths"].keys()
    assert all(path in html for path in schema["paths"])


def test_an_action_is_done_and_a_refused_one_says_why(site: Site) -> None:
    done = site.post("/workers/worker-1/kill")
    assert (done.status_code, site.struck) == (200, [("kill", "worker-1")])
    refused = site.post("/jobs", content="name: [", headers={"content-type": "application/yaml"})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["path"] == "the job file:1:8"
    unknown = site.post("/jobs/other/pause")
    assert (unknown.status_code, unknown.json()["error"]) == (409, "there is no job 'other'")
    unit = site.cluster.unit
    stays = site.post(f"/jobs/counted/units/{unit}/move", params={"worker": "worker-1"})
    assert stays.json() == {"done": f"{unit} runs on worker-1 already."}
    nowhere = site.post(f"/jobs/counted/units/{unit}/move", params={"worker": "worker-9"})
    assert (nowhere.status_code, nowhere.json()["error"][:28]) == (409, "there is no worker 'worker-9'"[:28])
    wrong = site.post(f"/jobs/counted/units/{unit}/scheme", params={"wanted": "best"})
    assert (wrong.status_code, wrong.json()["error"]) == (409, "there is no scheme 'best'")


def test_dead_letters_are_sent_back_once(site: Site) -> None:
    first = site.post("/jobs/counted/dead-letters/replay").json()["done"]
    second = site.post("/jobs/counted/dead-letters/replay").json()["done"]
    assert first.startswith("Sent 1 record back to given")
    assert second.startswith("Sent nothing")


@pytest.mark.parametrize("site", [True], indirect=True)
def test_a_console_that_is_read_only_writes_nothing(site: Site) -> None:
    submit = Partition(site.cluster.door.topics.submit, 0)
    for path in ("/jobs/counted/cancel", "/jobs/counted/units/given-0/drill", "/workers/worker-1/kill",
                 "/jobs/counted/units/given-0/move?worker=worker-2", "/jobs/counted/units/given-0/scheme?wanted=none",
                 "/jobs/counted/dead-letters/replay"):  # fmt: skip
        assert site.post(path).status_code == 403
    assert site.post("/jobs", content="name: a").status_code in (403, 422)
    assert site.get("/jobs/counted").status_code == 200
    assert site.struck == []
    assert site.cluster.door.log.last(submit) is None


@pytest.mark.parametrize("site", [True], indirect=True)
def test_the_state_of_an_operator_is_read_also_where_nothing_may_be_changed(site: Site) -> None:
    memory = site.cluster.memory
    memory.feed("given", [{"k": key, "at": "2026-01-01T00:00:00Z"} for key in "aab"])

    def entries() -> list[object]:
        memory.turn(100)
        return list(site.get("/jobs/counted/state/counts").json()["entries"])

    assert any(len(entries()) == 2 for _ in range(100)), "both keys are in checkpoints"
    one = site.get("/jobs/counted/state/counts?key=a").json()
    assert [(entry["key"], entry["value"]) for entry in one["entries"]] == [({"k": "a"}, {"n": 2})]
    few = site.get("/jobs/counted/state/counts?most=1").json()
    assert (len(few["entries"]), few["more"], one["more"]) == (1, True, False)
    assert [entry["key"] for entry in site.get("/jobs/counted/state/counts?prefix=b").json()["entries"]] == [{"k": "b"}]
    failed = site.get("/jobs/counted/state/cuonts")
    assert (failed.status_code, failed.json()["hint"]) == (409, "did you mean 'counts'?")
    assert site.get("/jobs/other/state/counts").status_code == 404
    assert site.get("/jobs/counted/state/counts?most=10001").status_code == 422
    assert "/api/v1/jobs/{job}/state/{operator}" in site.get("/openapi.json").json()["paths"]

"""The parts of pages show a cluster as its topics have it, and nothing that a record holds becomes a part of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.schemas import assignments, events, heartbeats
from holdfast.schemas.assignments import Assignment
from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Alternative, Event
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.incidents import Chosen, Incident
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Problem, QueryState
from holdfast.services.console.drafts import EXAMPLE, check
from holdfast.services.console.layers import layers
from holdfast.services.console.markup import DASH, coded
from holdfast.services.console.parts import job as job_parts
from holdfast.services.console.parts import records
from holdfast.services.console.parts.checkpoints import checkpoints
from holdfast.services.console.parts.incidents import incidents
from holdfast.services.console.parts.job import job_page
from holdfast.services.console.parts.overview import health, overview
from holdfast.services.console.parts.takeovers import UNDER_WAY_MS, takeovers
from holdfast.services.planning.places import line_of
from holdfast.services.view.lines import Uncorrected
from holdfast.services.view.live import LiveView, Picture
from holdfast.services.view.rows import newest_letters, newest_rows
from tests.support.shown_cluster import HOSTILE, ShownCluster


@pytest.fixture
def cluster() -> ShownCluster:
    return ShownCluster()


@pytest.fixture
def live(cluster: ShownCluster) -> Iterator[LiveView]:
    made = LiveView(cluster.door)
    yield made
    made.close()


def picture(cluster: ShownCluster, live: LiveView) -> Picture:
    """As of now."""
    while live.behind or live.turn(0):
        live.turn(0)
    return live.picture(cluster.memory.day_ms)


def assign(cluster: ShownCluster, **more: Any) -> None:
    """Appends a record that recovery would write."""
    record = Assignment("recovery-1", cluster.memory.day_ms, (), **more)
    cluster.append(cluster.memory.cluster.assignments, assignments.encode(record))


def tell_incident(cluster: ShownCluster, began_ms: int) -> None:
    """Events of an incident that began then: its only query is lost at once, and is back after 2.5 s."""
    for after_ms, kind, detail in (
        (0, "query-unavailable", "all"),
        (0, "incident", ""),
        (2_500, "query-available", "all, 1 times"),
    ):
        event = Event(began_ms + after_ms, kind, job=cluster.memory.plan.job, detail=detail)
        cluster.append(cluster.memory.cluster.events, events.encode(event))


def words(html: str) -> str:
    """What a reader reads."""
    found: list[str] = []

    class Words(HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data)

    Words().feed(html)
    return re.sub(r"\s+", " ", " ".join(found))


def test_a_job_is_shown_with_its_leader_marked_and_its_standby(cluster: ShownCluster, live: LiveView) -> None:
    seen = picture(cluster, live)
    (job,) = seen.jobs
    html = job_page(job, [1.0, 2.0], 0)
    assert re.search(r'class="lead good"></circle><text[^>]*>worker-1<', html), "the leader has the filled mark"
    assert re.search(r'class="stand good"></circle><text[^>]*>worker-2<', html), "the standby has the empty mark"
    said = words(html)
    assert all(f" {one.unit} " in said for one in job.units)
    assert [one.worker for one in seen.workers] == ["worker-1", "worker-2"]


def test_a_takeover_comes_with_its_bars_beside_the_promise(cluster: ShownCluster, live: LiveView) -> None:
    assert "holdfast kill worker-1" in takeovers(picture(cluster, live)), "an empty state says what to do"
    cluster.fail()
    seen = picture(cluster, live)
    html = takeovers(seen)
    assert "worker-1 failed" in words(html)
    # The scale ends at the promise, 500 ms: detection takes 40 of them, the first output comes after 96.
    for name, left, width in (("detection", 0, 8), ("activation", 8, 2), ("catching-up", 10, 16)):
        assert f'class="phase {name}" style="left:{left:.2f}%;width:{width:.2f}%"' in html
    assert 'class="mark first" style="left:19.20%"' in html
    assert 'class="mark promise" style="left:100.00%"' in html
    assert ">kept</span>" in html


def test_the_story_of_a_takeover_says_which_schemes_were_weighed(cluster: ShownCluster, live: LiveView) -> None:
    weighed = (
        Alternative("hybrid", 90.0, 0.4, {"detection": 40.0, "replay": None}),
        Alternative("passive", None, 0.1, rejected=HOSTILE),
    )
    cluster.tell("scheme-chosen", job=cluster.memory.plan.job, unit=cluster.unit, epoch=1, alternatives=weighed)
    cluster.fail()
    html = takeovers(picture(cluster, live))
    said = words(html)
    assert f"Why {cluster.unit} had hybrid: predicted 200 ms , took 130 ms , promised 500 ms" in said
    assert "hybrid 90 ms detection 40, replay \u2013 0.40" in said
    assert "passive \u2013 0.10 <script>" in said, "the time of passive is not known, and it was not chosen"
    assert "<script" not in html


def test_a_takeover_under_way_grows_until_its_copy_tells_its_phases(cluster: ShownCluster, live: LiveView) -> None:
    cluster.decide()
    seen = picture(cluster, live)
    begun_ms = seen.takeovers[0].time_ms
    html = takeovers(replace(seen, time_ms=begun_ms + 460))
    # The scale ends at 500 ms: detection took 40 of them, and 460 have gone by since.
    assert 'class="phase detection" style="left:0.00%;width:8.00%"' in html
    assert 'class="phase under-way" style="left:8.00%;width:92.00%"' in html
    assert ">catching up</span>" in html
    html = takeovers(replace(seen, time_ms=begun_ms + UNDER_WAY_MS + 1))
    assert "under-way" not in html
    assert ">unknown</span>" in html


def test_an_incident_is_shown_with_its_plan_and_what_waits_for_what(cluster: ShownCluster, live: LiveView) -> None:
    assert "No job that runs has had an incident" in incidents(picture(cluster, live))
    units, plan = tuple(cluster.memory.units), cluster.memory.plan
    happens = Incident(
        plan.job, plan.generation, 1, ("worker-1", HOSTILE), units, planned=True,
        chosen=(Chosen("", units[:1], 1.5),), waiting={"all": 0.25}, slots=1,
    )  # fmt: skip
    assign(cluster, incidents=(happens,))
    cluster.tell("incident-planned", job=plan.job, detail="a plan is made")
    cluster.beat("restoring")
    seen = picture(cluster, live)
    for html in (incidents(seen), job_page(seen.jobs[0], [], seen.time_ms)):
        said = words(html)
        assert f"Order of restoring: {units[0]}" in said
        assert f"all waiting 1 0.25 {units[0]} {units[1]}" in said, "query, state, priority, density, slot, no slot"
        assert "<script" not in html
    assert "incident-planned counted" in words(incidents(seen))
    tell_incident(cluster, seen.time_ms - 4_000)
    seen = picture(cluster, live)
    for html in (incidents(seen), job_page(seen.jobs[0], [], seen.time_ms)):
        assert "1 of 1 query available , since 2,500 ms after the failure" in words(html)
        assert 'points="0.0,100.0 625.0,100.0 625.0,4.0 1000,4.0"' in html, "the last step lasts until now"
    over = replace(happens, number=2, over=True)
    assign(cluster, incidents=(over,))
    seen = picture(cluster, live)
    assert ">over</span>" in incidents(seen)
    assert "1 of 1 query available" in words(incidents(seen)), "its stairs stay"
    assert "Incident of" not in job_page(seen.jobs[0], [], seen.time_ms), "it is over"


def test_checkpoints_stand_beside_the_promise_and_the_traffic_between_units(
    cluster: ShownCluster, live: LiveView
) -> None:
    key, worker = f"{cluster.memory.plan.job}@{cluster.memory.plan.generation}/{cluster.unit}", "worker-1"
    incarnation, now_ms = cluster.memory.workers[worker].identity.incarnation, cluster.memory.day_ms
    for second, expected_ms in ((1, 100.0), (2, 20_000.0)):
        inputs = {"given": (9, 9_000 * second), "given.0": (9, 2_048 * second)}
        costs = Costs(key, inputs, sent_bytes=4_096 * second, recovery_ms=expected_ms)
        beat = Heartbeat(worker, incarnation, now_ms + 1_000 * second, slots=4, costs=(costs,))
        cluster.append(cluster.memory.cluster.heartbeats, heartbeats.encode(beat))
    (job,) = picture(cluster, live).jobs
    said = words(checkpoints(job))
    assert "Sent between units 4.0 KiB /s" in said
    assert "0 B /s 4.0 KiB /s 2.0 KiB /s" in said, "of the worker: checkpoints, sent to units, taken from units"
    assert "20.0 s none" in said, "only an adaptive unit is promised anything"
    promised = replace(job.plan, spec=job.plan.spec | {"fault_tolerance": {"recovery_time_ms": 500}})
    adaptive = tuple(replace(one, adaptive=True) for one in job.units)
    assert "20.0 s 500 ms exceeded" in words(checkpoints(replace(job, plan=promised, units=adaptive)))


def test_contents_of_records_are_plain_text_on_every_page(cluster: ShownCluster, live: LiveView) -> None:
    cluster.tell("job-failed", job=HOSTILE, unit=HOSTILE, worker=HOSTILE, detail=f"{HOSTILE} \x1b[2J \u202e")
    cluster.append("all", f'{{"k": "{HOSTILE}"}}'.encode())
    seen = picture(cluster, live)
    (job,) = seen.jobs
    letters = newest_letters(cluster.door, cluster.memory.topics, 10)
    rows = newest_rows(cluster.door, job.plan, "all", 10)
    shown = {"row": f'{{"k": "{HOSTILE}"}}'.encode(), "batch": 1, "status": HOSTILE, "partition": 0, "offset": 1}
    pages = [
        overview(seen, {}, may_act=True),
        job_page(job, [], 0),
        checkpoints(job),
        records.dead_letters(HOSTILE, letters),
        records.results(job, "all", [*rows, {**shown, "timestamp_ms": 1}]),
        records.no_job(HOSTILE),
        records.draft(check(f"name: {HOSTILE!r}", None, "t", [])),
    ]
    assert rows == [], "a stranger's record in the topic is no row of the job"
    assert HOSTILE in words(pages[3])
    for html in pages:
        assert "<script" not in html
        assert "<img" not in html
        assert "\x1b" not in html
        assert "\u202e" not in html


def test_lag_is_shown_by_partition_the_worst_first(cluster: ShownCluster, live: LiveView) -> None:
    plan, worker = cluster.memory.plan, "worker-1"
    readers = [unit.name for unit in plan.units if "given" in unit.operators]
    assert [source.owners for source in plan.sources] == [((0,),)], "one task reads one partition"
    incarnation, now_ms = cluster.memory.workers[worker].identity.incarnation, cluster.memory.day_ms
    for _ in range(7):
        cluster.append("given", b"{}")
    costs = Costs(f"{plan.job}@{plan.generation}/{readers[0]}", {"given": (2, 40)}, leads=True)
    cluster.append(
        cluster.memory.cluster.heartbeats, heartbeats.encode(Heartbeat(worker, incarnation, now_ms, costs=(costs,)))
    )
    (job,) = picture(cluster, live).jobs
    assert (job.lags, job.lags_of) == ({"given": 5}, {"given": {"0": 5}})
    assert "[0]" not in words(job_page(job, [], 0)), "the sum says it"
    parts = {"0": 3, "1": 0, "2, 4": 90, "3": 7, "5": 1}
    said = words(job_page(replace(job, lags={"given": 101}, lags_of={"given": parts}), [], 0))
    assert "101 [2, 4] 90, [3] 7, [0] 3 and 1 more" in said


def test_a_command_in_a_sentence_is_code_and_the_rest_is_text() -> None:
    assert coded("run `holdfast up` <b>") == "run <code>holdfast up</code> &lt;b&gt;"


def test_health_is_said_in_words(cluster: ShownCluster, live: LiveView) -> None:
    seen = picture(cluster, live)
    tone, wrong = health(seen)
    assert tone == "warn", "the job in memory has no controller: its state is accepted, its units are not counted as up"
    assert wrong
    tone, (nobody,) = health(Picture(1, 0, "t"))
    assert (tone, nobody.said) == ("bad", "no worker was heard of in the last minute")
    assert "<code>holdfast up</code> starts some." in overview(Picture(1, 0, "t"), {}, may_act=False), "what to do"


def test_units_that_are_out_are_named_with_the_fidelity_of_each_query(cluster: ShownCluster, live: LiveView) -> None:
    seen = picture(cluster, live)
    (job,) = seen.jobs
    assert "fidelity" not in job_page(job, [], 0)
    plan, unit = job.plan, cluster.unit
    begins = Outage(plan.job, plan.generation, unit, 1, job.units[0].epoch, 5, {"all": 0.5})
    assign(cluster, outages=(begins,))
    seen = picture(cluster, live)
    assert f"job counted: out: {unit}; the other units give, of all rows: all 50%" in [
        one.said for one in health(seen)[1]
    ]
    status = replace(seen.jobs[0].status, queries=(QueryState("all", available=False),))
    said = words(job_page(replace(seen.jobs[0], status=status), [], 0))
    assert f"out, and not recovered yet: {unit}; the other units give tentative results" in said
    assert "all unavailable" in said
    assert f"out: {unit}" in said
    assert f" all 50 % 0 {DASH} 0" in said, "fidelity now, open rows and theirs, corrected rows"
    status = replace(status, tentative={"all": Uncorrected(6, 0.75)}, corrected={"all": 9})
    said = words(job_page(replace(seen.jobs[0], status=status), [], 0))
    assert " all 50 % 6 75 % 9" in said


def test_a_large_job_shows_its_units_page_by_page_and_first_those_that_do_not_run(
    cluster: ShownCluster, live: LiveView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_parts, "UNITS_A_PAGE", 1)
    (job,) = picture(cluster, live).jobs
    first, second, third = sorted(one.unit for one in job.status.units)
    stuck = tuple(replace(one, state="stuck" if one.unit == second else "running") for one in job.status.units)
    job = replace(job, status=replace(job.status, units=stuck))
    said = [words(job_page(job, [], 0, page).partition('aria-label="Units"')[2]) for page in (1, 2, 3, 9)]
    assert "2 running, 1 stuck · page 1 of 3 back next" in words(job_page(job, [], 0))
    assert f" {second} " in said[0]
    assert f" {first} " not in said[0]
    assert f" {first} " in said[1]
    assert f" {third} " in said[2]
    assert said[3] == said[2], "there is no such page"
    assert 'href="/jobs/counted?units=2"' in job_page(job, [], 0)


def test_operators_stand_to_the_right_of_what_feeds_them() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "c"), ("c", "e"), ("b", "f")]
    columns = layers(["a", "b", "d", "c", "e", "f"], edges)
    place = {name: at for at, column in enumerate(columns) for name in column}
    assert all(place[before] < place[after] for before, after in edges)
    assert place["d"] == place["c"] - 1, "a source stands beside its reader"
    assert layers([], []) == []


@pytest.mark.parametrize(
    ("broken", "line"),
    [("dep_delay > 15", 8), ("window: {size_s: 3600}", 12), ("input: by_carrier", 15), ("fields: {", 6)],
)
def test_a_problem_is_shown_at_its_line(broken: str, line: int) -> None:
    assert check(EXAMPLE, None, "t", []).plan is not None
    replaced = {"dep_delay > 15": "nothing > 15", "window: {size_s: 3600}": "window: {size: 3600}",
                "input: by_carrier": "input: by_carier", "fields: {": "fields: {{"}[broken]  # fmt: skip
    found = check(EXAMPLE.replace(broken, replaced), None, "t", [])
    assert line in [at for at, _ in found.problems], found.problems


def test_a_place_in_a_list_has_a_line_and_an_unknown_one_that_of_what_holds_it() -> None:
    written = "name: a\noperators:\n  all:\n    union:\n      - one\n      - two\n"
    assert line_of(written, Problem("operators.all.union[1]", "")) == 6
    assert line_of(written, Problem("operators.all.input", "")) == 3
    assert line_of(written, Problem("queries", "")) is None

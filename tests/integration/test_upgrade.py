"""Decision 0077 on a real Kafka: workers get other versions one after the other, and no job stops; versions that give
other bytes get no unit.

The first test lets workers say that they have another polars. The second one changes a user's code, which is a version
like any other: once with other results, once with the same.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.schemas import plans
from holdfast.schemas.topics import TopicSpec
from holdfast.services.kernel.versions import PRETENDED
from tests.integration.struck.test_moves import silence_ms
from tests.support.cluster import LocalCluster
from tests.support.cluster import running as up
from tests.support.commands import DEADLINE_S
from tests.support.struck import Struck, StruckJob, running, struck_cluster, tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

WORKERS = ("worker-1", "worker-2", "worker-3")


def test_workers_get_other_versions_one_after_the_other_and_no_job_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    image = tmp_path / "versions"
    monkeypatch.setenv(PRETENDED, f"@{image}")
    with struck_cluster(tmp_path / "cluster") as struck, running(struck, tolerant("hybrid"), "upgraded") as job:
        image.write_text("polars=9.9")
        for name in WORKERS:
            former = struck.pid(name)
            os.kill(former, signal.SIGTERM)
            job.under_load(lambda name=name, former=former: _back(struck, name, former), f"{name} is back")  # type: ignore[misc]
            job.under_load(lambda: _settled(struck, job), "every unit is protected, and has nothing to show")
        record_property("silence_ms", silence_ms(struck, job, 0))
        for unit in job.units:
            change = struck.change(unit)
            assert ["polars 9.9" in text for text in change.shown] == [False, True], change
            assert change.differ == ()
        shown = {event.unit for event in struck.events() if event.kind == "proved-equal"}
        assert shown == set(job.units)
        states = [plans.decode_status(value) for value in struck.cluster.values(struck.cluster.topics.status)]
        assert {one.state for one in states if one.job == job.name} <= {"accepted", "starting", "running"}


def _back(struck: Struck, name: str, former: int) -> bool:
    return struck.pid(name) != former and struck.all_answer()


def _settled(struck: Struck, job: StruckJob) -> bool:
    return struck.protected() and not any(struck.change(unit).unshown for unit in job.units)


CODE = """
import polars as pl
from holdfast import PythonOperator

class Doubled(PythonOperator):
    output = {"id": "int", "twice": "int"}

    def on_batch(self, batch, state, ctx):
        return batch.select("id", "_time", twice=%s)
"""
TWICE = 'pl.col("id") * 2'
WRONG = 'pl.col("id") * 2 + (pl.col("id") % 7 == 0).cast(pl.Int64)'
SAME = '2 * pl.col("id")'
JOB = """
name: doubled
keep_cuts: true
sources: {s: {topic: doubled-in, fields: {id: int}}}
operators:
  even: {filter: "id >= 0", input: s}
  doubled: {python: "doubled_plugin:Doubled", input: even, parallelism: 1}
queries: {all: {input: doubled, sink: {topic: doubled-out}}}
placement: {units: [[s, even], [doubled]]}
fault_tolerance: {default: {scheme: hybrid}, fail_stop_timeout_s: 300}
"""
UNIT = "doubled-0"


class Site(LocalCluster):
    """Two workers with a user's code, which a test rewrites."""

    fed = 0

    def code(self, text: str) -> None:
        """What processes load that start from now on."""
        (self.folder.parent / "plugins" / "doubled_plugin.py").write_text(CODE % text)

    def feed_until(self, condition: Callable[[], Any], what: str) -> Any:
        def look() -> Any:
            numbers = range(self.fed, self.fed + 5)
            self.fed += len(numbers)
            self.append("doubled-in", *(json.dumps({"id": number}).encode() for number in numbers))
            return condition()

        return self.until(look, what)

    def copies(self) -> dict[str, str]:
        """Worker by role, and the state of each copy."""
        (unit,) = [one for one in self.asked("units", "doubled") if one["unit"] == UNIT]
        return {copy["role"]: copy["worker"] for copy in unit["copies"]}

    def happened(self, kind: str, worker: str) -> list[int]:
        """Batches of these events about the unit."""
        return [one.batch for one in self.events(kind) if (one.unit, one.worker) == (UNIT, worker)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "plugins").mkdir()
    environment = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "plugins"), os.environ.get("PYTHONPATH", "")]),
        "HOLDFAST_PLUGINS": "doubled_plugin",
        "HOLDFAST_BALANCE_CALM_S": "0",
    }
    cluster = Site(tmp_path / "cluster", environment)
    cluster.code(TWICE)
    with up(cluster, workers=2):
        yield cluster


def test_code_that_gives_other_rows_never_leads_and_code_that_gives_the_same_does(site: Site, tmp_path: Path) -> None:
    (tmp_path / "doubled.yaml").write_text(JOB)
    site.log.create([TopicSpec("doubled-in")])
    site.call("submit", str(tmp_path / "doubled.yaml"), "--create-topics", "--timeout", f"{DEADLINE_S:g}")
    roles = site.until(lambda: found if len(found := site.copies()) == 2 else None, "the unit has two copies")
    first, second = roles["primary"], roles["secondary"]
    site.code(WRONG)
    site.kill(second)
    (batch,) = site.feed_until(lambda: site.happened("differs", second), "a batch differs")
    assert batch > 0
    status = site.asked("status", "doubled")
    assert status["state"] == "running"
    (said,) = [unit["versions"] for unit in status["units"] if unit["unit"] == UNIT]
    assert said.startswith(f"other bytes: {second}, batch {batch}: code doubled_plugin ")
    site.until(lambda: site.copies() == {"primary": first}, "it keeps no copy there")
    site.code(SAME)
    site.kill(second)
    site.feed_until(lambda: site.happened("proved-equal", second), "it has shown equal bytes")
    site.kill(first)
    site.feed_until(lambda: site.copies().get("primary") == second, "it leads")
    site.until(lambda: len(site.rows("doubled-out")) >= site.fed, "every row is out")
    assert Counter((row["id"], row["twice"]) for row in site.rows("doubled-out")) == Counter(
        (number, 2 * number) for number in range(site.fed)
    )
    assert "exact" in site.told("replay", "doubled")

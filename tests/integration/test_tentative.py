"""A unit is missing for a while: tentative rows come at once, and the final ones afterwards are as if nothing was."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.newest import Newest
from holdfast.schemas import assignments, commands, formats
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.planning.loader import load
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]
JOB = """
name: clicks
keep_cuts: true
sources: {s: {topic: clicks, fields: {t: timestamp, page: string}, event_time: t, unit: ms, parallelism: 2}}
operators:
  seconds: {aggregate: {n: "count()"}, key: [page], window: {size_s: 1}, emit: final, input: s, parallelism: 1}
queries:
  all: {input: seconds, sink: {topic: clicks-out}, results: tentative}
fault_tolerance: {default: {scheme: passive}, checkpoint: {interval_ms: 200}}
"""


class Site:
    """The job, and events of one every 20 ms and partition for as long as anything is asked of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self._times, self.sent = cluster, count(0, 20), 0
        cluster.log.create([TopicSpec("clicks", 2), TopicSpec("clicks-out", 1)])
        cluster.submit(commands.encode(load(JOB, "job.yaml").as_plain()))
        cluster.await_state("clicks", "running")

    def feed(self) -> None:
        for at in [next(self._times) for _ in range(10)]:
            for partition in (0, 1):
                value = json.dumps({"t": at, "page": f"p{at % 3}"}).encode()
                self.cluster.appender.append(Partition("clicks", partition), value)
                self.sent += 1
        self.cluster.appender.flush(DEADLINE_S)

    def records(self) -> list[dict[str, Any]]:
        found = []
        for message in self.cluster.log.scan(Partition("clicks-out", 0)):
            headers = {name: value.decode() for name, value in message.headers() or ()}
            found.append({**headers, "key": message.key(), "value": message.value()})
        return found

    def fed_until(self, what: str, condition: Any) -> float:
        """How many seconds it takes."""
        began = time.monotonic()

        def there() -> bool:
            self.feed()
            return bool(condition())

        self.cluster.until(there, what)
        return time.monotonic() - began

    def count(self, status: str) -> int:
        return sum(row["status"] == status for row in self.records())

    def format(self) -> int:
        """In which the cluster writes."""
        return read_standings(self.cluster.log, Partition(self.cluster.topics.assignments, 0)).assigned.format

    def noted_s(self, since: float) -> float:
        """When the first outage since then was noted, on the clock of time.monotonic."""
        for message in self.cluster.log.scan(Partition(self.cluster.topics.assignments, 0)):
            at = time.monotonic() - (time.time() - message.timestamp()[1] / 1000)
            with suppress(msgspec.DecodeError):
                if at >= since and any(not one.over for one in assignments.decode(message.value() or b"").outages):
                    return at
        return since

    def hosts(self) -> dict[str, list[str]]:
        """By worker, the units that it leads."""
        found: dict[str, list[str]] = {}
        for unit in self.cluster.asked("units", "clicks"):
            for copy in unit["copies"]:
                found.setdefault(copy["worker"], []).append(unit["unit"])
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(LocalCluster(tmp_path), workers=2) as cluster:
        yield Site(cluster)


def test_tentative_rows_come_while_a_unit_is_missing_and_final_ones_replace_them(site: Site) -> None:
    site.fed_until("rows are final", site.records)
    site.fed_until("frames may be tentative", lambda: site.format() >= formats.TENTATIVE)
    victim = next(worker for worker, units in site.hosts().items() if not any("seconds" in unit for unit in units))
    site.cluster.signal(victim, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        site.fed_until("tentative rows", lambda: site.count("tentative"))
        first_s, noted_s = time.monotonic() - stopped, site.noted_s(stopped) - stopped
        said = site.cluster.lines("results", "clicks", "all", "--tentative")
        shown = [row for row in said if row["status"] == "tentative"]
        assert shown
        assert {0 < row["fidelity"] < 1 for row in shown} == {True}, "one of two sources is out"
        begun = len(site.records())
        site.fed_until("final rows again", lambda: any(row["status"] == "final" for row in site.records()[begun:]))
        final_s = time.monotonic() - stopped
    finally:
        site.cluster.signal(victim, signal.SIGCONT)
    site.cluster.call("cancel", "clicks", "--drain")
    newest, told, last = Newest(), dict[bytes, bytes | None](), dict[bytes, bytes | None]()
    for row in site.records():
        headers = [(name, str(value).encode()) for name, value in row.items() if name not in ("key", "value")]
        if (read := newest.read(row["key"], row["value"], headers)) is not None:
            told[row["key"]] = read.value
        last[row["key"]] = row["value"]
    final = {row["key"]: row["value"] for row in site.records() if row["status"] == "final"}
    assert newest.open == 0
    assert {key: value for key, value in told.items() if value is not None} == final
    assert {key: value for key, value in last.items() if value is not None} == final
    counted = sum(json.loads(value)["n"] for value in final.values())
    assert counted == site.sent, "each event counts once"
    assert {row["status"] for row in site.cluster.lines("results", "clicks", "all", "--meta")} == {"final"}
    replayed = site.cluster.asked("replay", "clicks")
    assert (replayed["lost"], replayed["duplicated"], replayed["wrong"]) == (0, 0, 0), replayed
    print(
        f"after the stop: outage {noted_s:.2f} s, first tentative row {first_s:.2f} s, final rows {final_s:.2f} s; "
        f"{site.count('tentative')} tentative, {site.count('closing')} closing, {site.count('final')} final"
    )

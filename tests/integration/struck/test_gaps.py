"""Precision `gap` on real processes: what a copy that takes over skips is what is reported lost, to the record.

tests/scenario/test_gaps.py holds the rules, on a log in memory; this holds that real kills meet no other case.
"""

from __future__ import annotations

import json
from functools import partial
from string import Template
from typing import Any

import pytest

from holdfast.schemas.checkpoints import SKIPPED
from holdfast.schemas.topics import Partition
from tests.campaign.jobs import Job
from tests.support.commands import DEADLINE_S
from tests.support.struck import Struck, StruckJob

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
KILLS = 3
KEYS = 7
SUMS = """
name: $name
keep_cuts: true
batch_interval_ms: 25
fault_tolerance: {precision: gap, default: {scheme: passive-hot}, checkpoint: {interval_ms: 2000}}
sources: {events: {topic: $name-events, fields: {k: string, n: int}}}
operators: {sums: {aggregate: {c: "count()", s: "sum(n)"}, key: [k], input: events}}
queries: {sums: {input: sums, sink: {topic: $name-sums}}}
"""
JOB = Job("gap", Template(SUMS), ("events",), ("sums",), lambda rows, count: None)


class Counted(StruckJob):
    """Every record can be read and counts once."""

    def feed(self, count: int = 40) -> None:
        for number in range(self.fed, self.fed + count):
            record = json.dumps({"k": f"k{number % KEYS}", "n": number}).encode()
            self.cluster.appender.append(Partition(f"{self.name}-events", number % 2), record)
        self.cluster.appender.flush(DEADLINE_S)
        self.fed += count

    @property
    def lost(self) -> int:
        """As the job reports."""
        self.look()
        return sum(one.lost for one in self._progress.values())

    def last_rows(self) -> tuple[dict[str, int], int]:
        """The last count of each key, and what the last row says of skipped records."""
        counts, skipped = dict[str, int](), 0
        message: Any
        for message in self.cluster.log.scan(Partition(f"{self.name}-sums", 0)):
            row = json.loads(message.value() or b"")
            counts[row["k"]] = row["c"]
            skipped = int(dict(message.headers() or []).get(SKIPPED, b"0"))
        return counts, skipped


@pytest.mark.long  # scenario/test_gaps.py and the profile `gaps` of simulated histories hold it in each run
def test_kills_lose_the_records_that_the_unit_skips_and_no_others(struck: Struck) -> None:
    job = Counted(struck, JOB, "gap")
    try:
        job.begin()
        (unit,) = job.units
        for _ in range(KILLS):
            job.run_for(1.0, load=10)
            primary, secondary, _ = job.pair(unit)
            struck.kill(primary.worker)
            job.under_load(partial(_leads, struck, unit, secondary.worker), "the secondary leads")
            job.under_load(struck.protected, "the unit is protected again")
            job.await_results()
        job.feed()
        job.drain()
        job.await_end()
        report = job.replayed()
        assert report.exact, report
        counts, skipped = job.last_rows()
        assert job.lost > 0, "some takeover skipped something"
        assert sum(counts.values()) + job.lost == job.fed
        assert skipped == job.lost
        job.forget()
    except BaseException:
        job.give_up()
        raise


def _leads(struck: Struck, unit: str, worker: str) -> bool:
    return struck.leader_of(unit) == worker

"""The history of a cluster that a benchmark writes is trimmed as services would have trimmed it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.rig.aged import Aged
from holdfast.schemas.topics import Partition
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import positions, read_jobs
from holdfast.services.log.memory import MemoryLog


def aged(hours: int) -> Aged:
    log = MemoryLog(lambda: 0)
    cluster: Any = SimpleNamespace(log=log, appender=log.appender("history"))
    made = Aged(cluster, "aged", hours)
    made.write()
    return made


@pytest.mark.long
def test_logs_of_a_long_history_are_as_short_as_of_a_shorter_one_and_a_start_can_begin_with_them() -> None:
    """That services trim what they decided is held by tests/contract/test_late_readers.py and by the simulation."""
    shorter, longer = aged(80), aged(160)
    before, after = shorter.sizes(), longer.sizes()
    assert after["plans"] < 200
    assert all(after[topic] < 1.5 * before[topic] for topic in after), (before, after)
    log, topics = longer.cluster.log, longer.topics
    standings, jobs = read_standings(log, Partition(topics.assignments, 0)), read_jobs(log, topics)
    assert list(jobs.admitted.running()) == [next(iter(jobs.admitted.plans()))]
    assert len(standings) < 200
    begins = positions(log, topics, jobs)
    starts = log.offsets(begins, "start")
    assert all(0 < starts[where] <= begins[where] for where in begins)

"""Which records make up a batch that ends its workers, and what users read of it."""

from __future__ import annotations

import pytest

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, Change, Deadly, unit_key
from holdfast.schemas.cuts import Cut, Range, encode
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.log.late import cut_ranges as ranges
from holdfast.services.log.late.cut_ranges import records_of
from tests.unit.controller.cluster import CLUSTER, Cluster, job

DEADLY = Deadly(3, "w2", 2)


def running() -> tuple[Cluster, Partition]:
    """A job whose two source tasks have cut batches 1 to 3; that of the second one was proposed twice."""
    cluster = Cluster()
    cluster.start("w1")
    cluster.submit(job())
    cluster.pass_s(1)
    where = Partition(CLUSTER.job("job", cluster.plan().generation).cuts, 0)
    for batch in (1, 2, 3):
        for task in (0, 1):
            size = 10 * (batch - 1) if task else 5
            start = (10 if batch == 3 else 0) if task else 5 * (batch - 1)
            prev = Id("w", 10 * (batch - 1) + task) if batch > 1 else None
            cut = Cut(f"s-{task}", batch, (Range(task, start, start + size),), 0, Id("w", 10 * batch + task), prev)
            cluster.log.put(where, encode(cut), None, None)
    late = Cut("s-1", 2, (Range(1, 0, 99),), 0, Id("x", 1), Id("w", 11))
    cluster.log.put(where, encode(late), None, None)
    cluster.log.put(where, b"no record", None, None)
    return cluster, where


def test_the_records_of_a_batch_are_those_of_its_valid_cuts() -> None:
    cluster, where = running()
    assert records_of(cluster.log, cluster.plan(), where, 2) == "in[0] 5-9, in[1] 0-9"
    assert records_of(cluster.log, cluster.plan(), where, 1) == "in[0] 0-4"


def test_a_batch_that_was_never_cut_begins_behind_the_last() -> None:
    cluster, where = running()
    assert records_of(cluster.log, cluster.plan(), where, 4) == "in[0] 15-, in[1] 30-"


def test_a_batch_far_from_the_end_is_found_by_reading_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, where = running()
    monkeypatch.setattr(ranges, "STRETCHES", (2, 4, 100))
    assert records_of(cluster.log, cluster.plan(), where, 1) == "in[0] 0-4"


def test_the_job_of_a_unit_in_quarantine_has_failed_with_its_cause_and_records() -> None:
    cluster, _ = running()
    plan = cluster.plan()
    name = plan.units[0].name
    unit = unit_key("job", plan.generation, name)
    epoch = max(change.epoch for change in cluster.changes() if change.unit == unit) + 1
    record = Assignment("r", cluster.now_ms, (Change(unit, epoch, deadly=DEADLY),))
    cluster.append(CLUSTER.assignments, assignments.encode(record))
    cluster.pass_s(1)
    status = cluster.statuses()[-1]
    cause = f"{name} is in quarantine: {DEADLY}; its records: in[0] 5-9, in[1] 0-9"
    assert (status.state, status.error) == ("failed", cause)
    assert [event.detail for event in cluster.events() if event.kind == "job-failed"] == [cause]
    assert not [change for change in cluster.changes() if change.unit == unit and change.epoch > epoch], "it stays so"
    cluster.command("cancel")
    cluster.pass_s(2)
    assert cluster.states()[-1] == "ended"

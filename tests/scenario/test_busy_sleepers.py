"""A suspended copy leaves an input that is too busy, comes back, and can still take over."""

from __future__ import annotations

import pytest

from holdfast.schemas.assignments import Flags
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit import input_choice
from holdfast.services.worker.unit.copy import UnitCopy
from holdfast.services.worker.unit.inputs import intake
from tests.support.memory_cluster import MemoryCluster

JOB = """
name: busy
keep_cuts: true
batch_interval_ms: 5
fault_tolerance: {default: {scheme: none}, checkpoint: {interval_ms: 50}}
sources: {readings: {topic: in, fields: {key: string, x: int}}}
operators: {count: {aggregate: {n: "count()"}, key: [key], input: readings, emit: each}}
queries: {counts: {input: count, sink: {topic: out}}}
placement: {units: [[readings], [count, counts]]}
"""
HOT = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)
LIMIT, RETURN_MS = 4_000, 300


class Busy:
    """Its stateful unit runs on w1 and sleeps on w2; its source runs on w3."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(JOB)
        self.fed = 0
        self.first, self.second = self.cluster.start("w1"), self.cluster.start("w2")
        source, counting = sorted(self.cluster.units, key=lambda unit: "count" in unit)
        self.counting = counting
        self.cluster.place({source: [self.cluster.start("w3")], counting: [self.first, (self.second, HOT)]})
        self.cluster.turn(100)

    def feed(self, times: int) -> None:
        for _ in range(times):
            records = [{"key": f"k{x % 7}", "x": x} for x in range(self.fed, self.fed + 20)]
            self.fed += len(records)
            self.cluster.feed("readings", records)
            self.cluster.turn(10)

    def freeze_first(self) -> None:
        """No checkpoint of it lets the suspended copy drop anything."""
        del self.cluster.workers["w1"]

    def held_bytes(self) -> int:
        """What the suspended one keeps of its inputs."""
        state = suspended(self.second).running
        assert state is not None
        return sum(kept for _, kept in state.intake.inputs.kept_bytes())

    def check(self) -> None:
        self.cluster.run_to_end()
        rows = self.cluster.rows("counts")
        assert len(rows) == self.fed
        assert {(row["key"], row["n"]) for row in rows} == {(f"k{x % 7}", x // 7 + 1) for x in range(self.fed)}


def suspended(worker: Worker) -> UnitCopy:
    (only,) = worker._copies.here.values()
    return only


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Busy:
    monkeypatch.setattr(intake, "SUSPENDED_INPUT_BYTES", LIMIT)
    monkeypatch.setattr(input_choice, "RETURN_MS", RETURN_MS)
    return Busy()


def test_held_input_is_bounded_and_a_takeover_reads_the_rest_again(busy: Busy) -> None:
    busy.feed(5)
    busy.freeze_first()
    busy.feed(RETURN_MS // 5)
    assert LIMIT < busy.held_bytes() < 2 * LIMIT
    busy.cluster.place({busy.counting: [busy.second]})
    busy.feed(5)
    busy.check()


def test_a_suspended_copy_holds_input_again_after_a_burst(busy: Busy) -> None:
    busy.freeze_first()
    busy.feed(25)
    assert busy.held_bytes() > LIMIT
    busy.cluster.workers["w1"] = busy.first
    busy.cluster.turn(2 * RETURN_MS)
    assert busy.held_bytes() == 0
    busy.freeze_first()
    busy.feed(2)
    assert busy.held_bytes() > 0
    busy.cluster.place({busy.counting: [busy.second]})
    busy.check()


def test_a_suspended_copy_holds_no_input_that_another_unit_on_its_worker_may_wait_for(
    busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_INPUT_BYTES", LIMIT // 8)
    monkeypatch.setattr(intake, "MAX_INPUT_BATCHES", 2)
    busy.freeze_first()
    for _ in range(25):
        busy.feed(1)
        assert busy.second._data._held == {}
    assert 0 < busy.held_bytes() < LIMIT
    busy.cluster.place({busy.counting: [busy.second]})
    busy.check()

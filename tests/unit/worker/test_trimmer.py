"""When a copy trims; it asks for one trim at a time, and loses none of what it wants meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from holdfast.schemas.topics import Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.hosting.blocking_calls import Call, Done
from holdfast.services.worker.unit.checkpoints.trimmer import ANCHOR_MS, OUTPUT_MS, PATIENCE, Trimmer

P, Q = Partition("data", 0), Partition("data", 1)


class Queue:
    """Blocking of which the test answers the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Call, Done]] = []

    def run(self, call: Call, done: Done, lane: str = "", soon: bool = True) -> None:
        self.calls.append((call, done))

    def answer(self) -> None:
        call, done = self.calls.pop(0)
        done(call())


def test_trims_wait_for_the_one_under_way_and_go_together() -> None:
    """On a slow way to the broker a restore waited behind 62 of them (simulation: standby, seed 388)."""
    queue = Queue()
    trimmed: list[dict[Partition, int]] = []
    around: Any = SimpleNamespace(clock_ms=lambda: 0.0, restores=queue, log=SimpleNamespace(trim=trimmed.append))
    nothing: Any = SimpleNamespace(tasks=())
    trimmer = Trimmer(nothing, nothing, Partition("checkpoints", 0), around)
    for upto in ({P: 1}, {P: 2, Q: 1}, {Q: 3}):
        trimmer._delete(upto)
        assert len(queue.calls) == 1
    queue.answer()
    queue.answer()
    assert trimmed == [{P: 1}, {P: 2, Q: 3}]
    assert not queue.calls


def test_a_trim_waits_for_a_turn_that_comes_anyway_and_then_asks_for_one() -> None:
    around: Any = SimpleNamespace(clock_ms=lambda: 0.0)
    nothing: Any = SimpleNamespace(tasks=(), readers={})
    trimmer, late_ms = Trimmer(nothing, nothing, Partition("checkpoints", 0), around), PATIENCE * OUTPUT_MS
    assert trimmer.next_deadline(still=False) == late_ms
    trimmer.trim(CheckpointLog(), 1, OUTPUT_MS - 1)
    assert trimmer.next_deadline(still=False) == late_ms, "it is too soon"
    trimmer.trim(CheckpointLog(), 1, OUTPUT_MS + 100)
    assert trimmer.next_deadline(still=False) == OUTPUT_MS + 100 + late_ms
    assert trimmer.next_deadline(still=True) == ANCHOR_MS

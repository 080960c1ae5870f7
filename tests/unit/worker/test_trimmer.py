"""A copy asks for one trim at a time, and loses none of what it wants meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from schemas.topics import Partition
from services.hosting.blocking import Call, Done
from services.worker.unit.trimmer import Trimmer

P, Q = Partition("data", 0), Partition("data", 1)


class Queue:
    """Blocking of which the test answers the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Call, Done]] = []

    def run(self, call: Call, done: Done, lane: str = "") -> None:
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

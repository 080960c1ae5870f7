"""Deliberate bugs of what a reader makes of a broker that lost a leader or records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from holdfast.schemas.topics import Partition
from holdfast.services.controller import ends
from holdfast.services.decisions.cuts import CutLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.checkpoint import restore
from holdfast.services.worker.unit.facts import beside
from holdfast.services.worker.unit.turns.running_copy import RunningCopy


def absent_leader_believed() -> AbstractContextManager[object]:
    """Believes an answer about a partition whose leader is away: it begins and ends at 0, so it is empty.

    A position is none, a checkpoint log is without a marker, a drain ends before its source. Alone it does not show:
    what was acknowledged and what is cut contradict it. It is part of the two bugs below.
    """

    def offsets(self: MemoryLog, partitions: Any, at: Any) -> dict[Partition, int]:
        return {p: 0 if p in self.away else true_offsets(self, [p], at)[p] for p in partitions}

    def scan(self: MemoryLog, partition: Partition, start: int | None = None) -> Any:
        return iter(()) if partition in self.away else true_scan(self, partition, start)

    def last(self: MemoryLog, partition: Partition, settled: bool = False) -> Any:
        return None if partition in self.away else true_last(self, partition, settled)

    def tail(self: MemoryLog, partition: Partition, settled: bool = False) -> Any:
        return () if partition in self.away else true_tail(self, partition, settled)

    true_offsets, true_scan, true_last, true_tail = MemoryLog.offsets, MemoryLog.scan, MemoryLog.last, MemoryLog.tail
    return mock.patch.multiple(MemoryLog, offsets=offsets, scan=scan, last=last, tail=tail)


@contextmanager
def drained_by_anything() -> Iterator[None]:
    """Besides, a drain is valid whatever its ends are, and nobody compares them with what is cut."""
    with (
        absent_leader_believed(),
        mock.patch.object(CutLog, "_drains", return_value=True),
        mock.patch.object(ends, "_compare", return_value=None),
    ):
        yield


@contextmanager
def position_gone_unnoticed() -> Iterator[None]:
    """Besides, no marker says up to where rows were delivered, and nobody asks what was acknowledged."""

    def unknowing(log: Any, partition: Partition, image: Any, acked: int, *rest: Any) -> Any:
        return restore.rebuild(log, partition, image, 0, *rest)

    def moment(self: RunningCopy) -> Any:
        return replace(true_moment(self), position=0)

    true_moment = RunningCopy.moment
    with (
        absent_leader_believed(),
        mock.patch.object(beside, "rebuild", unknowing),
        mock.patch.object(RunningCopy, "moment", moment),
    ):
        yield

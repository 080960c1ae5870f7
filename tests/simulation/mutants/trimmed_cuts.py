"""Deliberate bugs of the trimming of the cut log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from holdfast.schemas.cuts import CutsSnapshot, KnownSnapshot
from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import Partition
from holdfast.services.log.late.cut_logs import commit_at
from holdfast.services.log.memory import MemoryReader
from holdfast.services.log.protocol import Chunk, Log
from holdfast.services.worker.core.cut_trims import CutTrims
from holdfast.services.worker.core.trim_limit import acknowledged
from holdfast.services.worker.sources import cut_trimmer
from holdfast.services.worker.sources.cut_trimmer import CutTrimmer


def cuts_trimmed_too_far() -> AbstractContextManager[object]:
    """The cut log is trimmed to the newest snapshot, also past where a unit restarts."""

    def upto(
        self: CutTrims,
        known: Sequence[KnownSnapshot],
        units: Iterable[str],
        progress: Mapping[str, Progress],
        now_ms: float,
    ) -> int | None:
        newest = max((one.upto for one in known), default=0)
        return newest if newest > self.trimmed else None

    return mock.patch.object(CutTrims, "upto", upto)


@contextmanager
def cuts_trimmed_to_an_own_estimate() -> Iterator[None]:
    """Trims to the lowest restart position, whether a snapshot of the log names that or not."""

    def upto(
        self: CutTrims,
        known: Sequence[KnownSnapshot],
        units: Iterable[str],
        progress: Mapping[str, Progress],
        now_ms: float,
    ) -> int | None:
        restart = acknowledged(self.cut_log, units, progress)
        return restart if restart > self.trimmed else None

    def trim(self: CutTrimmer, upto: int) -> int:
        self._around.log.trim({self._partition: upto})
        return upto

    with mock.patch.object(CutTrims, "upto", upto), mock.patch.object(CutTrimmer, "_trim", trim):
        yield


def last_commit_trimmed() -> AbstractContextManager[object]:
    """The commit log is trimmed to where the cuts end, and not to the commit before."""
    true = cut_trimmer.commits_needed

    def needed(plan: Plan, state: CutsSnapshot) -> dict[Partition, int]:
        return {partition: upto + 1 for partition, upto in true(plan, state).items()}

    return mock.patch.object(cut_trimmer, "commits_needed", needed)


def rows_trimmed_too_far() -> AbstractContextManager[object]:
    """Trims Spark's input to where it wrote last, and not to what it may have to read again."""

    def needed(log: Log, plan: Plan, commits: Mapping[Partition, int]) -> dict[Partition, int]:
        topics = [spark.topic for spark in plan.spark if spark.writers]
        partitions = [Partition(topic, index) for topic in topics for index in range(log.topics()[topic])]
        return log.offsets(partitions, "end")

    return mock.patch.object(cut_trimmer, "rows_needed", needed)


def rows_trimmed_by_another_input() -> AbstractContextManager[object]:
    """Trims an input that sink tasks write to the position of Spark's first input."""
    true = cut_trimmer.rows_needed

    def needed(log: Log, plan: Plan, commits: Mapping[Partition, int]) -> dict[Partition, int]:
        found = true(log, plan, commits)
        ends = log.offsets(found, "end")
        for partition, at in commits.items():
            (spark,) = plan.spark
            first = commit_at(log, partition, at).start[spark.topic]
            found |= {one: min(ends[one], first.get(one.index, 0)) for one in found}
        return found

    return mock.patch.object(cut_trimmer, "rows_needed", needed)


def read_on_after_a_gap() -> AbstractContextManager[object]:
    """A reader whose position in the cut log is gone continues where the log begins now."""
    true = MemoryReader._read

    def read(self: MemoryReader, partition: Partition, stored: Any, count: int) -> Chunk | None:
        if partition.topic.endswith(".cuts"):
            self._positions[partition] = max(self._positions[partition], stored.start)
        return true(self, partition, stored, count)

    return mock.patch.object(MemoryReader, "_read", read)

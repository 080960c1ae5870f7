"""Precision `gap`: what the logs say of skipped batches must fit together. And deliberate bugs of these rules.

Whether as many records were skipped as are counted lost, and whether the results lack these and no others, a replay
finds (services/audit): MECHANISMS A2, docs/decisions/0102.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from holdfast.schemas import checkpoints, cuts
from holdfast.schemas.checkpoints import SKIPPED, Marker
from holdfast.schemas.cuts import Gap
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.decisions.gaps import skipping_units
from holdfast.services.worker.unit.batches.batch_processor import BatchProcessor
from holdfast.services.worker.unit.batches.gap_skip import GapSkip, Phase
from tests.simulation.kafka.broker import Written


def check(written: Sequence[Written], plan: Plan, topics: JobTopics, drained: bool) -> Iterator[str]:
    """Every gap lies behind the marker before its own, is counted in every marker since, and noted in the cut log.

    Args:
        drained: the job has come to its end, so nobody may yet note what is missing there.
    """
    units = {unit.partition: unit.name for unit in plan.units if unit.name in skipping_units(plan)}
    folds = {Partition(topics.checkpoints, partition): CheckpointLog() for partition in units}
    skipped, valid = Counter[str](), dict[tuple[str, int], Gap]()
    noted = set[Gap]()
    for one in written:
        if one.partition in folds:
            unit, fold = units[one.partition.index], folds[one.partition]
            before = fold.last_b
            try:
                run = fold.read(one.offset, checkpoints.decode(one.value))
            except msgspec.DecodeError:
                continue
            if run is not None:
                yield from _marked(unit, run.marker, before, skipped, valid)
        elif one.partition.topic == topics.cuts and units:
            record = cuts.decode(one.value)
            if isinstance(record, Gap):
                noted.add(record)
                if valid.get((record.unit, record.after)) != record:
                    yield f"gap: {one.author} notes {record}, which no valid marker says"
    if drained:
        yield from (f"gap: {gap} is not in the cut log" for gap in valid.values() if gap not in noted)


def _marked(
    unit: str, marker: Marker, before: int, skipped: Counter[str], valid: dict[tuple[str, int], Gap]
) -> Iterator[str]:
    gap = marker.gap
    if gap is not None:
        skipped[unit] += gap.records
        valid[unit, gap.after] = gap
        if (gap.unit, gap.after, gap.upto) != (unit, before, marker.b):
            yield f"gap: the marker of {unit} for batch {marker.b} behind batch {before} says {gap}"
    if (counted := marker.counts.get(SKIPPED, 0)) != skipped[unit]:
        yield f"gap: {unit} counts {counted} skipped records as of batch {marker.b}, and has skipped {skipped[unit]}"


# -- bugs -------------------------------------------------------------------------------------------------------------


def skipped_records_not_counted() -> AbstractContextManager[object]:
    """Leaves skipped records out of the lost records of the unit."""
    true = BatchProcessor.pass_over

    def pass_over(self: BatchProcessor) -> int:
        counts = dict(self.counts)
        found = true(self)
        self.counts = counts
        return found

    return mock.patch.object(BatchProcessor, "pass_over", pass_over)


def one_batch_not_counted() -> AbstractContextManager[object]:
    """The batch behind the marker counts as if it had brought nothing."""
    true = GapSkip._begin

    def begin(self: Any) -> None:
        true(self)
        if not self._reached and self._intake.ready(self._processing.batch + 1):
            counts = dict(self._processing.counts)
            self._processing.pass_over()
            self._processing.counts = counts | {SKIPPED: counts.get(SKIPPED, 0)}

    return mock.patch.object(GapSkip, "_begin", begin)


def continued_before_the_gap_is_valid() -> AbstractContextManager[object]:
    """Batches behind the skipped ones are done at once; the marker that says what was skipped is one like any other."""
    true = GapSkip._end

    def end(self: Any) -> None:
        with mock.patch.object(self._checkpointer.writer, "begin"):
            true(self)
        self._phase = Phase.DONE

    return mock.patch.object(GapSkip, "_end", end)


def gap_not_noted() -> AbstractContextManager[object]:
    """Only the checkpoint log says that batches were skipped."""

    def note(self: Any, gap: Gap, then: Phase) -> None:
        self._phase, self._unnoted = then, None
        self._wake()

    return mock.patch.object(GapSkip, "_note", note)


def gap_of_another_copy_not_noted() -> AbstractContextManager[object]:
    """A copy that skips batches and dies before it has noted that leaves it to nobody."""
    true = GapSkip.due_ms

    def due_ms(self: Any, seen: Any) -> float:
        self._unnoted = None
        return float(true(self, seen))

    return mock.patch.object(GapSkip, "due_ms", due_ms)

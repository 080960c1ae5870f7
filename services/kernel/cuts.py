"""The cut log as every reader folds it: which cuts are valid, and what the controls between them say.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from schemas.checkpoints import CutsSnapshot, TaskCuts
from schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Control, Cut, CutRecord, Range
from services.kernel.decided import LastValid


def beginning(first: Mapping[str, Mapping[int, int]]) -> CutsSnapshot:
    """The cut log before its first record. first: task -> partition -> first offset, as the plan pins them."""
    tasks = {
        task: TaskCuts(
            last=None,
            batch=0,
            ranges=tuple(Range(p, offset, offset) for p, offset in sorted(positions.items())),
            watermark=NO_WATERMARK,
            idle=False,
            final=False,
        )
        for task, positions in first.items()
    }
    return CutsSnapshot(upto=0, tasks=tasks)


class CutLog:
    """Folds the records of one job's cut log in offset order."""

    def __init__(self, start: CutsSnapshot) -> None:
        self._tasks = dict(start.tasks)
        self._last = LastValid({task: cuts.last for task, cuts in start.tasks.items()})
        self._loaded = {task: cuts.batch for task, cuts in start.tasks.items() if _is_loaded(cuts)}
        self._control_offset = start.control_offset
        self.paused = start.paused
        self.ends = start.ends
        self.upto = start.upto

    def task(self, name: str) -> TaskCuts:
        """The last valid cut of a source task."""
        return self._tasks[name]

    @property
    def tasks(self) -> Mapping[str, TaskCuts]:
        return self._tasks

    @property
    def newest_batch(self) -> int:
        """The highest batch that any source task has cut."""
        return max((cuts.batch for cuts in self._tasks.values()), default=0)

    def loaded(self, tables: Collection[str]) -> int | None:
        """The first batch from which all of these tables are there; None: one of them is still being loaded.

        Of what was loaded before the fold began, a later batch may be named.
        """
        if not self._loaded.keys() >= set(tables):
            return None
        return max((self._loaded[table] for table in tables), default=0)

    def read(self, offset: int, record: CutRecord) -> bool:
        """Takes the record at `offset`; False if it is invalid (or was folded already) and so changes nothing."""
        if offset < self.upto:
            return False
        self.upto = offset + 1
        return self._control(record) if isinstance(record, Control) else self._cut(record)

    def snapshot(self) -> CutsSnapshot:
        """The state after all records below `upto`: a reader may start from it."""
        return CutsSnapshot(
            upto=self.upto,
            tasks=dict(self._tasks),
            control_offset=self._control_offset,
            paused=self.paused,
            ends=self.ends,
        )

    def _cut(self, cut: Cut) -> bool:
        before = self._tasks.get(cut.task)
        if before is None or self.paused or not self._last.fits(cut.task, cut.prev) or not _follows(before, cut):
            return False
        if cut.final and self.ends is None:
            return False
        self._last.accept(cut.task, cut.id)
        self._tasks[cut.task] = TaskCuts(cut.id, cut.batch, cut.ranges, cut.watermark, cut.idle, cut.final)
        if _is_loaded(self._tasks[cut.task]):
            self._loaded.setdefault(cut.task, cut.batch)
        return True

    def _control(self, control: Control) -> bool:
        if control.offset <= self._control_offset or self.ends is not None:
            return False
        self._control_offset = control.offset
        self.paused = control.kind == "pause"
        if control.kind == "drain":
            self.ends = control.ends
        return True


def _is_loaded(cuts: TaskCuts) -> bool:
    """Meant for tables; of other sources only the end counts as such."""
    return cuts.final or cuts.watermark >= LOADED_WATERMARK


def _follows(before: TaskCuts, cut: Cut) -> bool:
    """The local condition: the next batch, every partition from where the last cut ended, no step back in time."""
    return (
        not before.final
        and cut.batch == before.batch + 1
        and cut.watermark >= before.watermark
        and len(cut.ranges) == len(before.ranges)
        and all(
            new.partition == old.partition and new.start == old.stop and new.stop >= new.start
            for new, old in zip(cut.ranges, before.ranges, strict=True)
        )
    )

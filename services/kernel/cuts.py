"""The cut log as every reader folds it: which cuts are valid, and what the controls between them say.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from schemas.checkpoints import CutsSnapshot, TaskCuts
from schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Control, Cut, CutRecord, Range
from schemas.plans import Plan
from services.kernel.decided import LastValid
from services.kernel.planning.layout import commit_logs, task_name


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


def of_plan(
    plan: Plan, known: CutsSnapshot | None = None, own: Collection[str] = (), skipped: Collection[int] = ()
) -> CutLog:
    """The cut log of a job.

    Args:
        known: its state as of some offset; default: before its first record.
        own: tasks whose state is known for sure. skipped: offsets of records that are passed over; of the other tasks
            a state behind one of them is forgotten, and the log read once more.
    """
    first = {
        task_name(source.operator, index): {partition: source.first[partition] for partition in owned}
        for source in plan.sources
        for index, owned in enumerate(source.owners)
    }
    start = beginning(first)
    if known is not None and any(offset < known.upto for offset in skipped):
        start = replace(start, tasks=start.tasks | {task: known.tasks[task] for task in own if task in known.tasks})
    elif known is not None:
        start = known
    return CutLog(start, growing(plan))


def growing(plan: Plan) -> dict[str, Share]:
    """By source task, its share of a topic whose new partitions are read, too.

    No table grows: rows of one key would lie in two partitions, and nobody knows their order. Nor does a commit log.
    """
    fixed = {name for name, source in plan.spec["sources"].items() if source.get("table")}
    logs = commit_logs(plan)
    return {
        task_name(source.operator, index): Share(index, len(source.owners))
        for source in plan.sources
        if source.operator not in fixed and source.topic not in logs
        for index in range(len(source.owners))
    }


def owned(plan: Plan, partitions: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The partitions of each source task, by topics that have so many now."""
    shares, found = growing(plan), {}
    for source in plan.sources:
        for index, own in enumerate(source.owners):
            name = task_name(source.operator, index)
            new = shares[name].joining(len(own), partitions.get(source.topic, 0)) if name in shares else ()
            found[name] = (*own, *(r.partition for r in new))
    return found


@dataclass(frozen=True, slots=True)
class Share:
    """Task `index` of `tasks`: of a topic it owns the partitions index, index + tasks, index + 2 tasks, ..."""

    index: int
    tasks: int

    def joining(self, owned: int, partitions: int) -> tuple[Range, ...]:
        """Of a topic with so many partitions, those that a task which owns `owned` of them does not have yet.

        A partition joins at offset 0, its first record; nothing of it can have been cut before.
        """
        return tuple(Range(p, 0, 0) for p in range(self._nth(owned), partitions, self.tasks))

    def adds(self, owned: int, added: Sequence[Range]) -> bool:
        """Whether these are the next partitions of the task, none left out, each at its start."""
        return all(new == Range(self._nth(owned + at), 0, 0) for at, new in enumerate(added))

    def _nth(self, owned: int) -> int:
        return self.index + self.tasks * owned


class CutLog:
    """Folds the records of one job's cut log in offset order.

    Args:
        growing: by source task, its share of a topic that may grow; the others keep the partitions they have.
    """

    def __init__(self, start: CutsSnapshot, growing: Mapping[str, Share] | None = None) -> None:
        self._tasks = dict(start.tasks)
        self._growing = growing or {}
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

    def joining(self, task: str, partitions: int) -> tuple[Range, ...]:
        """What the task's next cut must add to its ranges when its topic has so many partitions."""
        share = self._growing.get(task)
        return () if share is None else share.joining(len(self._tasks[task].ranges), partitions)

    def grows(self, task: str) -> bool:
        """Whether new partitions of its topic join the task."""
        return task in self._growing

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
        if before is None or self.paused or not self._last.fits(cut.task, cut.prev):
            return False
        if not _follows(before, cut) or not self._adds(before, cut):
            return False
        if cut.final and self.ends is None:
            return False
        self._last.accept(cut.task, cut.id)
        self._tasks[cut.task] = TaskCuts(cut.id, cut.batch, cut.ranges, cut.watermark, cut.idle, cut.final)
        if _is_loaded(self._tasks[cut.task]):
            self._loaded.setdefault(cut.task, cut.batch)
        return True

    def _adds(self, before: TaskCuts, cut: Cut) -> bool:
        """Whether what the cut adds to the ranges of the last one are the task's next partitions.

        Which partition is whose follows from its number alone, so no two tasks can take the same.
        """
        added = cut.ranges[len(before.ranges) :]
        share = self._growing.get(cut.task)
        return not added or (share is not None and share.adds(len(before.ranges), added))

    def _control(self, control: Control) -> bool:
        if control.offset <= self._control_offset or self.ends is not None:
            return False
        if control.kind == "drain" and not self._drains(control.ends):
            return False
        self._control_offset = control.offset
        self.paused = control.kind == "pause"
        if control.kind == "drain":
            self.ends = control.ends
        return True

    def _drains(self, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """The local condition of a drain: an offset for every partition of every task.

        One that is missing, or that is none (librdkafka has answered -1001), would end a task before its records. An
        end below what is cut is none of these: a task goes on cutting while the ends are on their way, and has reached
        that end. Whoever asks for the ends compares them with what was cut before (services/controller/conductor.py).
        """
        return ends.keys() >= self._tasks.keys() and all(
            ends[task].get(one.partition, -1) >= 0 for task, cuts in self._tasks.items() for one in cuts.ranges
        )


def _is_loaded(cuts: TaskCuts) -> bool:
    """Meant for tables; of other sources only the end counts as such."""
    return cuts.final or cuts.watermark >= LOADED_WATERMARK


def _follows(before: TaskCuts, cut: Cut) -> bool:
    """The local condition: the next batch, every partition from where the last cut ended, no step back in time.

    Partitions that the last cut did not have come behind the others.
    """
    return (
        not before.final
        and cut.batch == before.batch + 1
        and cut.watermark >= before.watermark
        and len(cut.ranges) >= len(before.ranges)
        and all(
            new.partition == old.partition and new.start == old.stop and new.stop >= new.start
            for new, old in zip(cut.ranges, before.ranges, strict=False)
        )
    )

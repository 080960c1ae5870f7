"""Fold of the cut log by every reader: the valid cuts, and the effect of the controls between them.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import structs

from holdfast.schemas.cuts import (
    LOADED_WATERMARK,
    Answered,
    Control,
    Cut,
    CutRecord,
    CutsSnapshot,
    Gap,
    KnownSnapshot,
    Leading,
    Leads,
    Raised,
    Range,
    Replaced,
    Snapshot,
    TaskCuts,
)
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.cut_snapshots import Snapshots
from holdfast.services.decisions.decided import LastValid
from holdfast.services.decisions.raises import Raises, may_raise
from holdfast.services.decisions.shares import Share, beginning_of, shares


def of_plan(
    plan: Plan,
    known: CutsSnapshot | None = None,
    own: Collection[str] = (),
    skipped: Collection[int] = (),
    base: CutsSnapshot | None = None,
) -> CutLog:
    """Returns the cut log of a job.

    Args:
        known: its state as of some offset; default: its beginning.
        own: tasks whose state is certain. skipped: offsets of records that are passed over; of all other tasks, a state
            after one of these is dropped, and the log is read again.
        base: the state with which the log begins; None: it is not trimmed.
    """
    start = base or beginning_of(plan)
    if known is not None and any(start.upto <= offset < known.upto for offset in skipped):
        tasks = {task: known.tasks[task] for task in own if task in known.tasks}
        start = structs.replace(start, tasks=start.tasks | tasks)
    elif known is not None:
        start = known
    return CutLog(start, shares(plan), may_raise(plan))


class CutLog:
    """Folds the records of one job's cut log in offset order.

    Args:
        shares: by source task, its share of the user's topic; a task without one keeps its partitions.
        raising: units whose code may raise.
    """

    def __init__(
        self, start: CutsSnapshot, shares: Mapping[str, Share] | None = None, raising: Collection[str] = ()
    ) -> None:
        self._tasks = dict(start.tasks)
        self._shares = shares or {}
        self._topics = dict(start.topics)
        self.replaced = dict(start.replaced)
        self._last = LastValid({task: cuts.last for task, cuts in start.tasks.items()})
        self._loaded = {task: cuts.batch for task, cuts in start.tasks.items() if _is_loaded(cuts)}
        self._snapshots = Snapshots(start)
        self._raises = Raises(raising, start.leads)
        self._control_offset = start.control_offset
        self.paused = start.paused
        self.level = start.level
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
        """Returns the first batch, or a later one, from which all of these tables are loaded; None: one is loading."""
        if not self._loaded.keys() >= set(tables):
            return None
        return max((self._loaded[table] for table in tables), default=0)

    def leading(self, unit: str) -> Leading | None:
        """Returns the leader of a unit whose code may raise, and the last batch in which it did; None before the
        first leader.
        """
        return self._raises.of(unit)

    def joining(self, task: str, partitions: int) -> tuple[Range, ...]:
        """Returns the ranges that the task's next cut must add if its topic has this number of partitions."""
        share = self._shares.get(task)
        return () if share is None else share.joining(len(self._tasks[task].ranges), partitions)

    def known(self, source: str) -> tuple[str, ...]:
        """Returns the ids of the topics that a source has read, the present one last; empty if they are not known."""
        return self._topics.get(source, ())

    def partitions(self, source: str) -> int:
        """Number of partitions that a source has now."""
        return sum(len(self._tasks[task].ranges) for task in self._tasks_of(source))

    @property
    def control_offset(self) -> int:
        """Offset in `jobs.submit` of the last control; -1: there was none."""
        return self._control_offset

    @property
    def is_level(self) -> bool:
        """True if every source task that has not ended has cut the newest batch."""
        return all(cuts.final or cuts.batch == self.newest_batch for cuts in self._tasks.values())

    @property
    def rests(self) -> int:
        """The batch at which the job is paused, once every source task has reached it; 0: not yet, or no such pause."""
        return self.newest_batch if self.paused and self.level and self.is_level else 0

    def admits(self, batch: int) -> bool:
        """False if no cut of this batch can be valid now.

        A pause that levels admits the newest batch and earlier ones; every other pause admits none.
        """
        if self.replaced:
            return False
        return not self.paused or (self.level and batch <= self.newest_batch)

    def read(self, offset: int, record: CutRecord) -> bool:
        """Takes the record at `offset`; False if it is invalid, or was folded already, and changes nothing."""
        if offset < self.upto:
            return False
        if isinstance(record, Snapshot):
            valid = self._snapshots.read(record, self.snapshot())
            self.upto = offset + 1
            return valid
        self.upto = offset + 1
        if isinstance(record, Cut):
            before = self._tasks.get(record.task)
            valid = self._cut(record)
            if valid and before is not None:
                self._snapshots.cut(offset, record.task, before)
            return valid
        if isinstance(record, Leads | Raised):
            leading = self._raises.of(record.unit)
            valid = self._raises.read(record, self.newest_batch)
            if valid:
                self._snapshots.led(offset, record.unit, leading)
            return valid
        if isinstance(record, Gap | Answered):
            return True  # a fact
        valid = self._control(record) if isinstance(record, Control) else self._replace(record)
        if valid:
            self._snapshots.turned(offset)
        return valid

    @property
    def snapshots(self) -> tuple[KnownSnapshot, ...]:
        """The newest valid snapshots in the log, in order."""
        return self._snapshots.known

    def snapshot(self) -> CutsSnapshot:
        """Returns the state after all records below `upto`, from which a reader may start."""
        return CutsSnapshot(
            upto=self.upto,
            tasks=dict(self._tasks),
            control_offset=self._control_offset,
            paused=self.paused,
            ends=self.ends,
            topics=dict(self._topics),
            replaced=dict(self.replaced),
            snapshots=self._snapshots.known,
            leads=self._raises.leads,
            level=self.level,
        )

    def _cut(self, cut: Cut) -> bool:
        before = self._tasks.get(cut.task)
        if before is None or not self.admits(cut.batch) or not self._last.fits(cut.task, cut.prev):
            return False
        if not _follows(before, cut) or not self._adds(before, cut):
            return False
        if cut.final and self.ends is None:
            return False
        self._last.accept(cut.task, cut.id)
        self._tasks[cut.task] = TaskCuts(cut.id, cut.batch, cut.ranges, cut.watermark, idle=cut.idle, final=cut.final)
        if _is_loaded(self._tasks[cut.task]):
            self._loaded.setdefault(cut.task, cut.batch)
        return True

    def _adds(self, before: TaskCuts, cut: Cut) -> bool:
        """True if the ranges that the cut adds to the last one's are the task's next partitions.

        The number of a partition alone determines its owner, so no two tasks can take the same one.
        """
        added = cut.ranges[len(before.ranges) :]
        share = self._shares.get(cut.task)
        return not added or (share is not None and share.adds(len(before.ranges), added))

    def _control(self, control: Control) -> bool:
        if control.offset <= self._control_offset or self.ends is not None:
            return False
        if control.kind == "resume" and not self._says_where(control):
            return False
        ends = {**control.ends, **self._where_they_stand(self.replaced)}
        if control.kind == "drain" and not self._drains(ends):
            return False
        self._control_offset = control.offset
        self.paused = control.kind == "pause"
        self.level = self.paused and control.level
        if control.kind == "resume":
            self._begin(control)
        elif control.kind == "drain":
            self.ends = ends
            for name, record in self.replaced.items():
                self._topics[name] = (*self.known(name), record.found)
            self.replaced.clear()
        return True

    def _drains(self, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """True if the drain has an offset for every partition of every task.

        A missing or negative one (librdkafka has answered -1001) would end a task before its records. An end below the
        last cut is allowed: a task continues to cut while the ends are on their way, and has reached that end. The
        author of the ends compares them with earlier cuts (services/controller/ends.py).
        """
        return ends.keys() >= self._tasks.keys() and all(
            ends[task].get(one.partition, -1) >= 0 for task, cuts in self._tasks.items() for one in cuts.ranges
        )

    # -- topics that were replaced ------------------------------------------------------------------------------------

    def _replace(self, record: Replaced) -> bool:
        known = self.known(record.operator)
        fits = known and known[-1] == record.was and record.found and record.found not in known
        if not fits or record.operator in self.replaced:
            return False
        if self.ends is None:
            self.replaced[record.operator] = record
        else:
            self.ends = {**self.ends, **self._where_they_stand({record.operator})}
            self._topics[record.operator] = (*known, record.found)
        return True

    def _says_where(self, control: Control) -> bool:
        """True if a resume names a beginning for every source whose topic was replaced."""
        return all(
            name in control.beginnings
            and control.beginnings[name].topic_id not in ("", *self.known(name))
            and control.beginnings[name].first.keys() == self._tasks_of(name)
            and all(
                self._shares[task].owns(first) and min(first.values(), default=0) >= 0
                for task, first in control.beginnings[name].first.items()
            )
            for name in self.replaced
        )

    def _begin(self, control: Control) -> None:
        """Continues the batches; a cut that was on its way when the topic was replaced no longer fits the last one."""
        for name in self.replaced:
            beginning = control.beginnings[name]
            self._topics[name] = (*self.known(name), beginning.topic_id)
            for task, first in beginning.first.items():
                id = Id("resume", control.offset)
                ranges = tuple(Range(p, offset, offset) for p, offset in sorted(first.items()))
                self._tasks[task] = structs.replace(self._tasks[task], last=id, ranges=ranges, idle=False)
                self._last.accept(task, id)
        self.replaced.clear()

    def _where_they_stand(self, sources: Collection[str]) -> dict[str, dict[int, int]]:
        """Ends at which a drain stops sources whose topics were replaced: later records of the old topics are gone."""
        tasks = {task for name in sources for task in self._tasks_of(name)}
        return {task: {r.partition: r.stop for r in self._tasks[task].ranges} for task in tasks}

    def _tasks_of(self, source: str) -> set[str]:
        return {task for task in self._shares if task.rpartition("-")[0] == source}


def _is_loaded(cuts: TaskCuts) -> bool:
    """True if a table is loaded; for any other source, only its end counts."""
    return cuts.final or cuts.watermark >= LOADED_WATERMARK


def _follows(before: TaskCuts, cut: Cut) -> bool:
    """True if the cut is the next batch, each partition continues at the last cut's end, and time does not go back.

    Partitions that the last cut did not have come after the others.
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

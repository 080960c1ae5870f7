"""Deliberate bugs of decisions: which records count, what snapshots hold, what is trimmed and retired."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock
from zlib import crc32

from msgspec import structs

from holdfast.schemas.assignments import Assignment, Change, Goal, GoalStanding, Snapshot, Standing
from holdfast.schemas.plans import Retirement
from holdfast.schemas.retired import Retired
from holdfast.services.controller.core.goals import Goals
from holdfast.services.controller.core.life import Phase
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.jobs import Jobs, Submissions
from holdfast.services.decisions.snapshots import Trims
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.errors import PositionGone
from holdfast.services.log.late import jobs as log_of_jobs
from holdfast.services.log.late import start as late
from holdfast.services.log.memory import MemoryReader
from holdfast.services.log.protocol import Chunk
from holdfast.services.recovery.assignment_snapshots import AssignmentSnapshots
from tests.simulation.kafka.names import kind_of
from tests.simulation.mutants.bug import method


@method(Assigned, "read")
def any_epoch_valid(true: Any, self: Assigned, record: Any) -> list[Any]:
    """An old record counts as a new one."""
    for change in record.changes:
        known = self._units.get(change.unit)
        if known is not None and change.epoch <= known.epoch:
            del self._units[change.unit]
            if change.epoch > 1:
                self._units[change.unit] = type(change)(change.unit, change.epoch - 1)
    return list(true(self, record))


@method(Standings, "snapshot")
def snapshot_upto_one_too_high(true: Any, self: Standings) -> Snapshot:
    """A snapshot claims the next record, too."""
    made: Snapshot = true(self)
    return structs.replace(made, upto=self.next + 1)


def snapshot_of_invalid_changes() -> AbstractContextManager[object]:
    """A snapshot holds what was proposed last, valid or not."""
    proposed: dict[tuple[int, str], Standing] = {}
    true_read, true_snapshot = Standings.read, Standings.snapshot

    def read(self: Standings, offset: int, record: Assignment) -> list[Change]:
        proposed.update(((id(self), change.unit), Standing(offset, change)) for change in record.changes)
        return true_read(self, offset, record)

    def snapshot(self: Standings) -> Snapshot:
        made: Snapshot = true_snapshot(self)
        units = tuple(proposed.get((id(self), one.change.unit), one) for one in made.units)
        return structs.replace(made, units=units)

    return mock.patch.multiple(Standings, read=read, snapshot=snapshot)


@method(Standings, "snapshot")
def snapshot_without_goals(true: Any, self: Standings) -> Snapshot:
    """A snapshot holds units alone: who begins with it does not know what is wanted of their jobs."""
    made: Snapshot = true(self)
    return structs.replace(made, goals=())


@method(Standings, "_read_goal")
def last_goal_wins(true: Any, self: Standings, offset: int, goal: Goal) -> None:
    """A stop is not final: what is stated behind it counts."""
    self._past.put(offset, goal.job_key, GoalStanding(offset, goal))


def snapshot_taken_for_the_present() -> AbstractContextManager[object]:
    """A late reader continues at the end of the log, and not at the `upto` of the snapshot that it begins with."""
    true = late._from

    def behind(messages: Any, upto: int) -> Any:
        return true(messages, messages[-1].offset())

    def first(found: Any, start: int, plausible: Any) -> Snapshot | None:
        return found[0][1] if found else None

    return mock.patch.multiple(late, _from=behind, base_of=first)


@method(Trims, "due")
def trimmed_to_the_present(true: Any, self: Trims, now_us: int) -> Any:
    """A log is trimmed beyond the snapshot: to what was the end when that was read back."""
    upto = true(self, now_us)
    return upto and {partition: offset + 1 for partition, offset in upto.items()}


@method(Trims, "due")
def trimmed_to_the_last_snapshot(true: Any, self: Trims, now_us: int) -> Any:
    """A late reader finds one snapshot and nothing to compare it with."""
    due = true(self, now_us) is not None
    return self._agreed[-1][1] if due else None


def differing_snapshots_written() -> AbstractContextManager[object]:
    """Two replicas state two things of the same moment, and each believes both."""

    true_write = AssignmentSnapshots._write

    def write(self: AssignmentSnapshots) -> None:
        made = self._known.standings.snapshot()
        if crc32(self._name.encode()) % 2:
            made = structs.replace(made, goals=())
        with mock.patch.object(Standings, "snapshot", return_value=made):
            true_write(self)

    return mock.patch.multiple(AssignmentSnapshots, _write=write, _check=lambda *_: None)


def gap_passed_over() -> AbstractContextManager[object]:
    """A reader that a trim has overtaken continues at the start of the log, as a consumer of Faust does."""
    true = MemoryReader.poll

    def poll(self: MemoryReader, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        try:
            return true(self, timeout_s, max_messages)
        except PositionGone as gone:
            if kind_of(gone.partition.topic) not in ("assignments", "plans", "submit"):
                raise
            self.assign(self._log.offsets([gone.partition], "start"))
            return []

    return mock.patch.object(MemoryReader, "poll", poll)


@method(Goals, "to_retire")
def retired_before_the_end(true: Any, self: Goals, jobs: Any, upto: int, now_ms: int) -> Any:
    """A job whose units are without copies counts as over before its end is decided."""
    before = {job.generation: job.life.phase for job in jobs}
    for job in jobs:
        if self.stop(job) is not None:
            job.life.phase = Phase.ENDED
    try:
        return true(self, jobs, upto, now_ms)
    finally:
        for job in jobs:
            job.life.phase = before[job.generation]


@method(Submissions, "kept")
def commands_forgotten(true: Any, self: Submissions, upto: int, known: Any) -> Any:
    """A snapshot of jobs leaves out what their users have asked for."""
    return ()


@method(Submissions, "decided")
def undecided_job_left_behind(true: Any, self: Submissions, known: Any, retired: Retired) -> int:
    """A snapshot of jobs goes beyond a job that nobody has decided yet: its record is trimmed."""
    return self.next


@method(Jobs, "to_retire")
def newest_job_retired(true: Any, self: Jobs, upto: int, most: int | None) -> Any:
    """Retires jobs beyond those that are decided."""
    retired = true(self, upto, most)
    return retired and structs.replace(retired, below=retired.below + 1)


@method(Assigned, "_retire")
def forgotten_without_a_trace(true: Any, self: Assigned, retired: Retired) -> None:
    """Units of ended jobs are forgotten, and nothing says that they were: an old placement is a first one."""
    true(self, retired)
    self.retired = Retired()


@method(late, "_from")
def records_below_a_snapshot_once_more(true: Any, messages: Any, upto: int) -> Any:
    """A late reader applies records below `upto` to the snapshot.

    Nothing can come of this: their epochs are not above those that the snapshot has, so none of them is valid.
    """
    return true(messages, 0)


def retired_forgotten_at_a_start() -> AbstractContextManager[object]:
    """Controllers and recovery begin with the jobs of a snapshot, and not with what it says is retired."""
    return mock.patch.object(log_of_jobs, "Retirement", return_value=Retirement(Retired()))

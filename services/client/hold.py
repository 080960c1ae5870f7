"""A job is held at one batch: it is paused, and every unit has processed, delivered and checkpointed that batch.

Source: PROTOCOL 3 and 6. A pause lets source tasks reach the newest batch, and a marker follows committed rows: so once
the newest marker of each unit is of that batch, its checkpoint log holds the state as of that batch, and its sinks hold
every row up to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from holdfast.schemas import checkpoints, commands
from holdfast.schemas.assignments import job_key
from holdfast.schemas.checkpoints import Marker
from holdfast.schemas.commands import Command
from holdfast.schemas.cuts import CutsSnapshot
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.schemas.topics import Partition
from holdfast.services.client.current import CURRENT_S, await_format, rest
from holdfast.services.client.submission import append
from holdfast.services.decisions.cuts import CutLog, of_plan
from holdfast.services.decisions.policies import ALIGNED, planned
from holdfast.services.kernel.errors import CommandFailed, StateCorrupted
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.cut_logs import cuts_base, scan_cuts
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.protocol import Log
from holdfast.services.view.door import Door
from holdfast.services.worker.checkpoint.restore import Rebuilt, rebuild

AGAIN_S = 5.0
"""Seconds until a pause is repeated: a pause by a former release does not let tasks reach the newest batch."""


TRIES = 5
"""Number of reads of a checkpoint log, which may be trimmed during each."""


@dataclass(frozen=True, slots=True)
class Held:
    """A job that is held.

    paused: offset of the pause in `jobs.submit`.
    was_paused: true if the job was paused before.
    """

    batch: int
    paused: int
    was_paused: bool
    cuts: CutsSnapshot
    paused_s: float


def check_batch(unit: UnitPlan, found: int, batch: int) -> None:
    """Raises CommandFailed if the newest checkpoint of a unit is of another batch than the hold."""
    if found != batch:
        raise CommandFailed(f"{unit.name} has a checkpoint of batch {found}, not of {batch}", "try again")


class Hold:
    """Holds one generation of a job.

    Args:
        wait: lets a little time pass.
    """

    def __init__(self, door: Door, plan: Plan, wait: Callable[[], None] = rest) -> None:
        self._door = door
        self._plan = plan
        self._wait = wait
        self._names = door.topics.job(plan.job, plan.generation)
        self._cuts = Partition(self._names.cuts, 0)
        self._check()
        self._fold = of_plan(plan, base=cuts_base(door.log, plan, self._cuts))
        self._skipped = read_admitted(door.log, door.topics).skipped(plan.generation)
        self._asked = -1
        self._was_paused = False

    def _check(self) -> None:
        job = self._plan.job
        if self._plan.spark:
            raise CommandFailed(f"job {job} has an operator on Spark, whose state Spark keeps: it cannot be saved yet")
        standings = read_standings(self._door.log, Partition(self._door.topics.assignments, 0))
        policy = standings.policy(job_key(job, self._plan.generation)) or planned(self._plan)
        if policy.policy == ALIGNED:
            hint = f"`holdfast checkpoint {job} sweep` first"
            raise CommandFailed(f"job {job} is checkpointed at every n-th batch alone: it cannot be saved there", hint)
        if self._names.cuts not in self._door.present:
            raise CommandFailed(f"job {job} has ended, and its state with it")

    def await_format(self, timeout_s: float) -> None:
        """Returns once every process of the cluster supports savepoints. Raises CommandFailed."""
        await_format(self._door, min(timeout_s, CURRENT_S), self._wait)

    def now(self) -> Held:
        """The present state of the job's sources, without a hold."""
        cuts = self._read().snapshot()
        return Held(self._fold.newest_batch, -1, False, cuts, paused_s=0.0)

    def hold(self, timeout_s: float) -> Held:
        """Returns once the job is held. Raises CommandFailed after the time-out, or if a person resumes the job."""
        self.await_format(timeout_s)
        began_s = time.monotonic()
        until_s = began_s + timeout_s
        fold = self._read()
        if fold.ends is not None:
            raise CommandFailed(f"job {self._plan.job} is draining: it ends")
        self._was_paused = fold.paused
        self._pause()
        asked_s = time.monotonic()
        while not (self._asked <= fold.control_offset and fold.paused and fold.is_level):
            if fold.control_offset > self._asked and not fold.paused:
                raise CommandFailed(f"somebody has resumed job {self._plan.job} meanwhile", "try again")
            if fold.replaced:
                raise CommandFailed(f"job {self._plan.job} is stopped: the topic of a source is another one")
            if time.monotonic() >= until_s:
                raise self._late("its sources have not come to one batch", timeout_s)
            if time.monotonic() >= asked_s + AGAIN_S and fold.paused and not fold.level:
                self._pause()
                asked_s = time.monotonic()
            self._wait()
            fold = self._read()
        batch, cuts = fold.newest_batch, fold.snapshot()
        if batch == self._plan.first_batch and self._plan.seed is None:
            raise CommandFailed(f"job {self._plan.job} has processed nothing yet: there is nothing to save")
        while behind := self._behind(batch):
            if self._read().control_offset != cuts.control_offset:
                raise CommandFailed(f"somebody has resumed job {self._plan.job} meanwhile", "try again")
            if time.monotonic() >= until_s:
                raise self._late(f"{', '.join(behind)} have no checkpoint of batch {batch}", timeout_s)
            self._wait()
        return Held(batch, cuts.control_offset, self._was_paused, cuts, paused_s=began_s)

    def states(self, batch: int) -> Iterator[tuple[UnitPlan, Rebuilt]]:
        """The state of each unit of the held job, in turn. Raises CommandFailed if the hold has ended."""
        for unit in self._plan.units:
            found = self.rebuilt(unit)
            check_batch(unit, found.batch, batch)
            yield unit, found
            found.image.close()

    @property
    def log(self) -> Log:
        return self._door.log

    def checkpoints(self, unit: UnitPlan) -> Partition:
        """The checkpoint log of a unit."""
        return Partition(self._names.checkpoints, unit.partition)

    def rebuilt(self, unit: UnitPlan) -> Rebuilt:
        """The state of a unit as of its newest checkpoint, whether the job is held or not. Raises CommandFailed."""
        partition = self.checkpoints(unit)
        for left in reversed(range(TRIES)):
            try:
                return rebuild(self._door.log, partition, MemoryImage(), skipped=self._skipped.get(partition, ()))
            except StateCorrupted as error:
                if not left:
                    raise CommandFailed(f"{unit.name}: {error}", "try again") from None
                self._wait()
        raise AssertionError

    def release(self) -> None:
        """Resumes the job, unless it was paused before, or this object has not paused it."""
        if self._asked >= 0 and not self._was_paused:
            append(self._door, commands.encode(Command("resume", self._plan.job)))

    def _pause(self) -> None:
        self._asked = append(self._door, commands.encode(Command("pause", self._plan.job)))

    def _read(self) -> CutLog:
        try:
            for offset, record in scan_cuts(self._door.log, self._cuts, self._fold.upto):
                if offset not in self._skipped.get(self._cuts, ()):
                    self._fold.read(offset, record)
        except StateCorrupted:  # the log is trimmed right now
            self._fold = of_plan(self._plan, base=cuts_base(self._door.log, self._plan, self._cuts))
        return self._fold

    def _behind(self, batch: int) -> list[str]:
        """Units whose newest checkpoint is not of that batch. Their progress records do not cover every marker."""
        return [unit.name for unit in self._plan.units if not self._has(unit, batch)]

    def _has(self, unit: UnitPlan, batch: int) -> bool:
        """True if the unit's log ends with a marker of the batch; the later read of the state checks its validity."""
        with suppress(StateCorrupted):  # the log is trimmed right now
            for message in self.log.tail(self.checkpoints(unit)):
                with suppress(msgspec.DecodeError):
                    record = checkpoints.decode(message.value() or b"")
                    if isinstance(record, Marker) and record.b >= batch:
                        return True
        return False

    def _late(self, what: str, timeout_s: float) -> CommandFailed:
        return CommandFailed(
            f"{what} after {timeout_s:g} s", f"`holdfast status {self._plan.job}` says what it waits for"
        )

"""The next generation of a job on a cluster: first it stands by, then a command makes it take over.

Source: PROTOCOL 1. Controllers make the steps, also if the command no longer waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from holdfast.schemas.commands import Command
from holdfast.schemas.plans import Plan, Problem
from holdfast.schemas.savepoints import Start
from holdfast.services.client.submission import Submitted, append_job, await_readers, awaited, submit
from holdfast.services.kernel.errors import CommandFailed, JobRejected, Retriable
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.view.door import Door
from holdfast.services.view.lines import UnitLine
from holdfast.services.view.reader import Watch, read_all

LOOK_S = 0.2
PLACES_S = 5.0
"""Longest wait in seconds for units without a place: they get one once the former generation's
units have left theirs.
"""


class Replacement(Protocol):
    """Ways to have the cluster replace a job. Each raises JobRejected, CommandFailed."""

    def submit(self, raw: dict[str, Any], timeout_s: float) -> Submitted:
        """Returns once a job runs that begins with the whole savepoint."""
        ...

    def stand_by(self, raw: dict[str, Any], timeout_s: float, meanwhile: Callable[[], None]) -> str:
        """The generation that stands by, once its copies have their state.

        meanwhile: called now and then during the wait.
        """
        ...

    def take_over(self, job: str, generation: str, begin: Start, timeout_s: float) -> Submitted:
        """Returns once that generation runs."""
        ...

    def give_up(self, job: str, generation: str) -> None:
        """Gives the generation up, so that it no longer stands by."""
        ...


class OnCluster:
    """Over the topics of a cluster that runs. Implements Replacement."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def submit(self, raw: dict[str, Any], timeout_s: float) -> Submitted:
        return submit(self._door, raw, timeout_s, lambda how_far: None)

    def stand_by(self, raw: dict[str, Any], timeout_s: float, meanwhile: Callable[[], None]) -> str:
        await_readers(self._door, raw)
        generation = append_job(self._door, raw)
        try:
            return self._standing_by(generation, raw, timeout_s, meanwhile)
        except JobRejected:
            raise
        except BaseException:
            self.give_up(str(raw.get("name")), generation)
            raise

    def _standing_by(
        self, generation: str, raw: dict[str, Any], timeout_s: float, meanwhile: Callable[[], None]
    ) -> str:
        until_s, placed_s = time.monotonic() + timeout_s, 0.0
        while time.monotonic() < until_s:
            if (plan := self._plan(generation)) is not None:
                check_begins(plan)
                meanwhile()
                lines = self._units(plan)
                placed_s = placed_s if any(not one.copies for one in lines) and placed_s else time.monotonic()
                if (lines and all(map(_ready, lines))) or time.monotonic() - placed_s >= PLACES_S:
                    return generation
            time.sleep(LOOK_S)
        raise CommandFailed(f"the next generation of {raw.get('name')} does not stand by after {timeout_s:g} s")

    def _plan(self, generation: str) -> Plan | None:
        """The plan of the generation; None: it is not decided yet, or a busy broker does not answer."""
        with suppress(Retriable):
            known = read_admitted(self._door.log, self._door.topics)
            if (rejection := known.rejection(generation)) is not None:
                raise JobRejected(rejection.problems)
            return known.plan(generation)
        return None

    def _units(self, plan: Plan) -> list[UnitLine]:
        with suppress(Retriable):
            return read_all(self._door).units(plan)
        return []

    def take_over(self, job: str, generation: str, begin: Start, timeout_s: float) -> Submitted:
        with Watch(self._door.log, self._door.topics) as watch:
            append_job(self._door, Command("switch", job, generation=generation, begin=begin))
            for record in watch.records(timeout_s):
                if isinstance(record, Plan) and record.generation == generation:
                    check_begins(record)
                done = awaited(record, generation)
                if done is not None:
                    return done
        raise CommandFailed(f"{job}@{generation} does not run after {timeout_s:g} s", f"`holdfast status {job}`")

    def give_up(self, job: str, generation: str) -> None:
        append_job(self._door, Command("switch", job, generation=generation))


def check_begins(plan: Plan) -> None:
    """Raises JobRejected if the job was given up before it began."""
    if plan.seed is not None and plan.seed.given_up:
        raise JobRejected((Problem("name", plan.seed.given_up, f"`holdfast update {plan.job}` begins again"),))


def _ready(line: UnitLine) -> bool:
    """True if the unit's next leader has its state."""
    return any(one.role == "primary" and one.batch > 0 for one in line.copies)

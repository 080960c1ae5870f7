"""Cuts at one copy: the leader proposes them, and every copy that processes waits for the records that they name.

Source: PROTOCOL 3.
"""

from __future__ import annotations

import math
from typing import Protocol

from schemas.assignments import Flags
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.sources.missing import Missing
from services.worker.unit.intake import Intake


class Working(Protocol):
    """A copy at work. commits: it leads, and its outputs are open."""

    flags: Flags

    @property
    def batch(self) -> int: ...
    @property
    def commits(self) -> bool: ...


class Cuts:
    """Of one copy."""

    def __init__(self, of: Working, job: JobView, intake: Intake, around: Surroundings) -> None:
        self._of, self._job, self._intake = of, job, intake
        self._missing = Missing(around.log, around.restores, job.plan.job)

    def ask_due_ms(self, now_ms: float) -> float:
        """When to ask for records that are cut and do not come."""
        return self._missing.next_deadline if self._here else math.inf

    def ask(self, now_ms: float) -> None:
        """Asks for them."""
        if self._here:
            batch = self._of.batch + 1
            self._missing.look(batch, lambda: self._intake.lacking(batch, self._of.commits), now_ms)

    def due_ms(self, now_ms: float) -> float:
        """When a cut is due, as of the last turn's proposals."""
        return now_ms + self._intake.cutter.wait_ms if self._of.flags.commit else math.inf

    def propose(self, now_ms: float) -> None:
        """Proposes what is due, also while the outputs are being opened: the cut log decides, not they."""
        if self._of.flags.commit:
            self._job.check_dead_letters()
            self._intake.cutter.propose(now_ms)

    @property
    def _here(self) -> bool:
        return bool(self._intake.feeds) and self._of.flags.process

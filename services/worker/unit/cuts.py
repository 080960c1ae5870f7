"""Cuts at one copy: the leader proposes them, and every copy that processes waits for the records that they name.

The leader also trims the log of cuts, and looks whether the users' topics keep what may have to be read again.

Source: PROTOCOL 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from holdfast.schemas.assignments import Flags
from holdfast.schemas.checkpoints import Marker
from holdfast.services.worker.core.edges import EdgeCounts
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.sources.cut_trimmer import CutTrimmer
from holdfast.services.worker.sources.missing import Missing
from holdfast.services.worker.sources.retention_watch import RetentionWatch
from holdfast.services.worker.unit.intake import Intake


class CutsOwner(Protocol):
    """A copy at work. commits: it leads, and its outputs are open."""

    flags: Flags

    @property
    def batch(self) -> int: ...
    @property
    def commits(self) -> bool: ...


class Cuts:
    """Cuts of one copy.

    Args:
        unit: of the copy.
        acked: the marker up to which its inputs may be trimmed.
        edges: counts of its inputs.
    """

    def __init__(
        self,
        of: CutsOwner,
        job: JobView,
        unit: str,
        intake: Intake,
        around: HostServices,
        acked: Callable[[], Marker | None],
        edges: EdgeCounts,
    ) -> None:
        self._of, self._job, self._intake = of, job, intake
        self._missing = Missing(around.log, around.restores, job.plan.job)
        self.trimmer = CutTrimmer(job, unit, intake.cutter.log, around, leads=lambda: of.commits)
        self.retention = RetentionWatch(
            job, unit, intake.cutter, around, acked=acked, leads=lambda: of.commits, record_bytes=edges.mean_bytes
        )

    def taken(self) -> list[tuple[str, str, dict[int, int], int | None]]:
        """Progress on each users' topic, from any thread: source, topic, the offset behind the last record processed by
        partition, and the number of records that retention may delete too soon; None: nobody watches.
        """
        at_risk = self.retention.records()
        return [(*one, at_risk.get(one[0])) for one in self._intake.cutter.done()]

    def ask_due_ms(self, now_ms: float) -> float:
        """The time to ask for records that are cut and do not come."""
        return self._missing.next_deadline if self._here else math.inf

    def ask(self, now_ms: float) -> None:
        """Asks for them."""
        if self._here:
            batch = self._of.batch + 1
            self._missing.look(batch, lambda: self._intake.lacking(batch, self._of.commits), now_ms)

    def due_ms(self, now_ms: float) -> float:
        """The time at which a cut is due, as of the last turn's proposals."""
        return now_ms + self._intake.cutter.wait_ms if self._of.flags.commit else math.inf

    def propose(self, now_ms: float) -> None:
        """Proposes what is due, also while the outputs are being opened: the cut log decides, not they."""
        if self._of.flags.commit:
            self._job.check_dead_letters()
            self._intake.cutter.propose(now_ms)

    @property
    def _here(self) -> bool:
        return bool(self._intake.feeds) and self._of.flags.process

"""The cuts of one copy: the leader proposes cuts, and every copy that processes waits for the records in them.

The leader also trims the cut log, and checks that the users' topics keep records that a recovery may read again.
Source: PROTOCOL 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from holdfast.schemas.checkpoints import Marker
from holdfast.services.worker.sources.cut_trimmer import CutTrimmer
from holdfast.services.worker.sources.missing_records import Missing
from holdfast.services.worker.sources.retention_watch import RetentionWatch
from holdfast.services.worker.unit.facts.copy_view import CopyView
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.inputs.intake import Intake


class Cuts:
    """The cuts of one copy.

    Args:
        acked: returns the marker up to which its inputs may be trimmed.
        leads: returns True if the copy leads with open outputs; may be called between turns.
    """

    def __init__(
        self,
        unit: HostedUnit,
        intake: Intake,
        acked: Callable[[], Marker | None],
        leads: Callable[[], bool],
    ) -> None:
        job, around, name = unit.job, unit.around, unit.name
        self._job = job
        self._intake = intake
        self._missing = Missing(around.log, around.restores, job.plan.job)
        self.trimmer = CutTrimmer(job, name, intake.cutter.log, around, leads=leads)
        self.retention = RetentionWatch(
            job, name, intake.cutter, around, acked=acked, leads=leads, record_bytes=unit.spent.edges.mean_bytes
        )

    def taken(self) -> list[tuple[str, str, dict[int, int], int | None]]:
        """Progress on each users' topic, from any thread: source, topic, next offset by partition, and the number of
        records that retention may delete too soon; None if retention is not watched."""
        at_risk = self.retention.records()
        return [(*one, at_risk.get(one[0])) for one in self._intake.cutter.done()]

    def ask_due_ms(self, seen: CopyView) -> float:
        """The time to check for records of a cut that do not arrive."""
        return self._missing.next_deadline if self._waits(seen) else math.inf

    def ask(self, seen: CopyView) -> None:
        """Checks for records of a cut that do not arrive."""
        if self._waits(seen):
            batch = seen.batch + 1
            self._missing.ask_ends(batch, lambda: self._intake.lacking(batch, seen.commits), seen.now_ms)

    def due_ms(self, seen: CopyView) -> float:
        """The time at which a cut is due, as of the last proposals."""
        return seen.now_ms + self._intake.cutter.wait_ms if seen.flags.commit else math.inf

    def propose(self, seen: CopyView) -> None:
        """Proposes due cuts, even while the outputs are being opened, because only the cut log decides."""
        if seen.flags.commit:
            self._job.check_dead_letters()
            self._intake.cutter.propose(seen.now_ms)

    def _waits(self, seen: CopyView) -> bool:
        return bool(self._intake.feeds) and seen.flags.process

"""The cost of a failure of the leader's worker for one unit, as known to the copy here.

Source: MECHANISMS C3 and C5. The backup would first apply the runs that it has not applied yet, then repeat the batches
that the leader has processed since its newest valid capture. Heartbeats report the other copies.
"""

from __future__ import annotations

from holdfast.services.worker.core.load import Load
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.presence import NOTHING_HEARD, Heard
from holdfast.services.worker.host.surroundings import HostServices


class Protection:
    """The cost of a failure, at one copy. A unit with another copy that processes has nothing to repeat."""

    def __init__(self, job: JobView, unit: str, spent: Spent, around: HostServices, now_ms: float) -> None:
        self._job = job
        self._unit = unit
        self._key = job.key(unit)
        self._spent = spent
        self._presence = around.presence
        self._clock_ms = around.clock_ms
        self._load = Load(now_ms, spent.process_ms)
        self._captured_ms = self._saved_ms = spent.process_ms

    # -- what happens -------------------------------------------------------------------------------------------------

    def captured(self) -> None:
        """Notes the start of a capture."""
        self._captured_ms = self._spent.process_ms

    def saved(self) -> None:
        """Notes that the capture is valid."""
        self._saved_ms = self._captured_ms

    def passed(self) -> None:
        """Notes another copy's valid marker that this copy has reached."""
        self._captured_ms = self._saved_ms = self._spent.process_ms

    # -- as the leader ------------------------------------------------------------------------------------------------

    @property
    def replay_ms(self) -> float:
        """The time spent on batches since the newest valid capture began, which the backup would repeat."""
        return self._spent.process_ms - self._saved_ms if self._repeats else 0.0

    @property
    def gain_ms(self) -> float:
        """The time spent on batches since the newest capture began."""
        return self._spent.process_ms - self._captured_ms if self._repeats else 0.0

    @property
    def load(self) -> float:
        """The share of a CPU that the unit's batches take here."""
        return self._load.of(self._clock_ms(), self._spent.process_ms) if self._repeats else 0.0

    @property
    def backup(self) -> str:
        """The worker that would take over; empty if any worker may restore the unit from its checkpoint log."""
        copy = self._job.backup(self._unit)
        return "" if copy is None else copy.worker

    def confirmed(self, batch: int) -> bool:
        """True if the backup has reached the marker for this batch, or if no copy follows."""
        return not self._job.followed(self._unit) or self._of_backup.batch >= batch

    def paste_ms(self, capture_ms: float) -> float:
        """The time to apply a run at the backup, or `capture_ms` until it has reported one; 0 if no copy applies
        runs.
        """
        if not self._job.followed(self._unit):
            return 0.0
        heard_ms = self._of_backup.paste_ms
        return capture_ms if heard_ms is None else heard_ms

    # -- as the backup ------------------------------------------------------------------------------------------------

    @property
    def primary(self) -> str:
        """The worker of the unit's leader."""
        copy = self._job.leader(self._unit)
        return "" if copy is None else copy.worker

    @property
    def led_load(self) -> float:
        """The load of the leader, as `load`."""
        copy = self._job.leader(self._unit)
        heard = NOTHING_HEARD if copy is None else self._presence.heard(self._key, copy, self._clock_ms())
        return 0.0 if heard.load is None or not self._repeats else heard.load

    @property
    def led_replay_ms(self) -> float:
        """The approximate `replay_ms` of the leader: its load times the age of its newest marker."""
        since_ms = self._spent.marked_ms
        return 0.0 if since_ms is None else self.led_load * max(0.0, self._clock_ms() - since_ms)

    @property
    def _of_backup(self) -> Heard:
        copy = self._job.backup(self._unit)
        return NOTHING_HEARD if copy is None else self._presence.heard(self._key, copy, self._clock_ms())

    @property
    def _repeats(self) -> bool:
        copy = self._job.backup(self._unit)
        return copy is None or not copy.flags.process

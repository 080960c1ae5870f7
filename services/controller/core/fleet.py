"""Reports of workers on their copies, as far as they count; the detector judges if a worker lives.

Source: PROTOCOL 5 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.assignments import Copy
from holdfast.schemas.heartbeats import CopyState, Heartbeat, HeartbeatRecord
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import Detector

LOOP_US = 1_000_000
"""Longest pause between two turns that counts as silence of workers; in a longer one this process did not run."""

Seen = tuple[str, bool, bool, dict[str, tuple[int, str, str, str, str]]]


class Fleet:
    """The workers of a cluster, for reports to people and for the end of a job; it places and moves no copy.

    Args:
        beat_us: interval of the workers' heartbeats.
    """

    def __init__(self, beat_us: int) -> None:
        self._attention = Attention(loop_us=LOOP_US)
        self._detector = Detector(beat_us, self._attention)

    def advance(self, now_ms: int) -> None:
        """Sets the time; called first in every turn."""
        self._attention.advance(now_ms * 1000)

    def begin(self) -> None:
        """Begins: records read so far are history, and from now on silence counts."""
        self._detector.begin()

    def read(self, record: HeartbeatRecord) -> bool:
        """Takes a record; True if it reports anything new."""
        before = self._seen(record.worker)
        self._detector.read(record)
        return self._seen(record.worker) != before

    def alive(self) -> Iterator[Heartbeat]:
        """Workers that may take units, by name."""
        return (beat for beat in self._detector.alive() if not beat.leaving)

    def answers(self, copy: Copy) -> bool:
        """True if the worker of the copy sends heartbeats."""
        return self._detector.heard(copy.worker, copy.incarnation)

    def report(self, copy: Copy, unit: str) -> CopyState | None:
        """Returns the last report of the copy's worker on the copy, if that report counts."""
        return self._detector.report(copy.worker, copy.incarnation, unit) if self.answers(copy) else None

    def reports(self, unit: str) -> Iterator[tuple[str, CopyState]]:
        """Reports of workers on their copies of a unit, with the name of the worker."""
        return self._detector.reports(unit)

    def _seen(self, worker: str) -> Seen | None:
        pulse = self._detector.newest(worker)
        if pulse is None:
            return None
        leaving = pulse.beat is not None and pulse.beat.leaving
        reached = {unit: (c.epoch, c.state, c.error, c.stopped, c.waits) for unit, c in pulse.reports.items()}
        return pulse.incarnation, pulse.exited, leaving, reached

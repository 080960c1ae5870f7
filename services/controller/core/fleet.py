"""Which workers live, as the controller learns it from `heartbeats`.

Source: PROTOCOL 5 and 8. Of each worker only the newest incarnation counts: incarnations of one worker sort in the
order of their start, so every reader agrees which that is. An exit notice is final for its incarnation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schemas.heartbeats import CopyState, Exit, Heartbeat, HeartbeatRecord

ALIVE_BEATS, ALIVE_MS = 10, 2_000
"""Silent for longer than both, a worker gets no new units and what it last reported no longer counts."""

GAP_BEATS, GAP_MS = 5, 1_000
"""A longer pause between any two heartbeats says nothing about workers: broker or controller were away."""


@dataclass(slots=True)
class Seen:
    """The newest incarnation of a worker. heard_ms: on the fleet's clock; last_ms: time of day. hosts: which units."""

    worker: str
    incarnation: str
    zone: str = ""
    slots: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, CopyState] = field(default_factory=dict)
    heard_ms: int = 0
    last_ms: int = 0
    exited: bool = False
    hosts: str = ""
    leaving: bool = False


class Fleet:
    """The newest incarnation of every worker.

    Silence is measured on a clock that goes only while heartbeats of anybody arrive. So nobody is given up because the
    broker or this process stood still; and while nobody is heard, nobody is there to take over.

    Args:
        beat_ms: interval of the workers' heartbeats.
    """

    def __init__(self, beat_ms: int) -> None:
        self._alive_ms = max(ALIVE_MS, ALIVE_BEATS * beat_ms)
        self._gap_ms = max(GAP_MS, GAP_BEATS * beat_ms)
        self._workers: dict[str, Seen] = {}
        self._clock_ms = 0
        self._heard_at_ms: int | None = None
        self._since_ms = 0

    def begin(self) -> None:
        """What happened before was read from the log: workers of whom it says nothing count as silent from now."""
        self._since_ms = self._clock_ms

    def read(self, record: HeartbeatRecord, now_ms: int) -> bool:
        """Takes a record; True if anything but the time changed."""
        known = self._workers.get(record.worker)
        if known is not None and record.incarnation < known.incarnation:
            return False
        if isinstance(record, Exit):
            return self._exit(record, known, now_ms)
        self._advance(now_ms)
        if known is not None and known.incarnation == record.incarnation and known.exited:
            return False
        return self._beat(record, known, now_ms)

    def _advance(self, now_ms: int) -> None:
        if self._heard_at_ms is not None:
            self._clock_ms += min(max(now_ms - self._heard_at_ms, 0), self._gap_ms)
        self._heard_at_ms = now_ms

    def _beat(self, beat: Heartbeat, known: Seen | None, now_ms: int) -> bool:
        seen = Seen(
            worker=beat.worker,
            incarnation=beat.incarnation,
            zone=beat.zone,
            slots=max(beat.slots, 1),
            versions=beat.versions,
            copies={copy.unit: copy for copy in beat.copies},
            heard_ms=self._clock_ms,
            last_ms=now_ms,
            hosts=beat.hosts,
            leaving=beat.leaving,
        )
        self._workers[beat.worker] = seen
        if known is None or (known.incarnation, known.leaving) != (seen.incarnation, seen.leaving):
            return True
        return _reached(known) != _reached(seen)

    def _exit(self, notice: Exit, known: Seen | None, now_ms: int) -> bool:
        if known is None or known.incarnation != notice.incarnation:
            known = Seen(notice.worker, notice.incarnation, last_ms=now_ms)
            self._workers[notice.worker] = known
        if known.exited:
            return False
        known.exited, known.copies, known.heard_ms = True, {}, self._clock_ms
        return True

    def alive(self, now_ms: int) -> list[Seen]:
        """Workers that can take units, by name."""
        staying = (seen for seen in self._workers.values() if self._lives(seen, now_ms) and not seen.leaving)
        return sorted(staying, key=lambda seen: seen.worker)

    def living(self, worker: str, incarnation: str, now_ms: int) -> Seen | None:
        """That incarnation, if it is the newest and lives."""
        seen = self._workers.get(worker)
        return seen if seen is not None and seen.incarnation == incarnation and self._lives(seen, now_ms) else None

    def successor(self, worker: str, incarnation: str, now_ms: int) -> Seen | None:
        """A later incarnation of that worker that lives."""
        seen = self._workers.get(worker)
        return seen if seen is not None and seen.incarnation > incarnation and self._lives(seen, now_ms) else None

    def silent_ms(self, worker: str) -> int:
        """For how long no incarnation of the worker was heard, or since it exited."""
        seen = self._workers.get(worker)
        return self._clock_ms - (self._since_ms if seen is None else seen.heard_ms)

    def reports(self, unit: str, now_ms: int) -> Iterator[tuple[Seen, CopyState]]:
        """What living workers say of their copies of a unit."""
        for seen in self._workers.values():
            if unit in seen.copies and self._lives(seen, now_ms):
                yield seen, seen.copies[unit]

    def _lives(self, seen: Seen, now_ms: int) -> bool:
        return not seen.exited and now_ms - seen.last_ms <= self._alive_ms


def _reached(seen: Seen) -> dict[str, tuple[int | str, ...]]:
    return {unit: (copy.epoch, copy.state, copy.error, copy.stopped, copy.waits) for unit, copy in seen.copies.items()}

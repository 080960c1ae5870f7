"""Silences that a replica must have missed by now, judged by when its loop turned and heartbeats were heard.

The replica may wait longer for a worker only after an outage of the broker. One long turn of its own is none: nobody
could have heard anything meanwhile (docs/decisions/0261).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from unittest import mock

from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.liveness import attention
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import REJOIN_US, UNSETTLED_GRACE_BEATS
from holdfast.services.recovery.core.observed import BeatRead, CaughtUp, EchoRead, Event, PeerRead
from holdfast.services.recovery.replica import ECHO_MS, Replica

SLACK_US = 100_000
"""The clock of a simulated process may go back by what its last turn took."""


@dataclass(slots=True)
class _Heard:
    """A worker.

    counted_us: the time that counted at its last heartbeat, or at the end of the first outage since.
    waits: an outage of the broker has ended since, or its pause had not: what is read in the pause may have been sent
    before the outage.
    surely: the replica must have seen that outage, too, so later ones are not the first.
    """

    counted_us: int
    waits: bool
    surely: bool = False


@dataclass(slots=True)
class _Least:
    """The least time that a replica must have counted: the interval of an echo before each heartbeat that it reads.

    longest_us: its longest turn since the last heartbeat.
    paused_us: the end of the pause in which clients return after an outage.
    heard: by worker and incarnation.
    """

    counted_us: int = 0
    paused_us: int = 0
    turned_us: int | None = None
    longest_us: int = 0
    last_us: int | None = None
    heard: dict[tuple[str, str], _Heard] = field(default_factory=dict)

    def turn(self, now_us: int) -> None:
        if self.turned_us is not None:
            self.longest_us = max(self.longest_us, now_us - self.turned_us)
        self.turned_us = now_us

    def echo(self, now_us: int) -> None:
        absent_us = 0 if self.last_us is None else now_us - self.last_us
        if now_us >= self.paused_us:
            self.counted_us += min(absent_us, ECHO_MS * 1000)
        if absent_us - self.longest_us > attention.OUTAGE_US - attention.LOOP_US:
            self.paused_us = now_us + attention.RECONNECT_US
            surely = absent_us > attention.OUTAGE_US and self.longest_us <= attention.LOOP_US
            for one in self.heard.values():
                if not one.surely:
                    one.counted_us, one.waits, one.surely = self.counted_us, True, surely
        self.last_us, self.longest_us = now_us, 0

    def silences(self, least_us: int) -> list[tuple[str, str]]:
        """Workers whose silence is at least so long, or so much longer after an outage."""
        since = ((run, self.counted_us - one.counted_us, one.waits) for run, one in self.heard.items())
        return [run for run, silent_us, waits in since if silent_us > least_us + waits * REJOIN_US]


def watch(replica: Replica) -> None:
    """Looks at everything that the replica reads, as it does."""
    observe, known, least = replica._observe, replica.core.known, _Least()
    advance, least_us = known.advance, known.detector._beat_us * (1 + UNSETTLED_GRACE_BEATS) + SLACK_US

    def advanced(now_us: int) -> None:
        least.turn(now_us)
        advance(now_us)

    def observed(event: Event) -> None:
        observe(event)
        if isinstance(event, BeatRead | EchoRead | PeerRead):
            least.echo(known.now_us)
        if isinstance(event, CaughtUp):
            least.heard.clear()
        elif isinstance(event, BeatRead) and isinstance(event.record, Heartbeat) and not event.record.stuck:
            run = event.record.worker, event.record.incarnation
            least.heard[run] = _Heard(least.counted_us, known.now_us < least.paused_us)
        for worker, incarnation in least.silences(least_us):
            overlooked = not known.detector.misses(worker, incarnation)
            newest = known.detector.newest(worker)
            if newest is None or newest.incarnation != incarnation or newest.exited:
                del least.heard[worker, incarnation]
            else:
                assert not overlooked, f"the silence of {worker} is not missed, others were heard meanwhile"

    known.advance = advanced  # type: ignore[method-assign]
    replica._observe = observed  # type: ignore[method-assign]


def standstill_counts_as_an_outage() -> AbstractContextManager[object]:
    """Whenever nothing was heard for long, the broker was away: also if it was the replica's own loop that stood."""
    true = Attention._resume

    def resume(self: Attention, now_us: int) -> None:
        self._unheard_us = 0 if self._last_us is None else now_us - self._last_us
        true(self, now_us)

    return mock.patch.object(Attention, "_resume", resume)

"""The time during which this replica could have received a heartbeat.

Source: PROTOCOL 8. The clock stops while the replica's own loop is late, or while no heartbeat comes through the
broker: none of a worker, none of another replica, and not the echo that the replica sends itself when it has heard
nothing else. In both cases the broker or this process is slow, and no worker's silence counts. The clock does not stop
for good: all write to the same partition, so a heartbeat that comes confirms the interval before it.
On an overloaded machine a failure is therefore found late, but it is found. Times are microseconds.

Time in which the own loop stood is no silence of the broker either: nobody could have heard it. Two things are told
apart by that (docs/decisions/0261): an outage of the broker, in which the loop turned and heard nothing, and a
standstill of this process. After both, heartbeats are less even; only after an outage do clients have to return.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

LOOP_US = 50_000
"""A longer pause between two turns of a recovery replica does not count; the shell must turn more often."""

OUTAGE_US, RECONNECT_US = 800_000, 1_600_000
"""OUTAGE_US: the time in which the loop turned and heard nothing after which the broker counts as restarted (a slower
one keeps its connections). RECONNECT_US: the time in which clients return, because each tries to connect at least twice
a second, and resends unanswered requests at least once a second.
"""

UNSETTLED_US = 30_000_000
"""The time after an outage, or after a standstill as long, during which heartbeats are less even than their spread
before: a broker starts and catches up, leaders move to it, and workers have a backlog; or the machine is overloaded.
"""

OUTAGES = 64


@dataclass(slots=True)
class Attention:
    """A clock driven by `advance` and `echo`. All times are microseconds.

    echo_us: the time without a heartbeat after which the replica sends one to itself, well below the least grace;
    None: it sends none.
    loop_us: a longer pause between two turns does not count.
    attentive_us: the time counted so far.
    resumed: the attentive times at which outages of the broker ended, in order; the oldest are forgotten.

    _unheard_us: the time since the last heartbeat in which one could have been heard. It holds at most loop_us of each
    turn: for the rest of a late turn this process stood.
    _unsettled_us: the attentive time at which the last outage, with its pause, or standstill as long, ended.
    """

    echo_us: int | None = None
    loop_us: int = LOOP_US
    attentive_us: int = 0
    resumed: deque[int] = field(default_factory=lambda: deque(maxlen=OUTAGES))
    _turned_us: int | None = None
    _counted_us: int = 0
    _echoed_us: int | None = None
    _last_us: int | None = None
    _attentive_at_last_us: int = 0
    _unheard_us: int = 0
    _unsettled_us: int | None = None

    def advance(self, now_us: int) -> None:
        """Counts the time up to now, at most up to the time at which the next echo is due. Called first in every
        turn.
        """
        passed_us = 0 if self._turned_us is None else max(0, now_us - self._turned_us)
        late = self._turned_us is None or passed_us > self.loop_us
        self._turned_us = max(now_us, self._turned_us or now_us)
        self._unheard_us += min(passed_us, self.loop_us)
        if late:
            self._counted_us = max(now_us, self._counted_us)
            self._echoed_us = None
        elif self.echo_us is None:
            self._count(now_us)
        elif self._echoed_us is not None:
            self._count(min(now_us, self._echoed_us + self.echo_us))

    def echo(self, now_us: int) -> None:
        """Takes a heartbeat that was read, an echo or another's; if it is late by less than the interval, the wait for
        it counts as well.
        """
        self.advance(now_us)
        if self.echo_us is not None:
            if self._echoed_us is not None and now_us - self._echoed_us <= 2 * self.echo_us:
                self._count(now_us)
            self._vouch(now_us, self.echo_us)
            self._resume(now_us)
            self._echoed_us = self._last_us = now_us
            self._attentive_at_last_us, self._unheard_us = self.attentive_us, 0

    def _resume(self, now_us: int) -> None:
        """Ends an absence of heartbeats, if there was one.

        A pause in which clients return is never prolonged: a broker that is away again and again would stop the clock
        for good.
        """
        absent_us = 0 if self._last_us is None else now_us - self._last_us
        outage = absent_us > OUTAGE_US and self._unheard_us > OUTAGE_US
        pauses = outage and self._counted_us <= now_us
        self._counted_us = max(self._counted_us, now_us + RECONNECT_US if pauses else now_us)
        if outage:
            self.resumed.append(self.attentive_us)
        if absent_us > OUTAGE_US:  # as long after a standstill as after an outage with its pause
            self._unsettled_us = self.attentive_us + (0 if outage else RECONNECT_US)

    def _vouch(self, now_us: int, echo_us: int) -> None:
        """Counts at least one interval between two echoes, except for the time in which clients reconnect."""
        if self._last_us is not None and self._counted_us <= now_us:
            counted_us = self.attentive_us - self._attentive_at_last_us
            self.attentive_us += max(0, min(now_us - self._last_us, echo_us) - counted_us)

    def resumed_after(self, us: int) -> int | None:
        """The end of the first outage after the given time; None if there was none."""
        found = bisect_left(self.resumed, us)
        return self.resumed[found] if found < len(self.resumed) else None

    @property
    def unsettled(self) -> bool:
        """True if an outage of the broker, or a standstill of this process as long, ended at most UNSETTLED_US ago."""
        return self._unsettled_us is not None and self.attentive_us - self._unsettled_us < UNSETTLED_US

    def _count(self, until_us: int) -> None:
        if until_us > self._counted_us:
            self.attentive_us += until_us - self._counted_us
            self._counted_us = until_us

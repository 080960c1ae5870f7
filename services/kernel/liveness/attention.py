"""Time during which this replica could have heard a heartbeat.

Source: PROTOCOL 8. It does not pass while the replica's own loop is late, or while its own echo heartbeat does not come
back through the broker: then the broker or this process is slow, and no worker's silence counts. It stops
for a while, not for good: workers write to the same partition, so an echo that comes back vouches for the interval
before it, and on an overloaded machine a failure is found late, but found. Microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

LOOP_US = 50_000
"""A longer pause between two turns of a recovery replica does not count; its shell must turn more often than that."""

OUTAGE_US, RECONNECT_US = 800_000, 1_600_000
"""A broker that was away for so long was started again (a slower one keeps its connections), and clients come back one
after the other: each tries to connect at least twice a second, and sends again what was not answered at least once a
second.
"""

UNSETTLED_US = 30_000_000
"""So long after an outage the cluster is not what it was: a broker starts again and catches up, leaders move to it, and
workers have a backlog. Heartbeats come less evenly than their spread before that says.
"""

OUTAGES = 64


@dataclass(slots=True)
class Attention:
    """A clock driven by `advance` and `echo`.

    echo_us: interval at which the replica sends itself a heartbeat, well below the least grace; None: it sends none.
    loop_us: a longer pause between two turns does not count.
    resumed: attentive times at which outages of the broker were over, in order; the oldest are forgotten.
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

    def advance(self, now_us: int) -> None:
        """Before all else in every turn. Time counts up to when the next echo is due."""
        late = self._turned_us is None or now_us - self._turned_us > self.loop_us
        self._turned_us = max(now_us, self._turned_us or now_us)
        if late:
            self._counted_us, self._echoed_us = max(now_us, self._counted_us), None
        elif self.echo_us is None:
            self._count(now_us)
        elif self._echoed_us is not None:
            self._count(min(now_us, self._echoed_us + self.echo_us))

    def echo(self, now_us: int) -> None:
        """The own heartbeat came back; if it was late by less than its interval, the wait for it counts as well."""
        self.advance(now_us)
        if self.echo_us is not None:
            if self._echoed_us is not None and now_us - self._echoed_us <= 2 * self.echo_us:
                self._count(now_us)
            outage = self._last_us is not None and now_us - self._last_us > OUTAGE_US
            self._vouch(now_us, self.echo_us)
            self._counted_us = max(self._counted_us, now_us + RECONNECT_US if outage else now_us)
            if outage:
                self.resumed.append(self.attentive_us)
            self._echoed_us = self._last_us = now_us
            self._attentive_at_last_us = self.attentive_us

    def _vouch(self, now_us: int, echo_us: int) -> None:
        """At least an interval counts between two echoes, but for the time in which clients come back."""
        if self._last_us is not None and self._counted_us <= now_us:
            counted_us = self.attentive_us - self._attentive_at_last_us
            self.attentive_us += max(0, min(now_us - self._last_us, echo_us) - counted_us)

    def resumed_after(self, us: int) -> int | None:
        """Time at which the first outage since then was over; None: there was none."""
        found = bisect_left(self.resumed, us)
        return self.resumed[found] if found < len(self.resumed) else None

    @property
    def unsettled(self) -> bool:
        """An outage of the broker has been over for UNSETTLED_US at most."""
        return bool(self.resumed) and self.attentive_us - self.resumed[-1] < UNSETTLED_US

    def _count(self, until_us: int) -> None:
        if until_us > self._counted_us:
            self.attentive_us += until_us - self._counted_us
            self._counted_us = until_us

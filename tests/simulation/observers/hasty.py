"""Blame of workers for their silence, judged by when heartbeats were heard and not by what the detector reckons with.

After an outage of the broker no worker is blamed that was heard as lately as a cluster that settles allows
(docs/decisions/0114). At no time is a worker blamed for a silence in which nobody else was heard either
(docs/decisions/0253): it may have sent what did not come through. While an outage may be why a worker is silent, only
the return of all others shows that it is not (docs/decisions/0261).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from unittest import mock

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.liveness import attention
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import (
    REJOIN_US,
    RETURNED,
    RETURNED_US,
    UNSETTLED_GRACE_BEATS,
    Detector,
)
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.observed import BeatRead, EchoRead, Event, PeerRead
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.recovery.replica import ECHO_MS, Replica

LATELY_US = 400_000
"""Whoever was heard so shortly before an outage is expected back after it."""

BLAMES = (f"{Sign.PRIMARY_SILENT.value}: ", f"{Sign.PRIMARY_GIVEN_UP.value}: ")


class _Heard:
    """The time in which a replica could have heard a worker: up to two intervals of the echo behind each heartbeat.

    The replica itself counts no more of it, and often less.

    back: by worker, that time at its first heartbeat after the last outage.
    expected: by the end of an outage as the replica counts it, the workers that were heard shortly before.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us, self._last_us, self._covered_us = now_us, now_us(), 0
        self._at: dict[str, int] = {}
        self._outages: tuple[int, ...] = ()
        self.back: dict[str, int] = {}
        self.expected: dict[int, set[str]] = {}

    def hear(self, one: Event) -> None:
        if not isinstance(one, BeatRead | EchoRead | PeerRead):
            return
        self._covered_us, self._last_us = self._covered(), self._now_us()
        if isinstance(one, BeatRead) and isinstance(one.record, Heartbeat) and not one.record.stuck:
            self._at[one.record.worker] = self._covered_us
            self.back.setdefault(one.record.worker, self._covered_us)

    def note_outage(self, clock: Attention) -> None:
        """Notes an outage that has just ended."""
        if (outages := tuple(clock.resumed)) != self._outages:
            self._outages, self.back = outages, {}
            lately = {worker for worker, at_us in self._at.items() if self._covered_us - at_us <= LATELY_US}
            self.expected.setdefault(outages[-1], lately)

    def since_us(self, worker: str) -> int:
        """Such time since the last heartbeat of a worker."""
        return self._covered() - self._at.get(worker, 0)

    def back_for_us(self, worker: str) -> int:
        """Such time since its first heartbeat after the last outage; 0: there was none."""
        return self._covered() - self.back.get(worker, self._covered())

    def _covered(self) -> int:
        return self._covered_us + min(self._now_us() - self._last_us, 2 * ECHO_MS * 1000)


def watch(replica: Replica) -> None:
    """Looks at everything that the replica reads and proposes, as it does."""
    append, observe, known = replica._append, replica._observe, replica.core.known
    heard = _Heard(replica._now_us)

    def observed(event: Event) -> None:
        heard.hear(event)
        observe(event)
        heard.note_outage(known.attention)

    def watched(changes: Iterable[Change]) -> None:
        proposed = tuple(changes)
        heard.note_outage(known.attention)
        for change in proposed:
            if any(blame in change.reason for blame in BLAMES):
                primary = known.assigned.units()[change.unit].copies[0].worker
                _unhurried(known, change, primary)
                _alone(known, change, primary, heard)
                _last_to_return(known, change, primary, heard)
        append(proposed)

    replica._observe = observed  # type: ignore[method-assign]
    replica._append = watched  # type: ignore[method-assign]


def _unhurried(known: ReplicaView, change: Change, primary: str) -> None:
    clock = known.attention
    if not clock.resumed or clock.attentive_us - clock.resumed[-1] >= attention.UNSETTLED_US:
        return
    least_us = known.detector._beat_us * (1 + UNSETTLED_GRACE_BEATS)
    pulse = known.detector.newest(primary)
    silent_us = least_us if pulse is None else clock.attentive_us - pulse.heard_us
    assert silent_us >= least_us, f"{change.unit}: {primary} was heard {silent_us} us ago"


def _alone(known: ReplicaView, change: Change, primary: str, heard: _Heard) -> None:
    since_us = heard.since_us(primary)
    assert since_us > known.detector._beat_us, f"{change.unit}: others than {primary} were heard for {since_us} us"


def _last_to_return(known: ReplicaView, change: Change, primary: str, heard: _Heard) -> None:
    """Before REJOIN_US it takes the return of all others, and of some for long, to blame one that may be on its way."""
    clock, pulse = known.attention, known.detector.newest(primary)
    resumed_us = None if pulse is None else clock.resumed_after(pulse.heard_us)
    if resumed_us is None or clock.attentive_us - resumed_us >= REJOIN_US:
        return
    expected = heard.expected[clock.resumed[-1]] - heard.back.keys() - {primary}
    away = [worker for worker in sorted(expected) if _runs(known, worker)]
    assert not away, f"{change.unit}: {primary} is blamed while {away} are not back after an outage"
    long = [worker for worker in heard.back if worker != primary and heard.back_for_us(worker) >= RETURNED_US]
    assert len(long) >= RETURNED, f"{change.unit}: {primary} is blamed while {len(long)} are back after an outage"


def _runs(known: ReplicaView, worker: str) -> bool:
    pulse = known.detector.newest(worker)
    return pulse is not None and not pulse.exited


def settled_at_once() -> AbstractContextManager[object]:
    """After an outage of the broker workers are to be as punctual as before."""
    return mock.patch.object(Attention, "unsettled", False)


def silence_counts_while_nothing_comes() -> AbstractContextManager[object]:
    """The clock of silences runs also while no heartbeat comes through the broker."""
    true: Callable[[Attention, int], None] = Attention.advance

    def advance(self: Attention, now_us: int) -> None:
        true(self, now_us)
        self._count(now_us)

    return mock.patch.object(Attention, "advance", advance)


def one_that_is_back_speaks_for_all() -> AbstractContextManager[object]:
    """After an outage no worker is waited for any more as soon as another one is heard."""

    def others_back(self: Detector, worker: str) -> bool:
        resumed_us = self._attention.resumed[-1]
        return any(one.heard_us > resumed_us for name, one in self._pulses.items() if name != worker)

    return mock.patch.object(Detector, "others_back", others_back)

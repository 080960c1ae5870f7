"""Detector of workers that answer, are suspected, or are gone: by their heartbeats and their parents' exit notices.

Source: PROTOCOL 5 and 8, MECHANISMS H5 and H7. Times are microseconds. Silence is measured on the replica's attention
(attention.py), so nobody is suspected because the broker or this process stood still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, HeartbeatRecord, Turn
from holdfast.services.kernel.liveness.attention import Attention

MIN_GRACE_US = 30_000
MAX_GRACE_BEATS = 2
"""Grace follows the spread of a worker's heartbeats between these bounds, the upper one in intervals."""

STALL_BEATS = 5
"""A longer pause is a stall: it says nothing about the usual spread, and who acted on it acted rightly."""

WARY_US, MAX_FACTOR = 30_000_000, 4
"""After a false switch its grace is doubled for so long; at most this many times the usual one."""

UNSETTLED_GRACE_BEATS = MAX_FACTOR * MAX_GRACE_BEATS
"""The longest grace that any worker gets. Every worker gets it for a while after an outage of the broker, for what its
heartbeats were like before says nothing of that time."""

ROW = 3
"""So many heartbeats in a row, none of them missed, and a worker answers again."""

REJOIN_US = 5_000_000
"""After an outage of the broker the silence of a worker that nobody has heard since counts only from then on. After the
first one, that is: where the own heartbeat is late again and again, who is dead must still be found out.
"""

OVERHEARD = 10
"""So many heartbeats of a former incarnation at another address, and it is no former one: two workers have one name."""

ABSENT_US = 60_000_000
"""A worker silent for longer is no longer expected."""

ALIVE_MISSES = 3
"""After more misses a worker gets no new copies."""

REPORT_US, REPORT_BEATS = 2_000_000, 10
"""Silent for longer than both, a worker gives no sign of life, and what it last reported no longer counts."""

HISTORY_BEATS = 5
"""So long after the start counts what a worker reported before it, though nobody has heard that worker since."""

LISTENED_BEATS = 2
"""So long after the start every worker that lives was heard, and may get copies."""


@dataclass(slots=True)
class Pulse:
    """The newest incarnation of a worker.

    beat: its last heartbeat, None before the first. heard_us: when, in attentive time. fresh: heard since this replica
    began to act. row: offsets of `assignments` that its last heartbeats in a row carried. steady_from_us: when that row
    began. late_us, spread_us: how late its heartbeats are, and how unevenly. accused: its silence made another copy
    take over. overheard: heartbeats since of an older incarnation elsewhere. turn: of its loop, which hangs.
    """

    worker: str
    incarnation: str
    heard_us: int
    beat: Heartbeat | None = None
    reports: Mapping[str, CopyState] = field(default_factory=dict)
    fresh: bool = False
    exited: bool = False
    row: tuple[int, ...] = ()
    steady_from_us: int = 0
    late_us: int = 0
    spread_us: int = 0
    factor: int = 1
    wary_until_us: int = 0
    accused: bool = False
    overheard: int = 0
    turn: Turn | None = None

    def ended(self, incarnation: str) -> bool:
        """True if that incarnation has ended: its parent saw it exit, or a later one runs."""
        return self.incarnation > incarnation or (self.exited and self.incarnation == incarnation)


class Detector:
    """Knowledge of one replica about the workers. clashes: two that have one name, the newer one first, until reported.

    Args:
        beat_us: interval of the workers' heartbeats.
        attention: the clock.
        fixed_grace_us: of every worker at every time, as in the paper (MECHANISMS H7); None: it follows the spread of
            each worker's heartbeats.
    """

    def __init__(self, beat_us: int, attention: Attention, fixed_grace_us: int | None = None) -> None:
        self._beat_us, self._fixed_grace_us = beat_us, fixed_grace_us
        self._attention = attention
        self._pulses: dict[str, Pulse] = {}
        self.false_switches: Counter[str] = Counter()
        self.clashes: dict[str, tuple[Heartbeat, Heartbeat]] = {}
        self._report_us = max(REPORT_US, REPORT_BEATS * beat_us)
        self._began_us = 0
        self.stirred_us = 0
        """Attentive time at which a worker last came, went, or was heard again after a stall."""

    # -- what was read ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Records read so far are history: from now on silence counts."""
        self._began_us = self._now_us
        for pulse in self._pulses.values():
            pulse.heard_us, pulse.fresh, pulse.row = self._now_us, False, ()

    def expect(self, worker: str, incarnation: str) -> None:
        """A valid assignment names it, so another process has heard it."""
        known = self._pulses.get(worker)
        if known is None or known.incarnation < incarnation:
            self._pulses[worker] = Pulse(worker, incarnation, self._now_us)
            self.stirred_us = self._now_us

    def read(self, record: HeartbeatRecord) -> None:
        """Takes a record; what comes from an incarnation that has ended revives nothing."""
        self.expect(record.worker, record.incarnation)
        pulse = self._pulses[record.worker]
        if pulse.incarnation != record.incarnation or pulse.exited:
            self._overhear(pulse, record)
            return
        if isinstance(record, Exit):
            pulse.exited, self.stirred_us = True, self._now_us
        else:
            self._hear(pulse, record)

    def _overhear(self, pulse: Pulse, record: HeartbeatRecord) -> None:
        """A heartbeat or two may have been in flight while a host was set up again; not many."""
        newest = pulse.beat
        if newest is None or pulse.exited or isinstance(record, Exit) or newest.address in ("", record.address):
            return
        pulse.overheard += 1
        if pulse.overheard == OVERHEARD:
            self.clashes[pulse.worker] = (newest, record)

    def accuse(self, worker: str, incarnation: str) -> None:
        """Its missing heartbeats have made another copy take over."""
        pulse = self._of(worker, incarnation)
        if pulse is not None and not pulse.exited:
            pulse.accused = True

    def _hear(self, pulse: Pulse, beat: Heartbeat) -> None:
        """Takes in a heartbeat. A loop that hangs has no more to say than before."""
        pulse.turn = beat.turn if beat.stuck else None
        if beat.stuck:
            return
        gap_us = self._now_us - pulse.heard_us
        missed = self._misses(pulse)
        if missed >= ALIVE_MISSES:
            self.stirred_us = self._now_us
        if missed or not pulse.row:
            pulse.row, pulse.steady_from_us = (), self._now_us
        pulse.row = (*pulse.row, beat.decided)[-ROW:]
        if pulse.accused:
            self._judge(pulse, gap_us)
        if pulse.fresh and gap_us < STALL_BEATS * self._beat_us:
            self._learn(pulse, min(max(gap_us - self._beat_us, 0), MAX_GRACE_BEATS * self._beat_us))
        pulse.reports = {copy.unit: copy for copy in beat.copies}
        pulse.beat, pulse.heard_us, pulse.fresh = beat, self._now_us, True

    def _judge(self, pulse: Pulse, gap_us: int) -> None:
        pulse.accused = False
        if gap_us < STALL_BEATS * self._beat_us:
            self.false_switches[pulse.worker] += 1
            pulse.factor = min(self._factor(pulse) * 2, MAX_FACTOR)
            pulse.wary_until_us = self._now_us + WARY_US

    @staticmethod
    def _learn(pulse: Pulse, late_us: int) -> None:
        """Mean and spread of lateness, weighed as TCP does for its time-outs (RFC 6298)."""
        pulse.spread_us += (abs(late_us - pulse.late_us) - pulse.spread_us) // 4
        pulse.late_us += (late_us - pulse.late_us) // 8

    # -- what follows from it -----------------------------------------------------------------------------------------

    def grace_us(self, worker: str) -> int:
        """The longest delay of a heartbeat that is not a miss."""
        pulse = self._pulses.get(worker)
        if pulse is None:
            return MIN_GRACE_US if self._fixed_grace_us is None else self._fixed_grace_us
        return self._grace_us(pulse)

    def misses(self, worker: str, incarnation: str) -> int:
        """Heartbeats missed in a row; 0 for one that is not the newest incarnation: ask whether it is gone."""
        pulse = self._of(worker, incarnation)
        return 0 if pulse is None else self._misses(pulse)

    def ended(self, worker: str, incarnation: str) -> bool:
        """Its parent saw it exit, or a later incarnation runs."""
        pulse = self._pulses.get(worker)
        return pulse is not None and pulse.ended(incarnation)

    def silent_us(self, worker: str) -> int:
        """For how long no incarnation of the worker was heard."""
        pulse = self._pulses.get(worker)
        return 0 if pulse is None else self._silent_us(pulse)

    def turn(self, worker: str, incarnation: str) -> Turn | None:
        """The turn in which its loop hangs, as its last heartbeat says; None: the loop turns, or nobody is heard."""
        pulse = self._of(worker, incarnation)
        return None if pulse is None else pulse.turn

    def gone(self, worker: str, incarnation: str, fail_stop_us: int) -> bool:
        """True if it ended, or is silent past the fail-stop time-out."""
        pulse = self._pulses.get(worker)
        if pulse is None:
            return fail_stop_us <= 0
        return pulse.ended(incarnation) or self._silent_us(pulse) >= fail_stop_us

    def answers(self, worker: str, incarnation: str, offset: int) -> bool:
        """Several heartbeats in a row say that it has read `assignments` up to the offset, and none is missing now."""
        pulse = self._of(worker, incarnation)
        return (
            pulse is not None
            and not pulse.exited
            and len(pulse.row) == ROW
            and min(pulse.row) >= offset
            and self._misses(pulse) == 0
        )

    def steady_us(self, worker: str, incarnation: str) -> int:
        """For how long none of its heartbeats has been missed; 0 while one is, or none was heard."""
        pulse = self._of(worker, incarnation)
        if pulse is None or not pulse.row or self._misses(pulse):
            return 0
        return self._now_us - pulse.steady_from_us

    def leaving(self, worker: str, incarnation: str) -> bool:
        """True if it was asked to stop, and waits until other copies lead its units."""
        pulse = self._of(worker, incarnation)
        return pulse is not None and not pulse.exited and pulse.beat is not None and pulse.beat.leaving

    def well(self, worker: str, incarnation: str, fail_stop_us: int) -> bool:
        """True if it is neither gone nor about to leave, and no heartbeat is missing."""
        pulse = self._of(worker, incarnation)
        if pulse is None or pulse.exited or (pulse.beat is not None and pulse.beat.leaving):
            return False
        silent_us = self._silent_us(pulse)
        return silent_us < fail_stop_us and (silent_us < self._beat_us or not self._misses(pulse))

    def says_nothing_new(self, record: HeartbeatRecord) -> bool:
        """Before it is read: the worker was well all the time, and its copies are where they were, or some batches on.

        It had answered before, so it answers now as it did.
        """
        pulse = self._of(record.worker, record.incarnation)
        if pulse is None or not pulse.fresh or pulse.exited or isinstance(record, Exit) or record.stuck:
            return False
        before = pulse.beat
        return (
            before is not None
            and pulse.turn is None
            and not self._misses(pulse)
            and pulse.row == (record.decided,) * ROW
            and (before.leaving, before.hosts, before.slots, before.standbys, before.versions)
            == (record.leaving, record.hosts, record.slots, record.standbys, record.versions)
            and len(before.copies) == len(record.copies)
            and all(map(_as_before, before.copies, record.copies))
        )

    @property
    def calm(self) -> bool:
        """Every worker answers, or is gone for good, and none is about to leave."""
        present = (pulse for pulse in self._pulses.values() if not pulse.exited)
        return not any(self._unsteady(pulse) for pulse in present)

    def _unsteady(self, pulse: Pulse) -> bool:
        leaves = pulse.beat is None or pulse.beat.leaving
        return self._silent_us(pulse) < ABSENT_US and (leaves or self._misses(pulse) > 0)

    def report(self, worker: str, incarnation: str, unit: str) -> CopyState | None:
        """Last report of a worker on its copy of the unit."""
        pulse = self._of(worker, incarnation)
        return None if pulse is None or pulse.exited else pulse.reports.get(unit)

    def newest(self, worker: str) -> Pulse | None:
        """The newest incarnation of that worker."""
        return self._pulses.get(worker)

    def heard(self, worker: str, incarnation: str) -> bool:
        """True if it gives signs of life, so that its last report counts."""
        pulse = self._of(worker, incarnation)
        return pulse is not None and self._heard(pulse)

    def reports(self, unit: str) -> Iterator[tuple[str, CopyState]]:
        """Reports of workers that give signs of life on their copies of a unit, by the name of the worker."""
        for pulse in self._pulses.values():
            if unit in pulse.reports and self._heard(pulse):
                yield pulse.worker, pulse.reports[unit]

    def last_reports(self, unit: str) -> Iterator[CopyState]:
        """Last reports of workers on their copies of a unit, also of workers that have ended."""
        for pulse in self._pulses.values():
            if unit in pulse.reports:
                yield pulse.reports[unit]

    @property
    def listened(self) -> bool:
        """True if every worker that lives was heard since the start; before that the first one heard seems the only
        one.
        """
        return self._now_us - self._began_us >= LISTENED_BEATS * self._beat_us

    def alive(self) -> Iterator[Heartbeat]:
        """The last heartbeats of workers that can take copies, by name."""
        for _, pulse in sorted(self._pulses.items()):
            if pulse.beat is not None and pulse.fresh and not pulse.exited and self._misses(pulse) < ALIVE_MISSES:
                yield pulse.beat

    def expected(self, hosts: str, within_us: int) -> set[str]:
        """Workers of that kind which live, or were heard so lately that they may come back.

        Args:
            hosts: the kind of process, as in a heartbeat.
        """
        present = ((name, pulse) for name, pulse in self._pulses.items() if self._silent_us(pulse) < within_us)
        return {name for name, pulse in present if pulse.beat is None or pulse.beat.hosts == hosts}

    @property
    def steady(self) -> set[tuple[str, str]]:
        """Workers and incarnations of which no heartbeat is missing."""
        present = (pulse for pulse in self._pulses.values() if not pulse.exited)
        return {(pulse.worker, pulse.incarnation) for pulse in present if not self._misses(pulse)}

    def zones(self) -> dict[str, str]:
        return {worker: pulse.beat.zone for worker, pulse in self._pulses.items() if pulse.beat is not None}

    def hosts(self) -> dict[str, str]:
        """The machine of each worker."""
        return {worker: pulse.beat.machine for worker, pulse in self._pulses.items() if pulse.beat is not None}

    def wait_us(self, worker: str, incarnation: str, fail_stop_us: int) -> int | None:
        """Attentive time until its next heartbeat counts as missed, or it as gone; None once it is gone."""
        pulse = self._of(worker, incarnation)
        if pulse is None or self.gone(worker, incarnation, fail_stop_us):
            return None
        next_miss_us = self._grace_us(pulse) + (self._misses(pulse) + 1) * self._beat_us
        return min(next_miss_us, fail_stop_us) - self._silent_us(pulse)

    @property
    def _now_us(self) -> int:
        return self._attention.attentive_us

    def _of(self, worker: str, incarnation: str) -> Pulse | None:
        pulse = self._pulses.get(worker)
        return pulse if pulse is not None and pulse.incarnation == incarnation else None

    def _heard(self, pulse: Pulse) -> bool:
        limit_us = self._report_us if pulse.fresh else HISTORY_BEATS * self._beat_us
        return pulse.beat is not None and not pulse.exited and self._silent_us(pulse) <= limit_us

    def _misses(self, pulse: Pulse) -> int:
        """The n-th heartbeat is missed once n intervals and the grace are over."""
        return max(0, (self._silent_us(pulse) - self._grace_us(pulse)) // self._beat_us)

    def _silent_us(self, pulse: Pulse) -> int:
        """Attentive time without a heartbeat; negative while it may still come back after an outage."""
        clock = self._attention
        resumed_us = clock.resumed_after(pulse.heard_us) if clock.resumed else None
        return clock.attentive_us - (pulse.heard_us if resumed_us is None else resumed_us + REJOIN_US)

    def _grace_us(self, pulse: Pulse) -> int:
        if self._fixed_grace_us is not None:
            return self._fixed_grace_us
        if self._attention.unsettled:
            return UNSETTLED_GRACE_BEATS * self._beat_us
        usual_us = min(max(pulse.late_us + 4 * pulse.spread_us, MIN_GRACE_US), MAX_GRACE_BEATS * self._beat_us)
        return usual_us * self._factor(pulse)

    def _factor(self, pulse: Pulse) -> int:
        return pulse.factor if self._now_us < pulse.wary_until_us else 1


def _as_before(was: CopyState, now: CopyState) -> bool:
    """But for how far it is."""
    return (was.unit, was.epoch, was.state, was.error, was.stopped, was.waits, was.shows) == (
        now.unit, now.epoch, now.state, now.error, now.stopped, now.waits, now.shows,
    )  # fmt: skip

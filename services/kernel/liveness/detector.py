"""A failure detector: which workers answer, are suspected or are gone, by heartbeats and their parents' exit notices.

Source: PROTOCOL 5 and 8, MECHANISMS H5 and H7. Times are microseconds. Silence is measured on the replica's attention
(attention.py), so a pause of the broker or of this process makes no worker suspected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat, HeartbeatRecord, Turn
from holdfast.services.kernel.liveness.attention import Attention

MIN_GRACE_US = 30_000
MAX_GRACE_BEATS = 2
"""The bounds of the grace, which follows the spread of a worker's heartbeats; the upper bound is in intervals."""

STALL_BEATS = 5
"""A longer pause is a stall: it does not count for the usual spread, and a takeover during it was right."""

WARY_US, MAX_FACTOR = 30_000_000, 4
"""WARY_US: the time after a false switch for which a worker's grace is doubled. MAX_FACTOR: the limit of the grace in
multiples of the usual one.
"""

UNSETTLED_GRACE_BEATS = MAX_FACTOR * MAX_GRACE_BEATS
"""The longest grace of any worker. Every worker has it for a while after an outage of the broker, because the spread of
earlier heartbeats does not hold for that time.
"""

ROW = 3
"""The number of heartbeats in a row, none of them missed, after which a worker answers again."""

REJOIN_US = 5_000_000
"""The time after an outage of the broker from which on the silence of a worker counts if it has sent no heartbeat
since. Only the first outage counts: if the own heartbeat is late repeatedly, a dead worker must still be found.
"""

RETURNED_US, RETURNED = 2_000_000, 2
"""The time for which all other workers, at least RETURNED of them, have been heard again after an outage of the broker
without a miss: the silence of the last worker counts from then on. With the pause of RECONNECT_US its client has had
3.6 s: it gives up an unanswered request after 3 s, and tries to connect at least twice a second.
"""

OVERHEARD = 10
"""The number of heartbeats of a former incarnation at another address that prove that two workers have the same name.
"""

ABSENT_US = 60_000_000
"""The silence after which a worker is no longer expected."""

ALIVE_MISSES = 3
"""The number of missed heartbeats beyond which a worker gets no new copies."""

REPORT_US, REPORT_BEATS = 2_000_000, 10
"""A worker silent for longer than both counts as lost, and its last report no longer counts."""

HISTORY_BEATS = 5
"""The intervals after the start for which a report from before the start counts, without a heartbeat since."""

LISTENED_BEATS = 2
"""The intervals after the start in which every live worker has sent a heartbeat, and may then get copies."""


@dataclass(slots=True)
class Pulse:
    """The newest incarnation of a worker. Times are microseconds.

    worker: the name of the worker.
    incarnation: its newest incarnation.
    heard_us: the attentive time of its last heartbeat.
    beat: its last heartbeat; None before the first.
    reports: its last reports on copies, by unit.
    fresh: True if a heartbeat arrived since this replica began to act.
    exited: True once its parent has reported its exit.
    row: the offsets of `assignments` in its last unbroken heartbeats.
    steady_from_us: the attentive time at which the unbroken heartbeats began.
    late_us: the mean lateness of its heartbeats.
    spread_us: the spread of this lateness.
    factor: the factor of its grace after false switches.
    wary_until_us: the attentive time until which the factor holds.
    accused: True if another copy took over because of its silence.
    overheard: the number of heartbeats since then from an older incarnation at another address.
    turn: the turn in which its loop hangs; None: it does not hang.
    resumed_us: the end of the first outage of the broker since its last heartbeat; None: none is known.
    back_us: the attentive time of its first heartbeat after the last outage.
    awaited: False once its silence counts although it has not been heard since an outage.
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
    resumed_us: int | None = None
    back_us: int = 0
    awaited: bool = True

    def hear(self, now_us: int) -> None:
        """Its silence begins again."""
        self.heard_us, self.resumed_us, self.awaited = now_us, None, True

    def unheard_since_us(self, clock: Attention) -> int | None:
        """The end of the first outage since its last heartbeat. The pulse keeps it: the clock forgets old outages."""
        if self.resumed_us is None and clock.resumed:
            self.resumed_us = clock.resumed_after(self.heard_us)
        return self.resumed_us

    def present(self, us: int) -> bool:
        """True if it was heard at that attentive time or later, and its parent has not reported its exit."""
        return not self.exited and self.heard_us >= us

    def ended(self, incarnation: str) -> bool:
        """True if that incarnation has ended: its parent has reported its exit, or a later one runs."""
        return self.incarnation > incarnation or (self.exited and self.incarnation == incarnation)


class Detector:
    """The knowledge of one replica about the workers.

    Args:
        beat_us: the interval of the workers' heartbeats.
        attention: the clock.
        fixed_grace_us: a fixed grace for every worker, as in the paper (MECHANISMS H7); None: it follows the spread of
            each worker's heartbeats.

    clashes: by worker, the two heartbeats of different processes with its name, the newer first, until reported.
    """

    def __init__(self, beat_us: int, attention: Attention, fixed_grace_us: int | None = None) -> None:
        self._beat_us = beat_us
        self._fixed_grace_us = fixed_grace_us
        self._attention = attention
        self._pulses: dict[str, Pulse] = {}
        self.false_switches: Counter[str] = Counter()
        self.clashes: dict[str, tuple[Heartbeat, Heartbeat]] = {}
        self._report_us = max(REPORT_US, REPORT_BEATS * beat_us)
        self._began_us = self._judged_us = 0
        self.stirred_us = 0
        """The attentive time at which a worker last appeared, went, or was heard again after a stall."""

    # -- what was read ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts to count silence; records read so far are history."""
        self._began_us = self._now_us
        for pulse in self._pulses.values():
            pulse.fresh, pulse.row = False, ()
            pulse.hear(self._now_us)

    def expect(self, worker: str, incarnation: str) -> None:
        """Notes an incarnation named in a valid assignment: another process has received its heartbeats."""
        known = self._pulses.get(worker)
        if known is None or known.incarnation < incarnation:
            self._pulses[worker] = Pulse(worker, incarnation, self._now_us)
            self.stirred_us = self._now_us

    def read(self, record: HeartbeatRecord) -> None:
        """Takes a record; a record of an ended incarnation revives nothing."""
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
        """Counts heartbeats of a former incarnation. A few may be in flight while a host is set up again; many mean a
        clash.
        """
        newest = pulse.beat
        if newest is None or pulse.exited or isinstance(record, Exit) or newest.address in ("", record.address):
            return
        pulse.overheard += 1
        if pulse.overheard == OVERHEARD:
            self.clashes[pulse.worker] = (newest, record)

    def accuse(self, worker: str, incarnation: str) -> None:
        """Notes that another copy took over because of this worker's missing heartbeats."""
        pulse = self._of(worker, incarnation)
        if pulse is not None and not pulse.exited:
            pulse.accused = True

    def _hear(self, pulse: Pulse, beat: Heartbeat) -> None:
        """Takes a heartbeat of the newest incarnation. If its loop hangs, only the hanging turn is noted."""
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
        pulse.beat, pulse.fresh = beat, True
        if pulse.unheard_since_us(self._attention) is not None:
            pulse.back_us = self._now_us
        pulse.hear(self._now_us)
        if self._attention.resumed:
            self._stop_waiting(self._attention.resumed[-1])

    def _stop_waiting(self, resumed_us: int) -> None:
        """Waits no longer for a worker if the outage of the broker cannot be why it alone is silent."""
        now_us = self._now_us
        if RETURNED_US <= now_us - resumed_us < REJOIN_US and now_us - self._judged_us >= self._beat_us:
            self._judged_us = now_us
            for pulse in self._pulses.values():
                if pulse.unheard_since_us(self._attention) is not None and self.others_back(pulse.worker):
                    pulse.awaited = False

    def _judge(self, pulse: Pulse, gap_us: int) -> None:
        pulse.accused = False
        if gap_us < STALL_BEATS * self._beat_us:
            self.false_switches[pulse.worker] += 1
            pulse.factor = min(self._factor(pulse) * 2, MAX_FACTOR)
            pulse.wary_until_us = self._now_us + WARY_US

    @staticmethod
    def _learn(pulse: Pulse, late_us: int) -> None:
        """Updates mean and spread of lateness, weighed as in TCP's time-outs (RFC 6298)."""
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
        """The number of heartbeats missed in a row; 0 for an older incarnation, for which `gone` is the right
        question.
        """
        pulse = self._of(worker, incarnation)
        return 0 if pulse is None else self._misses(pulse)

    def ended(self, worker: str, incarnation: str) -> bool:
        """True if its parent has reported its exit, or a later incarnation runs."""
        pulse = self._pulses.get(worker)
        return pulse is not None and pulse.ended(incarnation)

    def silent_us(self, worker: str) -> int:
        """The attentive time since the last heartbeat of any incarnation of the worker."""
        pulse = self._pulses.get(worker)
        return 0 if pulse is None else self._silent_us(pulse)

    def turn(self, worker: str, incarnation: str) -> Turn | None:
        """The turn in which its loop hangs, by its last heartbeat; None if the loop does not hang or no heartbeat
        arrived.
        """
        pulse = self._of(worker, incarnation)
        return None if pulse is None else pulse.turn

    def gone(self, worker: str, incarnation: str, fail_stop_us: int) -> bool:
        """True if the incarnation has ended, or is silent past the fail-stop time-out."""
        pulse = self._pulses.get(worker)
        if pulse is None:
            return fail_stop_us <= 0
        return pulse.ended(incarnation) or self._silent_us(pulse) >= fail_stop_us

    def answers(self, worker: str, incarnation: str, offset: int) -> bool:
        """True if several heartbeats in a row confirm that the worker has read `assignments` up to the offset, and none
        is missing now.
        """
        pulse = self._of(worker, incarnation)
        return (
            pulse is not None
            and not pulse.exited
            and len(pulse.row) == ROW
            and min(pulse.row) >= offset
            and self._misses(pulse) == 0
        )

    def steady_us(self, worker: str, incarnation: str) -> int:
        """The time since which no heartbeat was missed; 0 while one is missing or before the first."""
        pulse = self._of(worker, incarnation)
        if pulse is None or not pulse.row or self._misses(pulse):
            return 0
        return self._now_us - pulse.steady_from_us

    def leaving(self, worker: str, incarnation: str) -> bool:
        """True if the worker was requested to stop, and waits until other copies lead its units."""
        pulse = self._of(worker, incarnation)
        return pulse is not None and not pulse.exited and pulse.beat is not None and pulse.beat.leaving

    def well(self, worker: str, incarnation: str, fail_stop_us: int) -> bool:
        """True if the worker is neither gone nor about to leave, and no heartbeat is missing."""
        pulse = self._of(worker, incarnation)
        if pulse is None or pulse.exited or (pulse.beat is not None and pulse.beat.leaving):
            return False
        silent_us = self._silent_us(pulse)
        return silent_us < fail_stop_us and (silent_us < self._beat_us or not self._misses(pulse))

    def says_nothing_new(self, record: HeartbeatRecord) -> bool:
        """True if a record changes nothing: the worker was well all the time, and its copies are unchanged except for
        their progress. Called before the record is read.

        The worker has answered before, so it still answers.
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
        """True if every worker answers or is gone for good, and none is about to leave."""
        present = (pulse for pulse in self._pulses.values() if not pulse.exited)
        return not any(self._unsteady(pulse) for pulse in present)

    def _unsteady(self, pulse: Pulse) -> bool:
        leaves = pulse.beat is None or pulse.beat.leaving
        return self._silent_us(pulse) < ABSENT_US and (leaves or self._misses(pulse) > 0)

    def report(self, worker: str, incarnation: str, unit: str) -> CopyState | None:
        """The last report of a worker on its copy of the unit; None if there is none or the worker has ended."""
        pulse = self._of(worker, incarnation)
        return None if pulse is None or pulse.exited else pulse.reports.get(unit)

    def newest(self, worker: str) -> Pulse | None:
        """The newest incarnation of the worker; None if it is unknown."""
        return self._pulses.get(worker)

    def heard(self, worker: str, incarnation: str) -> bool:
        """True if the worker is heard recently enough for its last report to count."""
        pulse = self._of(worker, incarnation)
        return pulse is not None and self._heard(pulse)

    def reports(self, unit: str) -> Iterator[tuple[str, CopyState]]:
        """Yields worker and report for each copy of a unit, of workers heard recently enough."""
        for pulse in self._pulses.values():
            if unit in pulse.reports and self._heard(pulse):
                yield pulse.worker, pulse.reports[unit]

    def last_reports(self, unit: str) -> Iterator[CopyState]:
        """Yields the last reports of workers on their copies of a unit, also of workers that have ended."""
        for pulse in self._pulses.values():
            if unit in pulse.reports:
                yield pulse.reports[unit]

    def others_back(self, worker: str) -> bool:
        """True if all other workers have been heard again since the last outage, for RETURNED_US and without a miss.

        A worker that was silent already when the outage began is not waited for.
        """
        back, before_us = 0, self._attention.resumed[-1] - STALL_BEATS * self._beat_us
        for name, pulse in self._pulses.items():
            if name != worker and pulse.present(before_us):
                if not self._back(pulse):
                    return False
                back += 1
        return back >= RETURNED

    @property
    def listened(self) -> bool:
        """True if every live worker has been heard since the start; before that, the first worker heard seems to be the
        only one.
        """
        return self._now_us - self._began_us >= LISTENED_BEATS * self._beat_us

    def alive(self) -> Iterator[Heartbeat]:
        """The last heartbeats of workers that can take copies, by name."""
        for _, pulse in sorted(self._pulses.items()):
            if pulse.beat is not None and pulse.fresh and not pulse.exited and self._misses(pulse) < ALIVE_MISSES:
                yield pulse.beat

    def expected(self, hosts: str, within_us: int) -> set[str]:
        """The workers of a kind that live, or were heard recently enough to return.

        Args:
            hosts: the kind of process, as in a heartbeat.
            within_us: the longest silence of a worker that may return.
        """
        present = ((name, pulse) for name, pulse in self._pulses.items() if self._silent_us(pulse) < within_us)
        return {name for name, pulse in present if pulse.beat is None or pulse.beat.hosts == hosts}

    @property
    def steady(self) -> set[tuple[str, str]]:
        """The workers and incarnations without a missing heartbeat."""
        present = (pulse for pulse in self._pulses.values() if not pulse.exited)
        return {(pulse.worker, pulse.incarnation) for pulse in present if not self._misses(pulse)}

    def zones(self) -> dict[str, str]:
        return {worker: pulse.beat.zone for worker, pulse in self._pulses.items() if pulse.beat is not None}

    def hosts(self) -> dict[str, str]:
        """The machine of each worker."""
        return {worker: pulse.beat.machine for worker, pulse in self._pulses.items() if pulse.beat is not None}

    def wait_us(self, worker: str, incarnation: str, fail_stop_us: int) -> int | None:
        """The attentive time in microseconds until the worker's next heartbeat counts as missed or the worker as gone;
        None if it is gone.
        """
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
        """The number of missed heartbeats: the n-th is missed after n intervals and the grace."""
        return max(0, (self._silent_us(pulse) - self._grace_us(pulse)) // self._beat_us)

    def _silent_us(self, pulse: Pulse) -> int:
        """The attentive time without a heartbeat; negative while the worker may still return after an outage."""
        resumed_us = pulse.unheard_since_us(self._attention)
        if resumed_us is None or not pulse.awaited:
            return self._now_us - pulse.heard_us
        return self._now_us - (resumed_us + REJOIN_US)

    def _back(self, pulse: Pulse) -> bool:
        """True if the worker has been heard for RETURNED_US since the last outage, without a miss."""
        if pulse.unheard_since_us(self._attention) is not None or self._misses(pulse):
            return False
        return self._now_us - max(pulse.back_us, pulse.steady_from_us) >= RETURNED_US

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
    """True if a copy is unchanged except for its progress."""
    return (was.unit, was.epoch, was.state, was.error, was.stopped, was.waits, was.shows) == (
        now.unit, now.epoch, now.state, now.error, now.stopped, now.waits, now.shows,
    )  # fmt: skip

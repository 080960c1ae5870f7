"""Runs every detector on the same recording: its false suspicions, and its possible detection times.

Source: MECHANISMS H7, H8 and Z12/13. A suspicion is false when its worker sends a heartbeat within STALL_BEATS
    intervals; the suspicion of a worker that hung for longer is right, as in services/kernel/liveness/detector.py.
    Times are microseconds.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from bench.research.detectors.recording import Timing, Turn
from bench.rig.figures import percentile
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.liveness.attention import Attention
from holdfast.services.kernel.liveness.detector import MIN_GRACE_US, REJOIN_US, RETURNED_US, STALL_BEATS, Detector

MARGIN = 0.5
"""Elements that take longer than on an idle machine by this share of it are late (H8)."""
NEVER_MS = float("inf")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Suspicion of one worker.

    silent_us: time between the heartbeats before and after it.
    """

    at_us: int
    worker: str
    silent_us: int


@dataclass(frozen=True, slots=True)
class Detection:
    """A failure that might have been, and when it would have been known; None: never."""

    at_us: int
    took_us: int | None


@dataclass(slots=True)
class Findings:
    """Findings of one detector, in order of time."""

    suspicions: list[Suspicion] = field(default_factory=list)
    detections: list[Detection] = field(default_factory=list)


# -- heartbeats -------------------------------------------------------------------------------------------------------


class Watcher(Protocol):
    """A detector that counts missed heartbeats on a clock of its own.

    resumed: times at which outages of the broker were over.
    """

    @property
    def resumed(self) -> Sequence[int]: ...
    def returned_us(self, worker: str, resumed_us: int) -> int: ...
    def take(self, turn: Turn) -> None: ...
    @property
    def now_us(self) -> int: ...
    def misses(self, worker: str) -> int: ...
    def grace_us(self, worker: str) -> int: ...
    def accuse(self, worker: str) -> None: ...


class Adaptive:
    """The detector of recovery replicas. The grace follows each worker's heartbeats, and grows after false switches."""

    def __init__(self, beat_us: int, echo_us: int) -> None:
        self._attention = Attention(echo_us)
        self._detector = Detector(beat_us, self._attention)
        self._runs: dict[str, str] = {}
        self._returned: dict[tuple[str, int], int] = {}
        self.resumed: list[int] = []

    def take(self, turn: Turn) -> None:
        """Every heartbeat shows that one can be heard, as for a replica (docs/decisions/0253)."""
        self._attention.advance(turn.at_us)
        if turn.echo or turn.beats:
            self._attention.echo(turn.at_us)
            newest = list(self._attention.resumed)[-1:]
            self.resumed += newest if newest != self.resumed[-1:] else []
        for worker, incarnation in turn.beats:
            self._runs[worker] = incarnation
            self._detector.read(Heartbeat(worker, incarnation, 0))
        self._note_returns()

    def _note_returns(self) -> None:
        for resumed_us in self.resumed[-1:]:
            if RETURNED_US <= self.now_us - resumed_us < REJOIN_US:
                for worker in self._runs:
                    if self._detector.others_back(worker):
                        self._returned.setdefault((worker, resumed_us), self.now_us)

    def returned_us(self, worker: str, resumed_us: int) -> int:
        """The time from which on the silence of a worker counts that was not heard after an outage, on its clock."""
        return self._returned.get((worker, resumed_us), resumed_us + REJOIN_US)

    @property
    def now_us(self) -> int:
        return self._attention.attentive_us

    def misses(self, worker: str) -> int:
        return self._detector.misses(worker, self._runs[worker])

    def grace_us(self, worker: str) -> int:
        return self._detector.grace_us(worker)

    def accuse(self, worker: str) -> None:
        self._detector.accuse(worker, self._runs[worker])


class Fixed:
    """The paper's: a heartbeat is missed when it is late by a fixed grace, also if the detector is slow (H7)."""

    def __init__(self, beat_us: int, grace_us: int = MIN_GRACE_US) -> None:
        self._beat_us = beat_us
        self._grace_us = grace_us
        self._heard_us: dict[str, int] = {}
        self.resumed: Sequence[int] = ()
        self.now_us = 0

    def take(self, turn: Turn) -> None:
        self.now_us = turn.at_us
        self._heard_us |= {worker: turn.at_us for worker, _ in turn.beats}

    def returned_us(self, worker: str, resumed_us: int) -> int:
        return resumed_us

    def misses(self, worker: str) -> int:
        return max(0, (self.now_us - self._heard_us[worker] - self._grace_us) // self._beat_us)

    def grace_us(self, worker: str) -> int:
        return self._grace_us

    def accuse(self, worker: str) -> None:
        return


def watch(turns: Iterable[Turn], watcher: Watcher, misses: int, beat_us: int) -> Findings:
    """Suspects a worker after a number of misses, until its next heartbeat. Failures: halfway
    between two heartbeats.
    """
    findings = Findings()
    heard_us: dict[str, int] = {}
    suspected: dict[str, int] = {}
    clock: list[tuple[int, int]] = []
    due: list[tuple[str, int, int, int]] = []
    for turn in turns:
        watcher.take(turn)
        clock.append((watcher.now_us, turn.at_us))
        for worker, _ in turn.beats:
            if worker in suspected:
                silent_us = turn.at_us - heard_us[worker]
                findings.suspicions.append(Suspicion(suspected.pop(worker), worker, silent_us))
            heard_us[worker] = turn.at_us
            due.append((worker, turn.at_us, watcher.now_us, watcher.grace_us(worker) + misses * beat_us))
        for worker in heard_us.keys() - suspected.keys():
            if watcher.misses(worker) >= misses:
                suspected[worker] = turn.at_us
                watcher.accuse(worker)
    findings.suspicions.sort(key=lambda one: one.at_us)
    for worker, at_us, now_us, wait_us in due:
        findings.detections.append(_detected(at_us, _due_us(watcher, worker, now_us, wait_us), clock, beat_us))
    return findings


def _due_us(watcher: Watcher, worker: str, now_us: int, wait_us: int) -> int:
    """The time on the watcher's clock at which a worker would have been suspected that it heard for the last time."""
    found = bisect_left(watcher.resumed, now_us)
    if found == len(watcher.resumed) or watcher.resumed[found] >= now_us + wait_us:
        return now_us + wait_us
    resumed_us = watcher.resumed[found]
    return min(max(watcher.returned_us(worker, resumed_us), now_us + wait_us), resumed_us + REJOIN_US + wait_us)


def _detected(heard_us: int, due: int, clock: Sequence[tuple[int, int]], beat_us: int) -> Detection:
    """Had no heartbeat followed this one: in the first turn in which the watcher's clock has come so far."""
    failed_us = heard_us + beat_us // 2
    found = bisect_left(clock, (due, 0))
    return Detection(failed_us, clock[found][1] - failed_us if found < len(clock) else None)


# -- elements ---------------------------------------------------------------------------------------------------------


def watch_elements(timings: Sequence[Timing], turns: Iterable[Turn], idle_us: int, load: float) -> Findings:
    """Suspects all workers of the machine while elements are late. Failures: where `turns` has heartbeats (H8)."""
    findings, limit_us, suspected_us = Findings(), idle_us * (1 + MARGIN), 0
    for one in timings:
        late = one.load > load and one.took_us is not None and one.took_us > limit_us
        if late and not suspected_us:
            suspected_us = one.at_us
        elif suspected_us and not late:
            findings.suspicions.append(Suspicion(suspected_us, "", 0))
            suspected_us = 0
    looks = [one.at_us for one in timings if one.load > load]
    for turn in turns:
        if turn.beats:
            found = bisect_left(looks, turn.at_us)
            took_us = looks[found] + int(limit_us) - turn.at_us if found < len(looks) else None
            findings.detections.append(Detection(turn.at_us, took_us))
    return findings


def idle_us(timings: Sequence[Timing], first: int) -> int:
    """Time of the elements on an idle machine: the median of the first timings."""
    return int(statistics.median(one.took_us for one in timings[:first] if one.took_us is not None))


# -- what comes of it -------------------------------------------------------------------------------------------------


def standstills(turns: Iterable[Turn], beat_us: int) -> list[tuple[int, int]]:
    """Begin and end of each silence of a worker of at least STALL_BEATS intervals."""
    heard_us: dict[str, int] = {}
    found = []
    for turn in turns:
        for worker, _ in turn.beats:
            if turn.at_us - heard_us.get(worker, turn.at_us) >= STALL_BEATS * beat_us:
                found.append((heard_us[worker], turn.at_us))
            heard_us[worker] = turn.at_us
    return found


class Judgement(msgspec.Struct, frozen=True):
    """Judgement of one detector between two times: suspicions, and by when failures would have been known; None:
    never.
    """

    false: int
    right: int
    detection_p50_ms: float | None
    detection_p95_ms: float | None


def judged(
    findings: Findings, between_us: tuple[int, int], stood_still: Sequence[tuple[int, int]], beat_us: int
) -> Judgement:
    start_us, end_us = between_us
    some = [one for one in findings.suspicions if start_us <= one.at_us < end_us]
    right = [one for one in some if _right(one, stood_still, beat_us)]
    took = sorted(
        NEVER_MS if one.took_us is None else one.took_us / 1000
        for one in findings.detections
        if start_us <= one.at_us < end_us
    )
    p50, p95 = (percentile(took, share) if took else NEVER_MS for share in (0.5, 0.95))
    return Judgement(len(some) - len(right), len(right), _known(p50), _known(p95))


def _known(ms: float) -> float | None:
    return None if ms == NEVER_MS else round(ms, 1)


def _right(one: Suspicion, stood_still: Sequence[tuple[int, int]], beat_us: int) -> bool:
    if one.worker:
        return one.silent_us >= STALL_BEATS * beat_us
    return any(begin <= one.at_us <= end for begin, end in stood_still)

"""Predicted and actual duration of every takeover: a check of the promise, and a correction of estimates. Pure.

Source: MECHANISMS A3 (estimates), P13 (recovered: as far as before the failure). A takeover is foreseen when its record
is read, and judged when the new leader reports its duration. Every replica folds the same judgements from `events`, so
all replicas correct their estimates alike.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.services.recovery.core.unit.facts.verdict import MARGIN, Phases

MAX_MARGIN = 4.0
"""Largest factor of the phases after detection."""
FALLS = 0.25
"""Share of the difference by which a shorter takeover lowers the margin; a longer takeover sets the margin at once."""
WAITS_US = 2_000_000
"""Time for the replica whose record made a takeover to publish its judgement; then another replica does."""
GIVEN_UP_US = 120_000_000
"""Time after which an unreported takeover counts as overtaken by another failure or by the end of its job."""
MOST_UNMATCHED = 64
"""Largest number of reports of copies kept until their record is read."""

RECOVERED = "recovered"
"""The phase of a copy's report that ends when the copy is as far as its predecessor was
(worker/unit/facts/takeover.py)."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A takeover as its record is read.

    epoch, worker: of the record, and of the copy that leads by it.
    scheme: of the unit then.
    phases: the estimate for that scheme.
    promise_ms: the promise; 0: the unit has none.
    drilled: true if nothing had failed, so that nothing was detected.
    """

    epoch: int
    worker: str
    scheme: str
    phases: Phases
    promise_ms: float = 0.0
    drilled: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """A takeover and its estimate.

    actual, predicted: milliseconds by phase: detection, activation (until the copy works on its state), catching-up
        (until the copy is as far as its predecessor was, and its output is out), total.
    """

    foreseen: Foreseen
    actual: Mapping[str, float]
    predicted: Mapping[str, float]

    @property
    def promised(self) -> bool:
        return self.foreseen.promise_ms > 0

    @property
    def kept(self) -> bool:
        return not self.promised or self.actual["total"] <= self.foreseen.promise_ms

    @property
    def kind(self) -> str:
        """Kind of the judgement's event."""
        return "takeover-judged" if not self.promised else "promise-kept" if self.kept else "promise-broken"

    def __str__(self) -> str:
        foreseen, total = self.foreseen, self.predicted["total"]
        drill = "drill, detection as estimated: " if foreseen.drilled else ""
        guess = "nothing was predicted" if math.isinf(total) else f"{total:.0f} ms predicted"
        promise = f", {foreseen.promise_ms:.0f} ms promised" if self.promised else ""
        longest = max(PARTS, key=lambda part: self.actual[part])
        broken = "" if self.kept else f": most of it was {longest}"
        return f"{drill}{foreseen.scheme} took {self.actual['total']:.0f} ms, {guess}{promise}{broken}"


def needed(actual: Mapping[str, float], predicted: Mapping[str, float]) -> float:
    """Returns the factor by which the phases after detection took longer than the estimate without a margin."""
    if not predicted.keys() >= {*PARTS}:
        return MARGIN  # a part of the estimate is unknown
    expected, took = (sum(one.get(part, 0.0) for part in PARTS[1:]) for one in (predicted, actual))
    return took / expected if 0 < expected < math.inf and took >= 0 else MARGIN


def rounded(times: Mapping[str, float]) -> dict[str, float]:
    """Returns the times for a record, without infinite ones."""
    return {name: round(ms, 1) for name, ms in times.items() if math.isfinite(ms)}


def judge(foreseen: Foreseen, detection_ms: float, report: Mapping[str, float]) -> Judgement | None:
    """Compares a copy's report of a takeover with the estimate; None if the report has no time of recovery.

    Args:
        detection_ms: time from the last heartbeat to the record; for a drill, the estimate.
        report: milliseconds by phase of `unit-active`, from the record on.
    """
    if RECOVERED not in report or "activation" not in report:
        return None
    activation = report["activation"]
    return _judgement(foreseen, _whole(detection_ms, activation, max(report[RECOVERED] - activation, 0.0)))


def cut_short(foreseen: Foreseen, detection_ms: float, led_ms: float) -> Judgement:
    """Judges a copy that led for this time, reported nothing and leads no more."""
    return _judgement(foreseen, _whole(detection_ms, led_ms, 0.0))


def _judgement(foreseen: Foreseen, actual: dict[str, float]) -> Judgement:
    phases = foreseen.phases
    if not phases.total:  # the other copy has sent all the time: no output waited for this takeover
        actual["total"] = 0.0
    ahead = phases.slack + phases.deploy + phases.read
    predicted = _whole(phases.detection, ahead, max(phases.wire + phases.replay, phases.opening))
    return Judgement(foreseen, actual, predicted | {"total": phases.total})


PARTS = ("detection", "activation", "catching-up")


def _whole(detection: float, activation: float, catching_up: float) -> dict[str, float]:
    parts = dict(zip(PARTS, (detection, activation, catching_up), strict=True))
    return parts | {"total": sum(parts.values())}


def corrected(margin: float, needed: float) -> float:
    """Returns the margin after a takeover that took this multiple of its estimate; between MARGIN and MAX_MARGIN."""
    wanted = min(max(needed, MARGIN), MAX_MARGIN)
    return wanted if wanted >= margin else margin - FALLS * (margin - wanted)


@dataclass(slots=True)
class _Pending:
    foreseen: Foreseen
    detection_ms: float
    mine: bool
    since_us: int
    judgement: Judgement | None = None
    judged_us: int = 0


@dataclass(frozen=True, slots=True)
class _Report:
    unit: str
    epoch: int
    worker: str
    phases: Mapping[str, float]


@dataclass(slots=True)
class Judging:
    """Takeovers under way in one replica, by unit."""

    _pending: dict[str, _Pending] = field(default_factory=dict)
    _unmatched: deque[_Report] = field(default_factory=lambda: deque(maxlen=MOST_UNMATCHED))

    def began(self, unit: str, foreseen: Foreseen, detection_ms: float, mine: bool, now_us: int) -> None:
        """Takes the record of a takeover; a takeover that starts during another is judged together with it.

        mine: true if this replica wrote the record.
        """
        before = self._pending.get(unit)
        if before is not None and before.judgement is None and not before.foreseen.drilled:
            detection_ms += (now_us - before.since_us) / 1000 + before.detection_ms
        self._pending[unit] = _Pending(foreseen, detection_ms, mine, now_us)
        for report in [one for one in self._unmatched if one.unit == unit]:
            self.active(report.unit, report.epoch, report.worker, report.phases, now_us)

    def leads(self, unit: str, worker: str, now_us: int) -> None:
        """Takes a record without a failure, which names the leader; it ends an unreported takeover by another worker.

        That takeover is judged only if it had broken its promise by then, since its full duration is unknown.
        """
        pending = self._pending.get(unit)
        if pending is None or pending.judgement is not None or pending.foreseen.worker == worker:
            return
        judgement = cut_short(pending.foreseen, pending.detection_ms, (now_us - pending.since_us) / 1000)
        if judgement.kept:
            del self._pending[unit]
        else:
            pending.judgement, pending.judged_us = judgement, now_us

    def active(self, unit: str, epoch: int, worker: str, phases: Mapping[str, float], now_us: int) -> None:
        """Takes the report of a copy that leads, with the durations of its takeover."""
        pending = self._pending.get(unit)
        if pending is None or pending.foreseen.worker != worker or epoch < pending.foreseen.epoch:
            self._unmatched.append(_Report(unit, epoch, worker, phases))
            return
        if pending.judgement is None:
            pending.judgement = judge(pending.foreseen, pending.detection_ms, phases)
            pending.judged_us = now_us
            if pending.judgement is None:
                del self._pending[unit]

    def published(self, unit: str, epoch: int) -> None:
        """Takes a judgement of this takeover that was read: no other replica publishes another one."""
        pending = self._pending.get(unit)
        if pending is not None and pending.foreseen.epoch <= epoch:
            del self._pending[unit]

    def forget(self, unit: str) -> None:
        """Forgets a unit whose job has ended."""
        self._pending.pop(unit, None)

    def due(self, now_us: int) -> list[tuple[str, Judgement]]:
        """Returns the judgements that this replica publishes now: of its own takeovers at once, of others after
        WAITS_US.
        """
        found = []
        for unit, pending in list(self._pending.items()):
            if pending.judgement is None:
                if now_us - pending.since_us >= GIVEN_UP_US:
                    del self._pending[unit]
            elif pending.mine or now_us - pending.judged_us >= WAITS_US:
                found.append((unit, pending.judgement))
                del self._pending[unit]
        return found

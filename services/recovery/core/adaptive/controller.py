"""Controller of adaptive units in one replica: sets the times at which units are judged, and judges their schemes.

Source: MECHANISMS A4. Every replica has one and proposes the scheme that it finds best. The log decides which record
counts, and a valid record of any replica begins the cool-down of all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.recovery.core.adaptive.choosing import better, choose
from holdfast.services.recovery.core.adaptive.costing import cost, usage
from holdfast.services.recovery.core.adaptive.estimating import SLACK_MS, takeover
from holdfast.services.recovery.core.adaptive.judging import Foreseen, corrected
from holdfast.services.recovery.core.adaptive.measured import Measured
from holdfast.services.recovery.core.adaptive.steadying import Steady
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.recovery.core.unit.facts.terms import Terms
from holdfast.services.recovery.core.unit.facts.verdict import MARGIN, Estimate, Verdict
from holdfast.services.recovery.core.unit.rules.adapting import adaptable, lag
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.reasons import drilled, follows_failure

PACE_US = 500_000
"""Time between two passes over all adaptive units."""


def detection_ms(misses: int | None, beat_us: int, grace_us: int) -> float:
    """Returns the time from the failure of a worker without an exit notice to its suspicion; infinite without
    suspicion.

    A worker whose parent reports its exit is detected sooner, but a promise must also hold for one that falls silent.
    """
    return math.inf if misses is None else (misses * beat_us + grace_us) / 1000


class Adaptive:
    """The controller of adaptive units in one replica.

    Args:
        beat_us: interval of the workers' heartbeats.

    verdicts: by unit, the last proposal.
    foreseen: by unit, the takeover whose record was read last, until the shell takes it.
    """

    def __init__(self, beat_us: int) -> None:
        self._beat_us = beat_us
        self._measured: dict[str, Measured] = {}
        self._changed_us: dict[str, int] = {}
        self._margins: dict[str, float] = {}
        self._steady: dict[str, Steady] = {}
        self._looked_us = -PACE_US
        self._wanted: dict[str, Verdict] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.foreseen: dict[str, Foreseen] = {}

    # -- what comes in ------------------------------------------------------------------------------------------------

    def read(self, beat: Heartbeat, now_us: int) -> None:
        """Takes the costs that copies report, of placed units only."""
        for costs in beat.costs:
            if costs.unit in self._measured:
                self._measured[costs.unit].read(beat.worker, beat.incarnation, costs, now_us)

    def decided(self, before: Change | None, change: Change, now_us: int) -> None:
        """Takes a valid change of any replica."""
        self._measured.setdefault(change.unit, Measured()).decided(change)
        if before is None or before.scheme != change.scheme or before.adaptive != change.adaptive:
            self._changed_us[change.unit] = now_us
            self._steady.pop(change.unit, None)
        elif before.committer != change.committer:
            self._steady.pop(change.unit, None)

    def forget(self, unit: str) -> None:
        """Forgets a unit whose job has ended."""
        for known in (
            self._measured, self._changed_us, self._margins, self._steady, self.verdicts, self.foreseen,
        ):  # fmt: skip
            known.pop(unit, None)

    def judged(self, unit: str, needed: float) -> None:
        """Takes a judgement: a takeover of the unit took this multiple of its estimate."""
        if unit in self._measured:
            self._margins[unit] = corrected(self.margin(unit), needed)

    # -- what follows -------------------------------------------------------------------------------------------------

    def due(self, now_us: int) -> bool:
        """True if it is time for a pass over all units; called once for each pass."""
        if now_us - self._looked_us < PACE_US:
            return False
        self._looked_us = now_us
        return True

    def look(self, situations: Iterable[Situation], now_us: int) -> list[str]:
        """Judges the adaptive units that may change now; returns the units with a verdict."""
        for one in situations:
            change, terms = one.change, one.terms
            if not adaptable(one):
                continue
            grace_us = one.detector.grace_us(one.primary.worker)
            found = self.verdict(change, terms, grace_us, now_us, lag(one))
            if found is None:
                continue
            steady = self._steady.setdefault(change.unit, Steady())
            steady.look({estimate.scheme for estimate in better(found)}, now_us)
            if self.rested(change.unit, terms, now_us):
                settled = steady.found(now_us, terms.promise.cool_down_us)
                self._wanted[change.unit] = choose(found.promise_ms, found.estimates, found.present, settled)
        return list(self._wanted)

    @property
    def concerned(self) -> Collection[str]:
        """Units with a verdict."""
        return self._wanted

    def wanted(self, unit: str) -> Verdict | None:
        """Returns the unit's verdict of the present pass."""
        return self._wanted.get(unit)

    def looked(self, changed: Collection[str]) -> None:
        """Ends the pass.

        changed: units of which a record was proposed.
        """
        self.verdicts |= {unit: verdict for unit, verdict in self._wanted.items() if unit in changed}
        self._wanted.clear()

    def rested(self, unit: str, terms: Terms, now_us: int) -> bool:
        """True if the cool-down since the unit's last change of scheme is over."""
        return now_us - self._changed_us.get(unit, now_us) >= terms.promise.cool_down_us

    def margin(self, unit: str) -> float:
        """Returns the factor of the phases after detection, as the unit's takeovers have corrected it."""
        return self._margins.get(unit, MARGIN)

    def foresee(self, before: Change | None, after: Change, terms: Terms | None, detector: Detector) -> None:
        """Estimates the takeover that these two records make, if any, from the measurements of the former leader.

        Call it before these measurements are dropped. If too little is known, no estimate is kept.
        """
        was, leader = None if before is None else before.committer, after.committer
        if before is None or was is None or leader is None or terms is None or before.scheme not in SCHEMES:
            return
        if not (follows_failure(after) or drilled(after)) or (was.worker, was.incarnation) == (
            leader.worker,
            leader.incarnation,
        ):
            return
        measured = self._measured.get(before.unit)
        heard_us = None if measured is None else measured.heard_us(before)
        if heard_us is None:
            return
        verdict = self.verdict(before, terms, detector.grace_us(was.worker), heard_us)
        if verdict is None:
            return
        promise_ms = terms.promise.recovery_ms if before.adaptive else 0.0
        phases = verdict.of(before.scheme).phases
        found = Foreseen(
            after.epoch, leader.worker, before.scheme, phases, promise_ms=promise_ms, drilled=drilled(after)
        )
        self.foreseen[before.unit] = found

    def verdict(self, change: Change, terms: Terms, grace_us: int, now_us: int, lag_batches: int = 0) -> Verdict | None:
        """Returns the verdict on every scheme for the unit; None if too little is known of its leader.

        Args:
            grace_us: grace of its leader's worker.
            lag_batches: batches by which its secondary is behind, if it processes.
        """
        measured = self._measured.get(change.unit)
        if measured is None:
            return None
        facts = measured.facts(
            change, now_us, delivers=terms.delivers, alone=terms.alone, interval_ms=terms.interval_ms,
            lag_batches=lag_batches,
        )  # fmt: skip
        work = measured.work(change, now_us)
        if facts is None or work is None:
            return None
        estimates = []
        for name in SCHEMES:
            rung = terms.target(name)
            phases = takeover(
                rung, facts, exact=terms.promise.exact, slack_ms=SLACK_MS, margin=self.margin(change.unit),
                detection_ms=detection_ms(terms.misses_of(name), self._beat_us, grace_us),
            )  # fmt: skip
            estimates.append(Estimate(name, phases, cost(usage(rung, work), terms.promise.weights)))
        return choose(terms.promise.recovery_ms, estimates, change.scheme)

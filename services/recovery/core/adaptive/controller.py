"""Controller of adaptive units in one replica: it says when to look at a unit, and judges the unit's schemes.

Source: MECHANISMS A4. Every replica has one, and each proposes what it holds best; the log decides which record counts,
and a record of any of them begins the cool-down of all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from holdfast.schemas.assignments import Change
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.recovery.core.adaptive.choosing import Estimate, Verdict, better, choose
from holdfast.services.recovery.core.adaptive.costing import cost, usage
from holdfast.services.recovery.core.adaptive.estimating import MARGIN, SLACK_MS, takeover
from holdfast.services.recovery.core.adaptive.judging import Foreseen, corrected
from holdfast.services.recovery.core.adaptive.measured import Measured
from holdfast.services.recovery.core.adaptive.steadying import Steady
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES
from holdfast.services.recovery.core.unit.facts.terms import Terms
from holdfast.services.recovery.core.unit.rules.adapting import adaptable, lag
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.reasons import drilled, follows_failure

PACE_US = 500_000
"""Between two looks at all adaptive units."""


def detection_ms(misses: int | None, beat_us: int, grace_us: int) -> float:
    """From the failure of a worker of which nobody gives notice until it is suspected; infinite: it never is.

    A worker whose parent reports its exit is found sooner, but a promise must hold for one that falls silent.
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
        """Takes in the costs that copies report; only of units that somebody has placed."""
        for costs in beat.costs:
            if costs.unit in self._measured:
                self._measured[costs.unit].read(beat.worker, beat.incarnation, costs, now_us)

    def decided(self, before: Change | None, change: Change, now_us: int) -> None:
        """A valid change, whoever proposed it."""
        self._measured.setdefault(change.unit, Measured()).decided(change, now_us)
        if before is None or before.scheme != change.scheme or before.adaptive != change.adaptive:
            self._changed_us[change.unit] = now_us
            self._steady.pop(change.unit, None)
        elif before.committer != change.committer:
            self._steady.pop(change.unit, None)

    def forget(self, unit: str) -> None:
        """Its job has ended."""
        for known in (
            self._measured, self._changed_us, self._margins, self._steady, self.verdicts, self.foreseen,
        ):  # fmt: skip
            known.pop(unit, None)

    def judged(self, unit: str, needed: float) -> None:
        """A takeover of the unit needed this factor of what was estimated."""
        if unit in self._measured:
            self._margins[unit] = corrected(self.margin(unit), needed)

    # -- what follows -------------------------------------------------------------------------------------------------

    def due(self, now_us: int) -> bool:
        """True if it is time to look at all units again; called once for each look."""
        if now_us - self._looked_us < PACE_US:
            return False
        self._looked_us = now_us
        return True

    def look(self, situations: Iterable[Situation], now_us: int) -> list[str]:
        """At units whose scheme is ours to choose; those that may change now and of which enough is known."""
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
        """The verdict of the look that is under way."""
        return self._wanted.get(unit)

    def looked(self, changed: Collection[str]) -> None:
        """The look is over. changed: units of which a record was proposed."""
        self.verdicts |= {unit: verdict for unit, verdict in self._wanted.items() if unit in changed}
        self._wanted.clear()

    def rested(self, unit: str, terms: Terms, now_us: int) -> bool:
        """True if the cool-down since the unit's last change of scheme is over."""
        return now_us - self._changed_us.get(unit, now_us) >= terms.promise.cool_down_us

    def margin(self, unit: str) -> float:
        """Factor of what follows detection, as its takeovers have corrected it."""
        return self._margins.get(unit, MARGIN)

    def foresee(self, before: Change | None, after: Change, terms: Terms | None, detector: Detector) -> None:
        """The takeover that these two records make, if they do, as it is estimated with what the former leader said.

        Before what that leader has measured is forgotten. Nothing where too little is known.
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
        """On every scheme for the unit as it stands; None: too little is known of its leader.

        Args:
            grace_us: that its leader's worker is given. lag_batches: that its secondary is behind, if it processes.
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

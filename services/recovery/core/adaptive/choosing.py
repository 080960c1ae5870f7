"""The scheme of a unit: the cheapest one that keeps the promise. Pure.

Source: MECHANISMS A4, docs/decisions/0101.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.services.recovery.core.adaptive.estimating import Phases
from holdfast.services.recovery.core.unit.facts.schemes import FIRST

HEADROOM = 0.9
"""Largest share of the promise that a new scheme may take; the present scheme may take all of it."""
SAVES = 0.05
"""Share of the cost that another scheme must save before it replaces a scheme that keeps the promise."""
SHORTER = 0.9
"""Largest share of the present scheme's time that another scheme may take if no scheme keeps the promise."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of one scheme.

    phases: expected duration of a takeover.
    cost: weighed cost of its secondary.
    """

    scheme: str
    phases: Phases
    cost: float

    @property
    def total_ms(self) -> float:
        return self.phases.total


CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The choice of a scheme for one unit.

    promise_ms: the user's promise.
    estimates: of every scheme.
    chosen: name of the chosen scheme.
    present: name of the unit's present scheme.
    unsteady: schemes that suit better now, but not for long enough.
    """

    promise_ms: float
    estimates: tuple[Estimate, ...]
    chosen: str
    present: str = ""
    unsteady: frozenset[str] = frozenset()

    def of(self, scheme: str) -> Estimate:
        return next(one for one in self.estimates if one.scheme == scheme)

    @property
    def summary(self) -> str:
        """The chosen scheme with its time and cost, in a few words."""
        one = self.of(self.chosen)
        takes = "an unknown time" if math.isinf(one.total_ms) else f"{one.total_ms:.0f} ms"
        return f"{one.scheme} takes {takes} of {self.promise_ms:.0f} ms and costs {one.cost:.2f}"

    def rejected(self, one: Estimate) -> str:
        """Returns the reason against a scheme; for the chosen scheme, its shortcoming or CHOSEN."""
        if one.scheme == self.chosen:
            if one.total_ms <= self.promise_ms:
                return CHOSEN
            if math.isinf(one.total_ms):
                return f"{CHOSEN}, though not known: {unknown(one.phases)}"
            return f"{CHOSEN}, though it takes {one.total_ms - self.promise_ms:.0f} ms more than the promise: " + (
                "none that is known keeps it"
                if all(other.total_ms > self.promise_ms for other in self.estimates if other is not one)
                else "no other suits better"
            )
        if one.scheme == "none":
            return "waits for its worker to return"
        if math.isinf(one.total_ms):
            return f"not known: {unknown(one.phases)}"
        if one.total_ms > self.promise_ms:
            return f"takes {one.total_ms - self.promise_ms:.0f} ms more than the promise"
        if not keeps(one, self):
            return f"keeps the promise with less than {1 - HEADROOM:.0%} to spare"
        if one.scheme in self.unsteady:
            return "has not suited better for long enough"
        chosen = self.of(self.chosen)
        if _rank(one) > _rank(chosen):
            same = round(one.cost, 3) == round(chosen.cost, 3)
            return "costs the same and takes longer" if same else f"costs {one.cost - chosen.cost:.2f} more"
        return f"costs less by no more than {SAVES:.0%}"


def choose(
    promise_ms: float, estimates: Sequence[Estimate], present: str = "", steady: Collection[str] | None = None
) -> Verdict:
    """The verdict on these schemes.

    Args:
        present: the scheme that the unit has; empty: none yet.
        steady: schemes that have suited better than the present one for long enough; None: all that do now. A present
            scheme that breaks the promise is left at once.
    """
    asked = Verdict(promise_ms, tuple(estimates), present, present)
    stays = next((one for one in estimates if one.scheme == present), None)
    if stays is None or not keeps(stays, asked):
        return Verdict(promise_ms, asked.estimates, _left_for(asked, stays), present)
    suited = better(asked)
    able = [one for one in suited if steady is None or one.scheme in steady]
    unsteady = frozenset(one.scheme for one in suited) - {one.scheme for one in able}
    return Verdict(promise_ms, asked.estimates, min([stays, *able], key=_rank).scheme, present, unsteady=unsteady)


def better(verdict: Verdict) -> list[Estimate]:
    """Returns the schemes that suit better than the present one: they keep the promise with headroom, and cost
    visibly less.
    """
    present = next((one for one in verdict.estimates if one.scheme == verdict.present), None)
    if present is None or not keeps(present, verdict):
        return []
    return [one for one in verdict.estimates if one is not present and keeps(one, verdict) and _better(one, present)]


def _left_for(asked: Verdict, present: Estimate | None) -> str:
    """Returns the scheme that replaces one which breaks the promise: the cheapest that keeps it, if possible with
    headroom.

    If no scheme keeps the promise, the result is the one with the shortest takeover, if it is visibly shorter;
    otherwise the present scheme stays.
    """
    able = [one for one in asked.estimates if keeps(one, asked)]
    able = able or [one for one in asked.estimates if one.total_ms <= asked.promise_ms]
    if able:
        return min(able, key=_rank).scheme
    if present is None or math.isinf(present.total_ms):
        return FIRST
    return FIRST if asked.of(FIRST).total_ms <= SHORTER * present.total_ms else present.scheme


def keeps(one: Estimate, verdict: Verdict) -> bool:
    """True if the scheme keeps the promise, with headroom if the unit would have to change to it."""
    share = 1.0 if verdict.present in ("", one.scheme) else HEADROOM
    return one.total_ms <= share * verdict.promise_ms


def unknown(phases: Phases) -> str:
    """The names of the phases of unknown duration."""
    return " and ".join(name for name, ms in phases.named().items() if math.isinf(ms)) or "nothing"


def _rank(one: Estimate) -> tuple[float, float]:
    """Sort key: cost, then duration of the recovery."""
    return round(one.cost, 3), one.total_ms


def _better(one: Estimate, present: Estimate) -> bool:
    if round(one.cost, 3) == round(present.cost, 3):
        return one.total_ms < present.total_ms and one.cost <= present.cost
    return one.cost < (1 - SAVES) * present.cost

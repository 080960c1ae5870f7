"""Which scheme a unit gets: the cheapest one that keeps the promise. Pure.

Source: MECHANISMS A4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from services.recovery.core.adaptive.estimating import Phases
from services.recovery.core.unit.schemes import FIRST

HEADROOM = 0.9
"""A scheme is changed to only if it takes at most this share of the promise: the present one may take all of it."""
SAVES = 0.05
"""A scheme that keeps the promise is left only for one that costs less by more than this share."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of one scheme. cost: of its secondary, weighed."""

    scheme: str
    phases: Phases
    cost: float

    @property
    def total_ms(self) -> float:
        return self.phases.total


@dataclass(frozen=True, slots=True)
class Verdict:
    """promise_ms: the user's. estimates: of every scheme. chosen: one of them. present: where the unit stands."""

    promise_ms: float
    estimates: tuple[Estimate, ...]
    chosen: str
    present: str = ""

    def of(self, scheme: str) -> Estimate:
        return next(one for one in self.estimates if one.scheme == scheme)

    @property
    def summary(self) -> str:
        """The chosen scheme, in a few words."""
        one = self.of(self.chosen)
        takes = "an unknown time" if math.isinf(one.total_ms) else f"{one.total_ms:.0f} ms"
        return f"{one.scheme} takes {takes} of {self.promise_ms:.0f} ms and costs {one.cost:.2f}"

    def rejected(self, one: Estimate) -> str:
        """Why not this one; empty for the chosen one."""
        if one.scheme == self.chosen:
            return ""
        if one.scheme == "none":
            return "waits for its worker to return"
        if math.isinf(one.total_ms):
            return f"not known: {unknown(one.phases)}"
        if one.total_ms > self.promise_ms:
            return f"takes {one.total_ms - self.promise_ms:.0f} ms more than the promise"
        if not keeps(one, self):
            return f"keeps the promise with less than {1 - HEADROOM:.0%} to spare"
        chosen = self.of(self.chosen)
        if _rank(one) > _rank(chosen):
            same = round(one.cost, 3) == round(chosen.cost, 3)
            return "costs the same and takes longer" if same else f"costs {one.cost - chosen.cost:.2f} more"
        return f"costs less by no more than {SAVES:.0%}"


def choose(promise_ms: float, estimates: Sequence[Estimate], present: str = "") -> Verdict:
    """The verdict on these schemes. present: the scheme that the unit has; empty: none yet."""
    asked = Verdict(promise_ms, tuple(estimates), present, present)
    able = [one for one in estimates if keeps(one, asked)]
    if not able:
        return Verdict(promise_ms, asked.estimates, FIRST, present)
    best = min(able, key=_rank)
    stays = next((one for one in able if one.scheme == present), None)
    if stays is not None and not _better(best, stays):
        best = stays
    return Verdict(promise_ms, asked.estimates, best.scheme, present)


def keeps(one: Estimate, verdict: Verdict) -> bool:
    """Whether the scheme keeps the promise, with headroom if the unit would have to change to it."""
    share = 1.0 if verdict.present in ("", one.scheme) else HEADROOM
    return one.total_ms <= share * verdict.promise_ms


def unknown(phases: Phases) -> str:
    """The phases of which nothing is known."""
    return " and ".join(name for name, ms in phases.named().items() if math.isinf(ms)) or "nothing"


def _rank(one: Estimate) -> tuple[float, float]:
    """By cost; ties to the shorter recovery."""
    return round(one.cost, 3), one.total_ms


def _better(one: Estimate, present: Estimate) -> bool:
    if round(one.cost, 3) == round(present.cost, 3):
        return one.total_ms < present.total_ms and one.cost <= present.cost
    return one.cost < (1 - SAVES) * present.cost

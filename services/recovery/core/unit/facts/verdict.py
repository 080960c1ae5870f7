"""The verdict on the schemes of a unit: the time of a takeover under each, its cost, and the one that is chosen.

Source: MECHANISMS A4, docs/decisions/0101.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HEADROOM = 0.9
"""Largest share of the promise that a new scheme may take; the present scheme may take all of it."""
SAVES = 0.05
"""Share of the cost that another scheme must save before it replaces a scheme that keeps the promise."""
MARGIN = 1.0
"""Factor of the phases after detection, before takeovers have corrected it (adaptive/judging.py)."""


@dataclass(frozen=True, slots=True)
class Phases:
    """Phases of one takeover, in milliseconds.

    wire: inputs and outputs are connected side by side.
    opening: runs beside wire and replay.
    slack: see SLACK_MS.
    margin: factor of the phases after detection.
    """

    detection: float = 0.0
    deploy: float = 0.0
    read: float = 0.0
    wire: float = 0.0
    replay: float = 0.0
    opening: float = 0.0
    slack: float = 0.0
    margin: float = MARGIN

    @property
    def work(self) -> float:
        """Time from the decision until all arrived records are processed and rows can be delivered, without the
        margin.
        """
        return self.deploy + self.read + max(self.wire + self.replay, self.opening)

    @property
    def total(self) -> float:
        return self.detection + self.slack + self.margin * self.work

    def named(self) -> dict[str, float]:
        """The phases that take any time, in their order."""
        names = ("detection", "deploy", "read", "wire", "replay", "opening")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


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
        if rank(one) > rank(chosen):
            same = round(one.cost, 3) == round(chosen.cost, 3)
            return "costs the same and takes longer" if same else f"costs {one.cost - chosen.cost:.2f} more"
        return f"costs less by no more than {SAVES:.0%}"


def keeps(one: Estimate, verdict: Verdict) -> bool:
    """True if the scheme keeps the promise, with headroom if the unit would have to change to it."""
    share = 1.0 if verdict.present in ("", one.scheme) else HEADROOM
    return one.total_ms <= share * verdict.promise_ms


def unknown(phases: Phases) -> str:
    """The names of the phases of unknown duration."""
    return " and ".join(name for name, ms in phases.named().items() if math.isinf(ms)) or "nothing"


def rank(one: Estimate) -> tuple[float, float]:
    """Sort key: cost, then duration of the recovery."""
    return round(one.cost, 3), one.total_ms

"""The scheme of a unit: the cheapest one that keeps the promise. Pure.

Source: MECHANISMS A4, docs/decisions/0101.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from holdfast.services.recovery.core.unit.facts.schemes import FIRST
from holdfast.services.recovery.core.unit.facts.verdict import SAVES, Estimate, Verdict, keeps, rank

SHORTER = 0.9
"""Largest share of the present scheme's time that another scheme may take if no scheme keeps the promise."""


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
    return Verdict(promise_ms, asked.estimates, min([stays, *able], key=rank).scheme, present, unsteady=unsteady)


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
        return min(able, key=rank).scheme
    if present is None or math.isinf(present.total_ms):
        return FIRST
    return FIRST if asked.of(FIRST).total_ms <= SHORTER * present.total_ms else present.scheme


def _better(one: Estimate, present: Estimate) -> bool:
    if round(one.cost, 3) == round(present.cost, 3):
        return one.total_ms < present.total_ms and one.cost <= present.cost
    return one.cost < (1 - SAVES) * present.cost

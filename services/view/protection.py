"""Units without a second copy, and the reasons, for people.

Source: MECHANISMS section 4, H9. Recovery decides; this module derives its findings from the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.facts.terms import Terms, terms

ONE_WORKER, ONE_DRIVER = "one worker", "one Spark driver"
BY_SCHEME = "scheme none"
OTHER_VERSIONS = "every other worker has versions that give other bytes"
MAKING = "a standby is being made"
PASSING = (MAKING,)
"""Reasons that end by themselves within seconds."""


def unprotected(plan: Plan, changes: Mapping[str, Change], alive: Iterable[Heartbeat]) -> dict[str, tuple[str, ...]]:
    """Names of units that run without a standby, by the reason.

    A unit under a scheme that makes its second copy only after a failure (`passive`) is protected while another worker
    could host it. Units without any copy are left out.

    Args:
        changes: changes of all units, by key.
        alive: the last heartbeats of workers that may host copies.
    """
    beats, of_units = list(alive), dict[str, Terms]()
    found: dict[str, list[str]] = {}
    for unit in plan.units:
        key = unit_key(plan.job, plan.generation, unit.name)
        change = changes.get(key)
        if change is None or len(change.copies) != 1:
            continue
        of_units = of_units or terms(plan)  # most of the time no unit is alone
        if reason := _reason(change, of_units[key], beats):
            found.setdefault(reason, []).append(unit.name)
    return {reason: tuple(units) for reason, units in found.items()}


def _reason(change: Change, known: Terms, beats: list[Heartbeat]) -> str:
    if change.scheme == "none":
        return BY_SCHEME
    others = [beat for beat in beats if beat.hosts == known.host and beat.worker != change.copies[0].worker]
    if not others:
        return ONE_DRIVER if known.host else ONE_WORKER
    if all(known.pin.fit(change, beat.versions) is Fit.DIFFERS for beat in others):
        return OTHER_VERSIONS
    scheme = change.scheme if change.scheme in SCHEMES else "none"
    return "" if known.target(scheme) is Rung.ABSENT else MAKING


def said(unprotected: Mapping[str, tuple[str, ...]], units: int) -> list[str]:
    """A line per reason: `unprotected: one worker`, with the units unless all `units` of the job are meant."""
    return [
        f"unprotected: {reason}" + ("" if len(names) == units else f" ({', '.join(names)})")
        for reason, names in unprotected.items()
    ]

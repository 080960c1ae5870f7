"""Units whose standbys have no place, because every suitable worker holds as many copies as it may, for people.

Source: MECHANISMS H9. Recovery decides; this module derives its findings from the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.facts.terms import terms


def unserved(plan: Plan, changes: Mapping[str, Change], alive: Iterable[Heartbeat]) -> tuple[str, ...]:
    """Names of units whose standby has no place.

    Args:
        changes: changes of all units, by key.
        alive: the last heartbeats of workers that may host copies.
    """
    beats = list(alive)
    if not any(beat.standbys >= 0 for beat in beats):
        return ()
    found, of_units = [], terms(plan)
    for unit in plan.units:
        key = unit_key(plan.job, plan.generation, unit.name)
        change, known = changes.get(key), of_units[key]
        alone = change is not None and len(change.copies) == 1
        if change is None or not alone or known.target(_scheme(change)) is Rung.ABSENT:
            continue
        fits = [(beat, known.pin.fit(change, beat.versions)) for beat in beats if beat.hosts == known.host]
        fitting = [Candidate.of(beat, shown=fit is Fit.EQUAL) for beat, fit in fits if fit is not Fit.DIFFERS]
        room = Room(fitting, {beat.worker: beat.zone for beat in beats})
        for each in changes.values():
            room.enter(each)
        primary = change.copies[0].worker
        if room.for_standbys(primary) and room.for_secondary(primary, known.spread) is None:
            found.append(unit.name)
    return tuple(found)


def _scheme(change: Change) -> str:
    return change.scheme if change.scheme in SCHEMES else "none"

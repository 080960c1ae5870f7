"""Changes that are due, with room for the copies that they add."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.schemas.assignments import Change
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.unit.rules import protection
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import reasons, switching


def propose(known: ReplicaView, units: Sequence[str], all_units: bool = False) -> list[Change]:
    """Returns the changes that are due for these units, in this order; each is proposed once until it is read back.

    all_units: true if these are all units, the important ones first. Otherwise, if workers limit their standbys, no
        unit gets a new standby. No unit gets one while units of an incident wait for slots, either.
    """
    if not known.acting or not units:
        return []
    changes: list[Change] = []
    rooms: dict[object, Room] = {}
    waits = known.incidents.waits(known.assigned)
    for unit in units:
        situation = None if unit in known.proposed else known.situation(unit)
        if situation is None:
            continue
        known.outages.look_at(situation, known.assigned)
        change = switching.next_change(situation, partial(room, known, situation, rooms))
        known.settled[unit] = situation.change if change is None and protection.settled(situation) else None
        if change is None:
            continue
        hurried = waits or (known.limited and not all_units)
        if not (hurried and reasons.adds_standby(change)):
            known.proposed[unit] = change
            known.reassignment.proposed(change)
            changes.append(change)
            for one in rooms.values():
                one.leave(situation.change)
                one.enter(change)
    return changes


def room(known: ReplicaView, situation: Situation, rooms: dict[object, Room]) -> Room:
    """Returns the workers of the unit's kind whose bytes do not differ, with the load of all placed and proposed
    copies.

    rooms: the rooms that this turn has computed so far, by kind and versions.
    """
    terms, change = situation.terms, situation.change
    kind = terms.host, terms.pin.modules, terms.pin.shown(change), change.differ
    if kind not in rooms:
        hosts = [b for b in known.detector.alive() if b.hosts == terms.host and not b.leaving]
        judged = [(beat, situation.fit(beat)) for beat in hosts]
        fitting = [Candidate.of(beat, shown=fit is Fit.EQUAL) for beat, fit in judged if fit is not Fit.DIFFERS]
        rooms[kind] = Room(fitting, known.detector.zones(), known.detector.hosts())
        for each in {**known.assigned.units(), **known.proposed}.values():
            rooms[kind].enter(each)
    return rooms[kind]

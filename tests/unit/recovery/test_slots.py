"""Slots in an incident are hard (docs/decisions/0095): what restores a unit looks at its slot again."""

from __future__ import annotations

from dataclasses import replace

from holdfast.schemas.assignments import PRIMARY, Change, Copy, unit_key
from holdfast.schemas.incidents import Place
from holdfast.services.recovery.core.placement.room import Candidate, Room
from holdfast.services.recovery.core.unit.facts.terms import Part
from holdfast.services.recovery.core.unit.table.moves import MOVES, Move
from tests.unit.recovery.workers import Worker
from tests.unit.recovery.world import UNIT, G, World, plan

THERE = Copy("b", "1", PRIMARY)


def room(*units: str) -> Room:
    """Of a worker with one slot. units: that lead there."""
    made = Room([Candidate("b", "1", "", 1)])
    for unit in units:
        made.enter(Change(unit_key("job", G, unit), 1, (THERE,)))
    return made


def test_a_unit_is_restored_in_its_slot_only_if_nobody_has_taken_that_since() -> None:
    world = World(Worker("a"), Worker("b"), made=plan({"u-0": "none"})).start()
    situation = world.run(0.5).replicas[0].core.known.situation(UNIT)
    assert situation is not None
    here = replace(situation, part=Part(0, place=Place("b", "1")))
    restore = MOVES[Move.RESTORE]
    assert restore(here, room) == (THERE,)
    assert restore(here, lambda: room("u-1")) is None
    beyond = replace(here, part=Part(0, place=Place("b", "1"), limited=False))
    assert restore(beyond, lambda: room("u-1")) == (THERE,), "slots are no limit any more"

"""Effects of a record on the copies of a unit: the second half of its reason.

Source: PROTOCOL 8. Moves of a unit to another worker are in moving.py, moves of its standby in reassigning.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from holdfast.schemas.assignments import Copy
from holdfast.services.recovery.core.unit.facts.changing import next_step
from holdfast.services.recovery.core.unit.facts.copies import Copies, Rooms, leading, with_flags
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.rules import drilling, moving, protection, reassigning, stranding
from holdfast.services.recovery.core.unit.situation import Situation


class Move(Enum):
    """Effects of the next record on the copies of a unit; the value ends its reason."""

    START = "placed"
    REMOVE = "unplaced"
    QUARANTINE = "it gets no copies any more"
    SWITCH = "the secondary leads until the primary is well again, and both send"
    LEAD_AGAIN = "the primary leads again, and both send until it has been well for a while"
    SWITCH_BACK = "the primary leads again, the secondary is suspended"
    PROMOTE = "the secondary takes its place"
    CHANGE_PLACES = "the two change places"
    LET_GO = "the primary continues alone"
    ADD = "a new secondary"
    PLACE = "placed again from the checkpoint log"
    RESTORE = "placed again in the order of the plan"
    PLACE_ELSEWHERE = "placed elsewhere from the checkpoint log"
    ADOPT = "the change begins"
    KEEP_SCHEME = "the scheme stays"
    GO_BACK = "every copy begins again at a global checkpoint"
    STAY = "no copy goes back"
    SETTLE = "the two change places and the change begins"
    STEP = "its flags change"
    BEGIN = "a new copy catches up"
    REFUSE = "nothing moves"
    HAND_OVER = "it leads, and another one stands by"
    HAND_OVER_ALONE = "it leads"
    ABANDON = "the unit stays where it is"
    SWITCH_MOVING = "another copy leads until the primary is well again, and both send"
    PROMOTE_MOVING = "another copy takes its place"
    CHANGE_PLACES_MOVING = "it and another copy change places"
    REASSIGN = "a new one is made first"
    REPLACE = "it is the standby, and the former one goes"
    KEEP = "the former one stays"
    ACCEPT = "its versions may lead"


def _start(s: Situation, rooms: Rooms) -> Copies | None:
    chosen = rooms().for_primary(s.change.unit)
    return None if chosen is None else (leading(chosen),)


def _remove(s: Situation, rooms: Rooms) -> Copies:
    return ()


def _take_over(s: Situation, rooms: Rooms) -> Copies:
    """The secondary leads; the old primary continues as well as it can, and readers take the first frame (MECHANISMS
    H4).
    """
    return with_flags(s.primary, Rung.ACTIVE), leading(s.secondary)


def _lead_again(s: Situation, rooms: Rooms) -> Copies:
    """The primary leads again; the secondary stays active until the primary is calm, since machines may slow down in
    turns.
    """
    return leading(s.primary), with_flags(s.secondary, Rung.ACTIVE)


def _switch_back(s: Situation, rooms: Rooms) -> Copies:
    return leading(s.primary), Copy(s.secondary.worker, s.secondary.incarnation, s.target_flags)


def _promote(s: Situation, rooms: Rooms) -> Copies:
    return (leading(s.secondary),)


def _change_places(s: Situation, rooms: Rooms) -> Copies:
    return leading(s.secondary), Copy(s.primary.worker, s.primary.incarnation, s.target_flags)


def _let_go(s: Situation, rooms: Rooms) -> Copies:
    return (leading(s.primary),)


def _add(s: Situation, rooms: Rooms) -> Copies | None:
    chosen = rooms().for_secondary(s.primary.worker, s.terms.spread)
    if chosen is None:
        return None
    first = next_step(Rung.ABSENT, s.target if chosen.shown else Rung.STANDBY)
    assert first is not None, f"{s.change.unit}: the scheme wants no secondary"
    return s.primary, Copy(chosen.worker, chosen.incarnation, first.rung.flags)


def _place(s: Situation, rooms: Rooms) -> Copies | None:
    """Places the unit where its worker returned, if the scheme waits for that; else on any worker with room.

    While further units may have failed with it, room means a free slot.
    """
    if s.change.copies and s.misses is None and (returned := s.successor(s.primary)) is not None:
        return (leading(returned),)
    faulted = any(map(s.faulted, s.change.copies))
    return _where_room_is(s, rooms, slots=bool(s.change.copies) and s.gathers and not faulted)


def _restore(s: Situation, rooms: Rooms) -> Copies | None:
    """Places the unit on the worker that the plan names; None if that worker cannot take it, and a new plan follows.

    A replica that had not read of the incident may have given the slot to another unit.
    """
    assert s.part is not None
    slot = stranding.slot(s)
    if slot is None or (s.part.limited and not rooms().has_slot(slot.worker, slot.incarnation)):
        return None
    return (leading(slot),)


def _where_room_is(s: Situation, rooms: Rooms, *, slots: bool) -> Copies | None:
    """Places the unit where room is; a worker with an unexpected error gets it only if there is no other worker.

    slots: only on a worker with a free slot.
    """
    chosen = rooms().for_primary(s.change.unit, without=stranding.silent_hosts(s), slots=slots)
    if chosen is None and any(map(s.faulted, s.change.copies)):
        chosen = rooms().for_primary(s.change.unit, slots=slots)
    return None if chosen is None else (leading(chosen),)


def _adopt(s: Situation, rooms: Rooms) -> Copies:
    return s.change.copies


def _settle(s: Situation, rooms: Rooms) -> Copies:
    return leading(s.secondary), s.primary


def _step(s: Situation, rooms: Rooms) -> Copies:
    step = protection.step(s)
    assert step is not None, f"{s.change.unit}: no step is left"
    return s.primary, with_flags(s.secondary, step.rung)


_M = Move

MOVES: Mapping[Move, Callable[[Situation, Rooms], Copies | None]] = {
    _M.START: _start,
    _M.REMOVE: _remove,
    _M.QUARANTINE: _remove,
    _M.SWITCH: _take_over,
    _M.LEAD_AGAIN: _lead_again,
    _M.SWITCH_BACK: _switch_back,
    _M.PROMOTE: _promote,
    _M.CHANGE_PLACES: _change_places,
    _M.LET_GO: _let_go,
    _M.ADD: _add,
    _M.PLACE: _place,
    _M.RESTORE: _restore,
    _M.PLACE_ELSEWHERE: drilling.place_elsewhere,
    _M.ADOPT: _adopt,
    _M.KEEP_SCHEME: _adopt,
    _M.GO_BACK: _adopt,
    _M.STAY: _adopt,
    _M.SETTLE: _settle,
    _M.STEP: _step,
    _M.BEGIN: moving.begin,
    _M.REFUSE: _adopt,
    _M.HAND_OVER: moving.hand_over,
    _M.HAND_OVER_ALONE: moving.hand_over,
    _M.ABANDON: moving.abandon,
    _M.SWITCH_MOVING: moving.switch,
    _M.PROMOTE_MOVING: moving.promote,
    _M.CHANGE_PLACES_MOVING: moving.change_places,
    _M.REASSIGN: reassigning.begin,
    _M.REPLACE: reassigning.replace,
    _M.KEEP: reassigning.keep,
    _M.ACCEPT: _adopt,
}
"""Function of each move that returns the copies of the next record; None while no worker can take them."""

LOADS: frozenset[Move] = frozenset({
    _M.SWITCH, _M.PROMOTE, _M.CHANGE_PLACES, _M.PLACE, _M.RESTORE,
    _M.SWITCH_MOVING, _M.PROMOTE_MOVING, _M.CHANGE_PLACES_MOVING,
})  # fmt: skip
"""Moves that give the unit's next batch to another worker: they wait while that batch may end this worker, too."""

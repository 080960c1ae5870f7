"""The state machine of one unit's copies: start, choice of the leader, reaction to a silent copy, end.

Source: MECHANISMS H3 (for `hybrid`; the other schemes take other rows of the same table), PROTOCOL 8. To change a
reaction, change one row of TRANSITIONS. The conditions of the signs are in signs.py, the copies of the moves in
moves.py. A record is proposed and counts once it is read back: the standing of a unit is a function of its last valid
record alone, and in each record with copies exactly one copy commits.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas.assignments import Change, Copy
from holdfast.services.recovery.core.unit.facts.copies import Rooms
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, odd_copies, stance
from holdfast.services.recovery.core.unit.rules import blame, stranding
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import recording
from holdfast.services.recovery.core.unit.table.moves import LOADS, MOVES, Move
from holdfast.services.recovery.core.unit.table.signs import SIGNS, Sign

_T, _S, _M = Stance, Sign, Move

TRANSITIONS: Mapping[tuple[Stance, Sign], tuple[Stance, Move]] = {
    (_T.UNPLACED, _S.WANTED): (_T.ALONE, _M.START),
    (_T.UNPLACED, _S.UNASKED): (_T.ALONE, _M.PLACE),
    **{(each, _S.UNWANTED): (_T.UNPLACED, _M.REMOVE) for each in Stance},
    **{(each, _S.DEADLY): (_T.UNPLACED, _M.QUARANTINE) for each in Stance if each is not _T.UNPLACED},
    **{(each, _S.TURN): (_T.ALONE, _M.RESTORE) for each in Stance if each is not _T.UNPLACED},
    **{(each, _S.ACCEPTED): (each, _M.ACCEPT) for each in Stance if each is not _T.UNPLACED},
    **{(each, _S.TAKEN_ALONG): (each, _M.GO_BACK) for each in Stance if each is not _T.UNPLACED},
    (_T.ALONE, _S.PRIMARY_GONE): (_T.ALONE, _M.PLACE),
    (_T.ALONE, _S.PRIMARY_GIVEN_UP): (_T.ALONE, _M.PLACE),
    (_T.ALONE, _S.PRIMARY_LEAVING): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.ANOTHER_SCHEME): (_T.ALONE, _M.ADOPT),
    (_T.ALONE, _S.UNFIT_ASKED): (_T.ALONE, _M.KEEP_SCHEME),
    (_T.ALONE, _S.ROLLBACK_REFUSED): (_T.ALONE, _M.STAY),
    (_T.ALONE, _S.ROLLBACK_ASKED): (_T.ALONE, _M.GO_BACK),
    (_T.ALONE, _S.MOVE_REFUSED): (_T.ALONE, _M.REFUSE),
    (_T.ALONE, _S.MOVE_ASKED): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.DRILL_REFUSED): (_T.ALONE, _M.REFUSE),
    (_T.ALONE, _S.DRILL_ASKED): (_T.ALONE, _M.PLACE_ELSEWHERE),
    (_T.ALONE, _S.UNPROTECTED): (_T.NORMAL, _M.ADD),
    (_T.ALONE, _S.OVERFULL): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.CHOSEN): (_T.ALONE, _M.ADOPT),
    (_T.ALONE, _S.PLANNED): (_T.ALONE, _M.ADOPT),
    (_T.NORMAL, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.NORMAL, _S.SHOWN_EQUAL): (_T.NORMAL, _M.ACCEPT),
    (_T.NORMAL, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE),
    (_T.NORMAL, _S.NO_HEIR): (_T.ALONE, _M.PLACE),
    (_T.NORMAL, _S.SECONDARY_GONE): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.SECONDARY_DIFFERS): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.PRIMARY_SILENT): (_T.SWITCHED, _M.SWITCH),
    (_T.NORMAL, _S.PRIMARY_GIVEN_UP): (_T.NORMAL, _M.CHANGE_PLACES),
    (_T.NORMAL, _S.PRIMARY_LEAVING): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.ADOPT),
    (_T.NORMAL, _S.UNFIT_ASKED): (_T.NORMAL, _M.KEEP_SCHEME),
    (_T.NORMAL, _S.ROLLBACK_REFUSED): (_T.NORMAL, _M.STAY),
    (_T.NORMAL, _S.ROLLBACK_ASKED): (_T.NORMAL, _M.GO_BACK),
    (_T.NORMAL, _S.MOVE_REFUSED): (_T.NORMAL, _M.REFUSE),
    (_T.NORMAL, _S.MOVE_ASKED): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.DRILL_REFUSED): (_T.NORMAL, _M.REFUSE),
    (_T.NORMAL, _S.DRILL_ASKED): (_T.NORMAL, _M.CHANGE_PLACES),
    (_T.NORMAL, _S.SECONDARY_UNWANTED): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.STEP_DUE): (_T.NORMAL, _M.STEP),
    (_T.NORMAL, _S.OVERFULL): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.OUTRANKED): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.STANDBY_ELSEWHERE): (_T.REASSIGNING, _M.REASSIGN),
    (_T.NORMAL, _S.CHOSEN): (_T.NORMAL, _M.ADOPT),
    (_T.NORMAL, _S.PLANNED): (_T.NORMAL, _M.ADOPT),
    (_T.SWITCHED, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.SWITCHED, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE),
    (_T.SWITCHED, _S.SECONDARY_GONE): (_T.ALONE, _M.LET_GO),
    (_T.SWITCHED, _S.SECONDARY_SILENT): (_T.NORMAL, _M.LEAD_AGAIN),
    (_T.SWITCHED, _S.PRIMARY_LEAVING): (_T.ALONE, _M.PROMOTE),
    (_T.SWITCHED, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.SETTLE),
    (_T.SWITCHED, _S.PRIMARY_WELL): (_T.NORMAL, _M.SWITCH_BACK),
    (_T.SWITCHED, _S.PRIMARY_UNSTEADY): (_T.NORMAL, _M.CHANGE_PLACES),
    (_T.MOVING, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.MOVING, _S.SHOWN_EQUAL): (_T.MOVING, _M.ACCEPT),
    (_T.MOVING, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE_MOVING),
    (_T.MOVING, _S.NO_HEIR): (_T.ALONE, _M.PLACE),
    (_T.MOVING, _S.ARRIVING_GONE): (_T.NORMAL, _M.ABANDON),
    (_T.MOVING, _S.ARRIVING_DIFFERS): (_T.NORMAL, _M.ABANDON),
    (_T.MOVING, _S.ARRIVED): (_T.NORMAL, _M.HAND_OVER),
    (_T.MOVING, _S.ARRIVED_ALONE): (_T.ALONE, _M.HAND_OVER_ALONE),
    (_T.MOVING, _S.PRIMARY_SILENT): (_T.SWITCHED, _M.SWITCH_MOVING),
    (_T.MOVING, _S.PRIMARY_GIVEN_UP): (_T.NORMAL, _M.CHANGE_PLACES_MOVING),
    (_T.MOVING, _S.MOVE_OVERDUE): (_T.NORMAL, _M.ABANDON),
    (_T.REASSIGNING, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.REASSIGNING, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE_MOVING),
    (_T.REASSIGNING, _S.SECONDARY_GONE): (_T.NORMAL, _M.REPLACE),
    (_T.REASSIGNING, _S.PRIMARY_SILENT): (_T.SWITCHED, _M.SWITCH_MOVING),
    (_T.REASSIGNING, _S.PRIMARY_GIVEN_UP): (_T.NORMAL, _M.CHANGE_PLACES_MOVING),
    (_T.REASSIGNING, _S.PRIMARY_LEAVING): (_T.NORMAL, _M.KEEP),
    (_T.REASSIGNING, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.KEEP),
    (_T.REASSIGNING, _S.STANDBY_LOST): (_T.NORMAL, _M.KEEP),
    (_T.REASSIGNING, _S.STANDBY_COMPLETE): (_T.NORMAL, _M.REPLACE),
    (_T.REASSIGNING, _S.STANDBY_OVERDUE): (_T.NORMAL, _M.KEEP),
}
"""(next stance, effect of the record) by (stance, sign). No row: nothing is due.

The rows of a stance follow the order of Sign, which is the precedence; rows for every stance come first.
"""

ROWS: Mapping[Stance, tuple[Sign, ...]] = {
    each: tuple(sign for sign in Sign if (each, sign) in TRANSITIONS) for each in Stance
}

UNWELL = frozenset({
    _S.BOTH_GONE, _S.PRIMARY_GONE, _S.NO_HEIR, _S.SECONDARY_GONE, _S.ARRIVING_GONE, _S.STANDBY_LOST, _S.PRIMARY_SILENT,
    _S.PRIMARY_GIVEN_UP, _S.SECONDARY_SILENT, _S.PRIMARY_LEAVING,
})  # fmt: skip
"""Signs of a copy that is not well."""

WELL: Mapping[Stance, tuple[Sign, ...]] = {
    each: tuple(sign for sign in signs if sign not in UNWELL) for each, signs in ROWS.items()
}


def next_change(situation: Situation, rooms: Rooms) -> Change | None:
    """Returns the record that is due for the unit, or None; a unit that has ended or is crowded can only be removed."""
    before = situation.stance
    rows = WELL[before] if situation.well else ROWS[before]
    if situation.over or situation.crowded:
        rows = (Sign.UNWANTED,)
    for sign in rows:
        if SIGNS[sign](situation):
            break
    else:
        return None
    after, move = TRANSITIONS[before, sign]
    if move in LOADS and blame.suspect(situation):
        return None
    if move is _M.PLACE and (stranding.held_back(situation) or blame.pauses(situation)):
        return None
    copies = MOVES[move](situation, rooms)
    if copies is None:
        return None
    change = recording.record(situation, sign, move, copies, after)
    check_invariants(change)
    assert stance(change) is after, f"{story_line(situation.change, change)}: not {after.value}"
    return change


def check_invariants(change: Change) -> None:
    """Raises AssertionError on a record that no row of the table makes."""
    where = f"{change.unit}#{change.epoch}"
    assert change.well_formed, f"{where}: not exactly one copy commits, or two share a worker"
    odd = odd_copies(change)
    assert not odd, f"{where}: {odd}"
    assert change.arriving is not None or not change.moving, f"{where}: it moves to a worker without a copy of it"
    assert change.replacing is not None or not change.backing, f"{where}: a standby is made that it does not have"
    others = {copy.worker for copy in change.copies if not copy.flags.commit and not copy.flags.send}
    unshown = {one.worker for one in change.unshown}
    assert unshown <= others, f"{where}: {unshown - others} leads or sends, and has not shown equal bytes"


def story_line(before: Change | None, after: Change) -> str:
    """Returns `<unit>#<epoch>: <stance> -> <stance>: <copies>; <reason>`."""
    copies = ", ".join(f"{copy.worker} {_role(copy)}" for copy in after.copies) or "no copies"
    was, now = stance(before).value, stance(after).value
    return f"{after.unit.rpartition('/')[2]}#{after.epoch}: {was} -> {now} ({after.scheme}): {copies}; {after.reason}"


def _role(copy: Copy) -> str:
    if copy.flags.commit:
        return "leads"
    rung = Rung.of(copy.flags)
    return "odd" if rung is None else rung.name.lower()

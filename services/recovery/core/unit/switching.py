"""The state machine of one unit's copies: its start, which copy leads, what follows when one falls silent, its end.

Source: MECHANISMS H3 (for `hybrid`; the other schemes take other rows of the same table), PROTOCOL 8. To change what
happens, change one row of TRANSITIONS. A record is proposed and counts once it is read back: where a unit stands is a
function of its last valid record alone, and in each of them exactly one copy commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from schemas.assignments import Change, Copy, Deadly
from services.recovery.core.unit import adapting, drilling, moving, reassigning, versions
from services.recovery.core.unit.changing import next_step
from services.recovery.core.unit.moving import Copies, Rooms
from services.recovery.core.unit.moving import leading as _leading
from services.recovery.core.unit.moving import with_flags as _with
from services.recovery.core.unit.schemes import FIRST, Rung
from services.recovery.core.unit.situation import UNDER_WAY, Situation, Stance, odd_copies, stance


class Sign(Enum):
    """What the log, the detector or the reports say of a unit; the value begins the reason of the record."""

    UNWANTED = "its job is to stop"
    DEADLY = "its workers end at the same place again and again"
    ACCEPTED = "a person lets other versions lead"
    WANTED = "its job is to run"
    UNASKED = "it was unplaced, and nobody asked for the end of its job"
    TURN = "it has a slot in an incident"
    BOTH_GONE = "both copies are gone"
    SHOWN_EQUAL = "a copy with other versions has shown equal bytes"
    PRIMARY_GONE = "the primary is gone"
    NO_HEIR = "the primary is gone and no other copy may lead"
    SECONDARY_GONE = "the secondary is gone"
    ARRIVING_GONE = "the new copy is gone"
    SECONDARY_DIFFERS = "the secondary gives other bytes"
    ARRIVING_DIFFERS = "the new copy gives other bytes"
    ARRIVED = "the new copy has caught up"
    ARRIVED_ALONE = "the new copy has caught up and no other stays"
    PRIMARY_SILENT = "the primary is silent"
    PRIMARY_GIVEN_UP = "the primary is silent and nobody waits for it"
    SECONDARY_SILENT = "the secondary is silent and the primary is not"
    PRIMARY_LEAVING = "the worker of the primary is leaving"
    ANOTHER_SCHEME = "another scheme was asked for"
    UNFIT_ASKED = "a scheme was asked for that does not work"
    ROLLBACK_REFUSED = "a rollback was asked for that cannot be done"
    ROLLBACK_ASKED = "a rollback was asked for"
    PRIMARY_ANSWERS = "the primary answers again"
    PRIMARY_CAUGHT_UP = "the primary has caught up"
    MOVE_REFUSED = "a move was asked for that cannot be made"
    MOVE_ASKED = "a move was asked for"
    DRILL_REFUSED = "a drill was asked for that cannot be made"
    DRILL_ASKED = "a drill was asked for"
    UNPROTECTED = "there is no secondary"
    SECONDARY_UNWANTED = "the scheme wants no secondary"
    STEP_DUE = "the next step towards the scheme is safe"
    MOVE_OVERDUE = "the new copy does not catch up"
    STANDBY_LOST = "the new standby is gone"
    STANDBY_COMPLETE = "the new standby holds a whole checkpoint"
    STANDBY_OVERDUE = "the new standby does not restore"
    OVERFULL = "the worker of the primary has more than its share"
    OUTRANKED = "the place of its standby is needed"
    STANDBY_ELSEWHERE = "its standby is to be on another worker"
    CHOSEN = "another scheme suits the promise better"


ABOUT_VERSIONS = (Sign.ACCEPTED, Sign.SHOWN_EQUAL, Sign.SECONDARY_DIFFERS, Sign.ARRIVING_DIFFERS)
FAILURES = (Sign.TURN, Sign.BOTH_GONE, Sign.PRIMARY_GONE, Sign.NO_HEIR, Sign.PRIMARY_SILENT, Sign.PRIMARY_GIVEN_UP)
"""Signs that the leader has failed."""
LOSSES = (*FAILURES, Sign.SECONDARY_GONE, Sign.ARRIVING_GONE)
"""Signs that a copy is lost, or does not answer."""


def _two(s: Situation) -> bool:
    return len(s.change.copies) >= 2


def _next_leader_ready(s: Situation) -> bool:
    """Whoever takes over from the primary can do that at once."""
    next_leader = s.next_leader if s.stance in UNDER_WAY else s.secondary
    return next_leader is not None and s.ready(next_leader)


SIGNS: Mapping[Sign, Callable[[Situation], bool]] = {
    Sign.UNWANTED: lambda s: s.unwanted,
    Sign.DEADLY: lambda s: s.deadly,
    Sign.ACCEPTED: versions.accept_due,
    Sign.WANTED: lambda s: s.wanted and s.new,
    Sign.UNASKED: lambda s: s.wanted and not s.new,
    Sign.TURN: lambda s: s.its_turn,
    Sign.BOTH_GONE: lambda s: all(s.gone(copy) for copy in s.change.copies),
    Sign.SHOWN_EQUAL: lambda s: versions.newly_shown(s) is not None,
    Sign.PRIMARY_GONE: lambda s: s.gone(s.primary) and versions.heirs(s) if _two(s) else s.lost(s.primary),
    Sign.NO_HEIR: lambda s: s.gone(s.primary),
    Sign.SECONDARY_GONE: lambda s: s.gone(s.secondary),
    Sign.ARRIVING_GONE: lambda s: s.arriving_lost,
    Sign.SECONDARY_DIFFERS: lambda s: versions.differing(s, s.secondary) is not None,
    Sign.ARRIVING_DIFFERS: lambda s: versions.differing(s, s.arriving) is not None,
    Sign.ARRIVED: lambda s: s.arrived and s.staying is not None,
    Sign.ARRIVED_ALONE: lambda s: s.arrived,
    Sign.PRIMARY_SILENT: lambda s: s.scheme.rolls_back and s.silent(s.primary) and _next_leader_ready(s),
    Sign.PRIMARY_GIVEN_UP: lambda s: (
        not s.scheme.rolls_back and s.silent(s.primary) and (_next_leader_ready(s) if _two(s) else s.given_up)
    ),
    Sign.SECONDARY_SILENT: lambda s: s.silent(s.secondary) and s.answers(s.primary),
    Sign.PRIMARY_LEAVING: lambda s: s.leaving(s.primary),
    Sign.ANOTHER_SCHEME: lambda s: s.another_asked,
    Sign.UNFIT_ASKED: lambda s: s.unfit_asked,
    Sign.ROLLBACK_REFUSED: lambda s: s.rollback_due and bool(s.rollback_refusal),
    Sign.ROLLBACK_ASKED: lambda s: s.rollback_due,
    Sign.PRIMARY_ANSWERS: lambda s: s.answers(s.primary),
    Sign.PRIMARY_CAUGHT_UP: lambda s: s.caught_up(s.primary, s.secondary),
    Sign.MOVE_REFUSED: lambda s: bool(s.refusal),
    Sign.MOVE_ASKED: lambda s: s.movable,
    Sign.DRILL_REFUSED: lambda s: bool(drilling.refusal(s)),
    Sign.DRILL_ASKED: drilling.due,
    Sign.UNPROTECTED: lambda s: s.lacks_standby,
    Sign.SECONDARY_UNWANTED: lambda s: s.gate_open and s.step is not None and s.step.rung is Rung.ABSENT,
    Sign.STEP_DUE: lambda s: s.gate_open,
    Sign.MOVE_OVERDUE: lambda s: s.overdue,
    Sign.STANDBY_LOST: lambda s: s.replacing_lost,
    Sign.STANDBY_COMPLETE: lambda s: s.replaced,
    Sign.STANDBY_OVERDUE: lambda s: s.overdue,
    Sign.OVERFULL: lambda s: s.relief not in ("", s.primary.worker) and s.host(s.relief) is not None,
    Sign.OUTRANKED: lambda s: s.outranked is not None and s.at_rest,
    Sign.STANDBY_ELSEWHERE: lambda s: s.backup_due,
    Sign.CHOSEN: lambda s: bool(adapting.chosen(s)),
}
"""When a sign is there. The order of Sign is their precedence: the first one that has a row counts."""


class Move(Enum):
    """What the next record does; the value ends its reason."""

    START = "placed"
    REMOVE = "unplaced"
    QUARANTINE = "it gets no copies any more"
    SWITCH = "the secondary takes over until the primary answers"
    RESUME = "both process"
    ROLL_BACK = "the primary leads again, the secondary is suspended"
    SUSPEND = "it is suspended again"
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
    SWITCH_MOVING = "another copy takes over until the primary answers"
    PROMOTE_MOVING = "another copy takes its place"
    CHANGE_PLACES_MOVING = "it and another copy change places"
    REASSIGN = "a new one is made first"
    REPLACE = "it is the standby, and the former one goes"
    KEEP = "the former one stays"
    ACCEPT = "its versions may lead"


_T, _S, _M = Stance, Sign, Move

TRANSITIONS: Mapping[tuple[Stance, Sign], tuple[Stance, Move]] = {
    (_T.UNPLACED, _S.WANTED): (_T.ALONE, _M.START),
    (_T.UNPLACED, _S.UNASKED): (_T.ALONE, _M.PLACE),
    **{(each, _S.UNWANTED): (_T.UNPLACED, _M.REMOVE) for each in Stance},
    **{(each, _S.DEADLY): (_T.UNPLACED, _M.QUARANTINE) for each in Stance if each is not _T.UNPLACED},
    **{(each, _S.TURN): (_T.ALONE, _M.RESTORE) for each in Stance if each is not _T.UNPLACED},
    **{(each, _S.ACCEPTED): (each, _M.ACCEPT) for each in Stance if each is not _T.UNPLACED},
    (_T.ALONE, _S.PRIMARY_GONE): (_T.ALONE, _M.PLACE),
    (_T.ALONE, _S.ANOTHER_SCHEME): (_T.ALONE, _M.ADOPT),
    (_T.ALONE, _S.UNFIT_ASKED): (_T.ALONE, _M.KEEP_SCHEME),
    (_T.ALONE, _S.ROLLBACK_REFUSED): (_T.ALONE, _M.STAY),
    (_T.ALONE, _S.ROLLBACK_ASKED): (_T.ALONE, _M.GO_BACK),
    (_T.ALONE, _S.PRIMARY_LEAVING): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.MOVE_REFUSED): (_T.ALONE, _M.REFUSE),
    (_T.ALONE, _S.MOVE_ASKED): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.OVERFULL): (_T.MOVING, _M.BEGIN),
    (_T.ALONE, _S.CHOSEN): (_T.ALONE, _M.ADOPT),
    (_T.ALONE, _S.DRILL_REFUSED): (_T.ALONE, _M.REFUSE),
    (_T.ALONE, _S.DRILL_ASKED): (_T.ALONE, _M.PLACE_ELSEWHERE),
    (_T.ALONE, _S.UNPROTECTED): (_T.NORMAL, _M.ADD),
    (_T.ALONE, _S.PRIMARY_GIVEN_UP): (_T.ALONE, _M.PLACE),
    (_T.NORMAL, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.NORMAL, _S.SHOWN_EQUAL): (_T.NORMAL, _M.ACCEPT),
    (_T.NORMAL, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE),
    (_T.NORMAL, _S.NO_HEIR): (_T.ALONE, _M.PLACE),
    (_T.NORMAL, _S.SECONDARY_GONE): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.SECONDARY_DIFFERS): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.ADOPT),
    (_T.NORMAL, _S.UNFIT_ASKED): (_T.NORMAL, _M.KEEP_SCHEME),
    (_T.NORMAL, _S.ROLLBACK_REFUSED): (_T.NORMAL, _M.STAY),
    (_T.NORMAL, _S.ROLLBACK_ASKED): (_T.NORMAL, _M.GO_BACK),
    (_T.NORMAL, _S.PRIMARY_SILENT): (_T.SWITCHED, _M.SWITCH),
    (_T.NORMAL, _S.PRIMARY_GIVEN_UP): (_T.NORMAL, _M.CHANGE_PLACES),
    (_T.NORMAL, _S.PRIMARY_LEAVING): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.MOVE_REFUSED): (_T.NORMAL, _M.REFUSE),
    (_T.NORMAL, _S.MOVE_ASKED): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.OVERFULL): (_T.MOVING, _M.BEGIN),
    (_T.NORMAL, _S.OUTRANKED): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.STANDBY_ELSEWHERE): (_T.REASSIGNING, _M.REASSIGN),
    (_T.NORMAL, _S.CHOSEN): (_T.NORMAL, _M.ADOPT),
    (_T.NORMAL, _S.DRILL_REFUSED): (_T.NORMAL, _M.REFUSE),
    (_T.NORMAL, _S.DRILL_ASKED): (_T.NORMAL, _M.CHANGE_PLACES),
    (_T.NORMAL, _S.SECONDARY_UNWANTED): (_T.ALONE, _M.LET_GO),
    (_T.NORMAL, _S.STEP_DUE): (_T.NORMAL, _M.STEP),
    (_T.SWITCHED, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.SWITCHED, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE),
    (_T.SWITCHED, _S.SECONDARY_GONE): (_T.ALONE, _M.LET_GO),
    (_T.SWITCHED, _S.PRIMARY_LEAVING): (_T.ALONE, _M.PROMOTE),
    (_T.SWITCHED, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.SETTLE),
    (_T.SWITCHED, _S.SECONDARY_SILENT): (_T.NORMAL, _M.ROLL_BACK),
    (_T.SWITCHED, _S.PRIMARY_ANSWERS): (_T.ROLLING_BACK, _M.RESUME),
    (_T.ROLLING_BACK, _S.BOTH_GONE): (_T.ALONE, _M.PLACE),
    (_T.ROLLING_BACK, _S.PRIMARY_GONE): (_T.ALONE, _M.PROMOTE),
    (_T.ROLLING_BACK, _S.SECONDARY_GONE): (_T.ALONE, _M.LET_GO),
    (_T.ROLLING_BACK, _S.PRIMARY_LEAVING): (_T.ALONE, _M.PROMOTE),
    (_T.ROLLING_BACK, _S.ANOTHER_SCHEME): (_T.NORMAL, _M.SETTLE),
    (_T.ROLLING_BACK, _S.PRIMARY_SILENT): (_T.SWITCHED, _M.SUSPEND),
    (_T.ROLLING_BACK, _S.SECONDARY_SILENT): (_T.NORMAL, _M.ROLL_BACK),
    (_T.ROLLING_BACK, _S.PRIMARY_CAUGHT_UP): (_T.NORMAL, _M.ROLL_BACK),
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
"""(stance, sign) -> (next stance, what the record does). No row: nothing to do."""

ROWS: Mapping[Stance, tuple[Sign, ...]] = {
    each: tuple(sign for sign in Sign if (each, sign) in TRANSITIONS) for each in Stance
}


def _start(s: Situation, rooms: Rooms) -> Copies | None:
    chosen = rooms().for_primary(s.change.unit)
    return None if chosen is None else (_leading(chosen),)


def _remove(s: Situation, rooms: Rooms) -> Copies:
    return ()


def _take_over(s: Situation, rooms: Rooms) -> Copies:
    return _with(s.primary, Rung.HOT), _leading(s.secondary)


def _resume(s: Situation, rooms: Rooms) -> Copies:
    return _with(s.primary, Rung.ACTIVE), s.secondary


def _roll_back(s: Situation, rooms: Rooms) -> Copies:
    return _leading(s.primary), Copy(s.secondary.worker, s.secondary.incarnation, s.target_flags)


def _promote(s: Situation, rooms: Rooms) -> Copies:
    return (_leading(s.secondary),)


def _change_places(s: Situation, rooms: Rooms) -> Copies:
    return _leading(s.secondary), Copy(s.primary.worker, s.primary.incarnation, s.target_flags)


def _let_go(s: Situation, rooms: Rooms) -> Copies:
    return (_leading(s.primary),)


def _add(s: Situation, rooms: Rooms) -> Copies | None:
    chosen = rooms().for_secondary(s.change.unit, s.primary.worker, s.terms.spread)
    if chosen is None:
        return None
    first = next_step(Rung.ABSENT, s.target if chosen.shown else Rung.STANDBY)
    assert first is not None, f"{s.change.unit}: the scheme wants no secondary"
    return s.primary, Copy(chosen.worker, chosen.incarnation, first.rung.flags)


def _place(s: Situation, rooms: Rooms) -> Copies | None:
    """Where its worker returned, if the scheme waits for that; else wherever there is room.

    While it may turn out that others have failed with it, room is a free slot.
    """
    if s.change.copies and s.misses is None and (returned := s.successor(s.primary)) is not None:
        return (_leading(returned),)
    return _where_room_is(s, rooms, slots=bool(s.change.copies) and s.gathers)


def _restore(s: Situation, rooms: Rooms) -> Copies | None:
    """On the worker that the plan names; if that cannot take it any more, a new plan follows."""
    assert s.part is not None
    return None if s.slot is None else (_leading(s.slot),)


def _where_room_is(s: Situation, rooms: Rooms, *, slots: bool) -> Copies | None:
    """slots: only on a worker that has a free one."""
    chosen = rooms().for_primary(s.change.unit, without=s.silent_hosts, slots=slots)
    return None if chosen is None else (_leading(chosen),)


def _adopt(s: Situation, rooms: Rooms) -> Copies:
    return s.change.copies


def _settle(s: Situation, rooms: Rooms) -> Copies:
    return _leading(s.secondary), s.primary


def _step(s: Situation, rooms: Rooms) -> Copies:
    assert s.step is not None, f"{s.change.unit}: no step is left"
    return s.primary, _with(s.secondary, s.step.rung)


MOVES: Mapping[Move, Callable[[Situation, Rooms], Copies | None]] = {
    _M.START: _start,
    _M.REMOVE: _remove,
    _M.QUARANTINE: _remove,
    _M.SWITCH: _take_over,
    _M.RESUME: _resume,
    _M.ROLL_BACK: _roll_back,
    _M.SUSPEND: _take_over,
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
"""The copies of the next record; None while there is no worker for them."""

LOADS: frozenset[Move] = frozenset({
    _M.SWITCH, _M.SUSPEND, _M.PROMOTE, _M.CHANGE_PLACES, _M.PLACE, _M.RESTORE,
    _M.SWITCH_MOVING, _M.PROMOTE_MOVING, _M.CHANGE_PLACES_MOVING,
})  # fmt: skip
"""Moves after which another worker does the unit's next batch: they wait while that batch may end it, too."""


def next_change(situation: Situation, rooms: Rooms) -> Change | None:
    """The record that is due for the unit, or None; what has ended, and what no row explains, is only taken down."""
    before = situation.stance
    rows = (Sign.UNWANTED,) if situation.over or situation.crowded else ROWS[before]
    sign = next((sign for sign in rows if SIGNS[sign](situation)), None)
    if sign is None:
        return None
    after, move = TRANSITIONS[before, sign]
    if (move in LOADS and situation.suspect) or (move is _M.PLACE and situation.held_back):
        return None
    copies = MOVES[move](situation, rooms)
    return None if copies is None else _record(situation, sign, move, copies, after)


def _record(situation: Situation, sign: Sign, move: Move, copies: Copies, after: Stance) -> Change:
    why = _why(situation, sign, move)
    scheme, asked, adaptive = _asked(situation, sign, move)
    line, known = _line(situation, move), tuple(_known(copy, situation) for copy in copies)
    change = msgspec.structs.replace(
        situation.change,
        epoch=situation.change.epoch + 1,
        copies=known,
        reason=f"{sign.value}: {move.value}" + (f" ({why})" if why else ""),
        scheme=scheme,
        asked=asked,
        moving=copies[-1].worker if after is _T.MOVING else "",
        backing=copies[-1].worker if after is _T.REASSIGNING else "",
        moved=_answered(situation, sign),
        deadly=_deadly(situation, move),
        line=line,
        back=situation.change.back if line == situation.change.line else situation.rollback.complete,
        rolled=situation.rollback.asked if move in (_M.GO_BACK, _M.STAY) else situation.change.rolled,
        adaptive=adaptive,
        **versions.fields(situation, known, accepted=sign is _S.ACCEPTED),
    )
    check_invariants(change)
    assert stance(change) is after, f"{story_line(situation.change, change)}: not {after.value}"
    return change


def _line(s: Situation, move: Move) -> int:
    """On which the unit is from then on."""
    if move is _M.GO_BACK:
        return s.rollback.line
    if move is _M.RESTORE and s.part is not None:
        return max(s.part.line, s.change.line)
    return s.change.line


def _why(s: Situation, sign: Sign, move: Move) -> str:
    """What the sign and the move do not say."""
    if sign is _S.CHOSEN and s.verdict is not None:
        return s.verdict.summary
    if sign in ABOUT_VERSIONS:
        return versions.why(s, accepted=sign is _S.ACCEPTED)
    if move is _M.QUARANTINE and s.crash is not None:
        return str(s.crash.deadly)
    if move is _M.REMOVE:
        return "" if s.want is None else s.want.reason
    if move is _M.REFUSE:
        return drilling.refusal(s) if sign is _S.DRILL_REFUSED else s.refusal
    if move is _M.LET_GO:
        return str(s.outranked or "")
    if move is _M.KEEP_SCHEME:
        return s.unfit
    if move is _M.GO_BACK:
        return f"that of batch {s.rollback.complete}"
    if move is _M.STAY:
        return s.rollback_refusal
    if move is _M.RESTORE and _line(s, move) > s.change.line:
        return f"at the global checkpoint of batch {s.rollback.complete}, {s.loss}"
    if move is _M.ABANDON:
        return versions.unfinished(s)
    return s.loss if move in (_M.PLACE, _M.RESTORE) else ""


def _deadly(s: Situation, move: Move) -> Deadly | None:
    """A quarantine lasts until the job ends."""
    return s.crash.deadly if move is _M.QUARANTINE and s.crash is not None else s.change.deadly


def _asked(s: Situation, sign: Sign, move: Move) -> tuple[str, int, bool]:
    """The scheme of the next record, who asked for it, and whether it is recovery's to choose.

    A record that ends a unit names the command that ends its job. An adaptive unit begins under the scheme that is
    safest, or under the one that it has.
    """
    if move is _M.REMOVE:
        return s.change.scheme, -1 if s.want is None else s.want.asked, s.change.adaptive
    if sign is _S.CHOSEN:
        return adapting.chosen(s), s.change.asked, True
    if move is _M.KEEP_SCHEME:
        return s.change.scheme, s.asked.offset, s.change.adaptive
    if not (move in (_M.ADOPT, _M.SETTLE) or s.stance is _T.UNPLACED):
        return s.change.scheme, s.change.asked, s.change.adaptive
    if not s.asked.adaptive:
        return s.asked.scheme, s.asked.offset, False
    keeps = bool(s.change.copies) and s.misses is not None
    return s.change.scheme if keeps else FIRST, s.asked.offset, True


ANSWERS = (_S.MOVE_ASKED, _S.MOVE_REFUSED, _S.DRILL_ASKED, _S.DRILL_REFUSED)
"""Signs that are a user's command."""


def _answered(s: Situation, sign: Sign) -> int:
    """The last `move` or `drill` that is answered; what a record without copies says of that is not believed."""
    if sign is _S.UNASKED:
        return -1
    answers = s.move_due if sign in ANSWERS else None
    return s.change.moved if answers is None else answers.offset


def _known(copy: Copy, situation: Situation) -> Copy:
    """Flags that nobody here knows, another version's or a mistake, are led back with the first record that follows."""
    if copy.flags.commit:
        return _leading(copy)
    if copy.flags.send and not situation.may_lead(copy):
        return _with(copy, Rung.STANDBY)
    if Rung.of(copy.flags) is None:
        return Copy(copy.worker, copy.incarnation, situation.target_flags)
    return copy


# -- what must always hold, and how it reads --------------------------------------------------------------------------


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
    """`<unit>#<epoch>: <stance> -> <stance>: <copies>; <reason>`."""
    copies = ", ".join(f"{copy.worker} {_role(copy)}" for copy in after.copies) or "no copies"
    was, now = stance(before).value, stance(after).value
    return f"{after.unit.rpartition('/')[2]}#{after.epoch}: {was} -> {now} ({after.scheme}): {copies}; {after.reason}"


def _role(copy: Copy) -> str:
    if copy.flags.commit:
        return "leads"
    rung = Rung.of(copy.flags)
    return "odd" if rung is None else rung.name.lower()

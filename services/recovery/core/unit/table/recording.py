"""The record that a sign and a move make from a unit's last record: all of it except the copies.

Source: PROTOCOL 8.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.assignments import Change, Copy, Deadly
from holdfast.services.recovery.core.unit.facts.copies import Copies, leading, with_flags
from holdfast.services.recovery.core.unit.facts.schemes import FIRST, Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import adapting, unanswered, versions
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table import reasons
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign


def record(situation: Situation, sign: Sign, move: Move, copies: Copies, after: Stance) -> Change:
    """Returns the record with these copies, which is in the stance `after`."""
    scheme, asked, adaptive = _asked(situation, sign, move)
    line, known = _line(situation, sign, move), tuple(_known(copy, situation) for copy in copies)
    return msgspec.structs.replace(
        situation.change,
        epoch=situation.change.epoch + 1,
        copies=known,
        reason=reasons.reason(situation, sign, move),
        scheme=scheme,
        asked=asked,
        moving=copies[-1].worker if after is Stance.MOVING else "",
        backing=copies[-1].worker if after is Stance.REASSIGNING else "",
        moved=_answered(situation, sign),
        deadly=_deadly(situation, move),
        line=line,
        back=situation.change.back if line == situation.change.line else situation.rollback.complete,
        rolled=max(situation.change.rolled, situation.rollback.asked if move in (Move.GO_BACK, Move.STAY) else -1),
        adaptive=adaptive,
        plan=_plan(situation, sign),
        **versions.fields(situation, known, accepted=sign is Sign.ACCEPTED),
    )


def _line(s: Situation, sign: Sign, move: Move) -> int:
    """Returns the line of the unit from this record on."""
    if move is Move.GO_BACK:
        return s.joins if sign is Sign.TAKEN_ALONG else s.rollback.line
    if move is Move.RESTORE and s.part is not None:
        return max(s.part.line, s.change.line)
    return s.change.line


def _plan(s: Situation, sign: Sign) -> int:
    """Returns the number of the replication plan that gives the unit its scheme."""
    return s.directed.number if sign is Sign.PLANNED and s.directed is not None else s.change.plan


def _deadly(s: Situation, move: Move) -> Deadly | None:
    """A quarantine lasts until the job ends."""
    return s.crash.deadly if move is Move.QUARANTINE and s.crash is not None else s.change.deadly


def _asked(s: Situation, sign: Sign, move: Move) -> tuple[str, int, bool]:
    """Returns the scheme of the next record, the offset of the request for it, and true if recovery may choose the
    scheme.

    A record that ends a unit names the command that ends its job. An adaptive unit begins under the safest scheme, or
    keeps the scheme that it has.
    """
    if move is Move.REMOVE:
        return s.change.scheme, -1 if s.want is None else s.want.asked, s.change.adaptive
    if sign is Sign.CHOSEN:
        return adapting.chosen(s), s.change.asked, True
    if sign is Sign.PLANNED and s.directed is not None:
        return s.directed.scheme, s.change.asked, False
    if move is Move.KEEP_SCHEME:
        return s.change.scheme, s.asked.offset, s.change.adaptive
    if not (move in (Move.ADOPT, Move.SETTLE) or s.stance is Stance.UNPLACED):
        return s.change.scheme, s.change.asked, s.change.adaptive
    if not s.asked.adaptive:
        return s.asked.scheme, s.asked.offset, False
    keeps = bool(s.change.copies) and s.misses is not None
    return s.change.scheme if keeps else FIRST, s.asked.offset, True


ANSWERS = (Sign.MOVE_ASKED, Sign.MOVE_REFUSED, Sign.DRILL_ASKED, Sign.DRILL_REFUSED)
"""Signs that answer a user's command."""


def _answered(s: Situation, sign: Sign) -> int:
    """Returns the offset of the last answered `move` or `drill`; -1 after a record without copies."""
    if sign is Sign.UNASKED:
        return -1
    answers = unanswered.move(s) if sign in ANSWERS else None
    return s.change.moved if answers is None else answers.offset


def _known(copy: Copy, situation: Situation) -> Copy:
    """Returns the copy with flags that a scheme gives; unknown flags come from another version or a mistake."""
    if copy.flags.commit:
        return leading(copy)
    if copy.flags.send and not situation.may_lead(copy):
        return with_flags(copy, Rung.STANDBY)
    if Rung.of(copy.flags) is None:
        return Copy(copy.worker, copy.incarnation, situation.target_flags)
    return copy

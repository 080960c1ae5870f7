"""Reasons of records: the text that is written, and the facts that are read from it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.schemas.assignments import Change, Copy
from holdfast.services.recovery.core.unit.rules import drilling, unanswered, versions
from holdfast.services.recovery.core.unit.situation import Situation
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign

ABOUT_VERSIONS = (Sign.ACCEPTED, Sign.SHOWN_EQUAL, Sign.SECONDARY_DIFFERS, Sign.ARRIVING_DIFFERS)
FAILURES = (Sign.TURN, Sign.BOTH_GONE, Sign.PRIMARY_GONE, Sign.NO_HEIR, Sign.PRIMARY_SILENT, Sign.PRIMARY_GIVEN_UP)
"""Signs that the leader has failed."""
LOSSES = (*FAILURES, Sign.SECONDARY_GONE, Sign.ARRIVING_GONE)
"""Signs that a copy is lost or does not answer."""


# -- written ----------------------------------------------------------------------------------------------------------


def reason(s: Situation, sign: Sign, move: Move) -> str:
    """Returns the reason of a record: `<sign>: <move> (<details>)`."""
    why = _why(s, sign, move)
    return f"{sign.value}: {move.value}" + (f" ({why})" if why else "")


def _why(s: Situation, sign: Sign, move: Move) -> str:
    """Returns the details of a reason that neither sign nor move names; empty if there are none."""
    if sign is Sign.CHOSEN and s.verdict is not None:
        return s.verdict.summary
    if sign is Sign.PLANNED and s.directed is not None:
        return f"{s.directed.scheme} by plan {s.directed.number}, fidelity {s.directed.fidelity:.3f}"
    if sign in ABOUT_VERSIONS:
        return versions.why(s, accepted=sign is Sign.ACCEPTED)
    if move is Move.QUARANTINE and s.crash is not None:
        return str(s.crash.deadly)
    if move is Move.REMOVE:
        return "" if s.want is None else s.want.reason
    if move is Move.REFUSE:
        return drilling.refusal(s) if sign is Sign.DRILL_REFUSED else unanswered.move_refusal(s)
    if move is Move.LET_GO:
        return str(s.outranked or "")
    if move is Move.KEEP_SCHEME:
        return unanswered.unfit(s)
    if move is Move.GO_BACK:
        return f"that of batch {s.rollback.complete}"
    if move is Move.STAY:
        return unanswered.rollback_refusal(s)
    if move is Move.RESTORE and s.part is not None and s.part.line > s.change.line:
        return f"at the global checkpoint of batch {s.rollback.complete}, {_loss(s)}"
    if sign in LOSSES and (faults := _faults(s)):
        return faults
    if move is Move.ABANDON:
        return versions.unfinished(s)
    return _loss(s) if move in (Move.PLACE, Move.RESTORE) else ""


def _faults(s: Situation) -> str:
    """The unexpected errors that have stopped copies; events of the workers hold their tracebacks."""
    found = ((copy.worker, s.report(copy)) for copy in s.change.copies if s.faulted(copy))
    return ", ".join(f"on {worker} {one.error.partition(', at ')[0]}" for worker, one in found if one is not None)


def _loss(s: Situation) -> str:
    """The failures of the workers that held the unit's copies, for the reason of a record that places the unit
    again.
    """
    concerned = (copy for copy in s.change.copies if s.may_lead(copy) or s.gone(copy))
    return ", ".join(_lost(s, copy) for copy in concerned)


def _lost(s: Situation, copy: Copy) -> str:
    if s.misses is None and s.returned(copy):
        return f"worker {copy.worker} returned"
    if s.misses is None and s.lives_otherwise(copy):
        return f"worker {copy.worker} returned with other versions"
    if s.misses is not None and s.detector.ended(copy.worker, copy.incarnation):
        return f"worker {copy.worker} ended"
    if turn := s.detector.turn(copy.worker, copy.incarnation):
        return f"worker {copy.worker} {turn}"
    return f"worker {copy.worker} silent for {max(s.detector.silent_us(copy.worker), 0) / 1_000_000:.1f} s"


# -- read -------------------------------------------------------------------------------------------------------------


def follows_failure(change: Change) -> bool:
    """True if the leader before the change had failed."""
    return _follows(change, FAILURES)


def adds_standby(change: Change) -> bool:
    """True if a unit that was alone gets a standby."""
    return _follows(change, (Sign.UNPROTECTED,))


def lost_copies(before: Change | None, after: Change) -> tuple[Copy, ...]:
    """Returns the copies that failed, if the change answers a failure, also copies that may come back."""
    if before is None or not _follows(after, LOSSES):
        return ()
    kept = {(copy.worker, copy.incarnation) for copy in after.copies}
    gone = tuple(copy for copy in before.copies if (copy.worker, copy.incarnation) not in kept)
    return gone or tuple(copy for copy in before.copies if copy.flags.commit)


def _follows(change: Change, signs: Iterable[Sign]) -> bool:
    return any(change.reason.startswith(f"{sign.value}: ") for sign in signs)


BEGINS = ("move-begins", "standby-moves")
"""Kinds of events that report the beginning of a move of a unit or its standby."""


def drilled(change: Change) -> bool:
    """True if a user asked for the takeover and nothing had failed."""
    return _follows(change, (Sign.DRILL_ASKED,))


def chosen_for_promise(change: Change) -> bool:
    """True if the controller of adaptive units made the change."""
    return _follows(change, (Sign.CHOSEN,))


def for_balance(change: Change) -> bool:
    """True if the unit moves because its worker has more than its share."""
    return _follows(change, (Sign.OVERFULL,))


def move_kind(before: Change | None, after: Change) -> str | None:
    """Returns the kind of event that reports a move or a refused drill; None if the change belongs to neither."""
    if before is not None and before.replacing is not None:
        now = [copy.worker for copy in after.copies]
        return "standby-moved" if before.replacing.worker in now[1:] else "standby-stays"
    if after.replacing is not None:
        return "standby-moves"
    was = None if before is None else before.arriving
    if was is None:
        if _follows(after, (Sign.DRILL_REFUSED,)):
            return "drill-refused"
        refused = _follows(after, (Sign.MOVE_REFUSED,))
        return "move-begins" if after.arriving is not None else "move-refused" if refused else None
    if after.arriving is not None:
        return None
    done = after.committer is not None and after.committer.worker == was.worker
    return "move-done" if done else "move-abandoned"

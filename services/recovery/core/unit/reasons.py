"""Why a record was made, as its reason says: what has failed, who asked, what people hear of it."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.assignments import Change, Copy
from services.recovery.core.unit.switching import FAILURES, LOSSES, Sign


def follows_failure(change: Change) -> bool:
    """Whether the leader before it had failed."""
    return _follows(change, FAILURES)


def adds_standby(change: Change) -> bool:
    """Whether a unit that was alone gets one."""
    return _follows(change, (Sign.UNPROTECTED,))


def lost_copies(before: Change | None, after: Change) -> tuple[Copy, ...]:
    """The copies that failed, if the change answers a failure; one that may come back is among them."""
    if before is None or not _follows(after, LOSSES):
        return ()
    kept = {(copy.worker, copy.incarnation) for copy in after.copies}
    gone = tuple(copy for copy in before.copies if (copy.worker, copy.incarnation) not in kept)
    return gone or tuple(copy for copy in before.copies if copy.flags.commit)


def _follows(change: Change, signs: Iterable[Sign]) -> bool:
    return any(change.reason.startswith(f"{sign.value}: ") for sign in signs)


BEGINS = ("move-begins", "standby-moves")
"""Kinds of events by which people hear that a unit, or its standby, is on the way."""


def drilled(change: Change) -> bool:
    """Whether a user wanted the takeover, and nothing had failed."""
    return change.reason.startswith(f"{Sign.DRILL_ASKED.value}: ")


def chosen_for_promise(change: Change) -> bool:
    """Whether the controller of adaptive units made it."""
    return change.reason.startswith(f"{Sign.CHOSEN.value}: ")


def move_kind(before: Change | None, after: Change) -> str | None:
    """The kind of event by which people hear of a move, or of a drill that is not made; None: it is no part of one."""
    if before is not None and before.replacing is not None:
        now = [copy.worker for copy in after.copies]
        return "standby-moved" if before.replacing.worker in now[1:] else "standby-stays"
    if after.replacing is not None:
        return "standby-moves"
    was = None if before is None else before.arriving
    if was is None:
        if after.reason.startswith(f"{Sign.DRILL_REFUSED.value}: "):
            return "drill-refused"
        refused = after.reason.startswith(f"{Sign.MOVE_REFUSED.value}: ")
        return "move-begins" if after.arriving is not None else "move-refused" if refused else None
    if after.arriving is not None:
        return None
    done = after.committer is not None and after.committer.worker == was.worker
    return "move-done" if done else "move-abandoned"

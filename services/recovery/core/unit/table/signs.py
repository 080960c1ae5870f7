"""Observations of a unit that call for a record, and their conditions: the first half of a record's reason.

Source: PROTOCOL 8. The move that answers each sign is in switching.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from holdfast.services.recovery.core.unit.facts.stance import UNDER_WAY
from holdfast.services.recovery.core.unit.rules import (
    adapting,
    blame,
    drilling,
    moving,
    protection,
    reassigning,
    stranding,
    unanswered,
    versions,
)
from holdfast.services.recovery.core.unit.situation import Situation


class Sign(Enum):
    """Observation of a unit in the log, by the detector or in reports; the value begins the reason of the record."""

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
    TAKEN_ALONG = "a unit that needs what it has sent begins again at a global checkpoint"
    ROLLBACK_REFUSED = "a rollback was asked for that cannot be done"
    ROLLBACK_ASKED = "a rollback was asked for"
    PRIMARY_WELL = "the primary has answered for a while and has caught up"
    PRIMARY_UNSTEADY = "the primary has not been well for as long as one waits for a silent one"
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
    PLANNED = "the replication plan says another scheme"

    __hash__ = object.__hash__  # Enum hashes the name, in Python, and every row of every unit is looked up


def _two(s: Situation) -> bool:
    return len(s.change.copies) >= 2


def _next_leader_ready(s: Situation) -> bool:
    """True if the copy that takes over from the primary can do that at once."""
    next_leader = moving.next_leader(s) if s.stance in UNDER_WAY else s.secondary
    return next_leader is not None and s.ready(next_leader)


SIGNS: Mapping[Sign, Callable[[Situation], bool]] = {
    Sign.UNWANTED: lambda s: s.unwanted,
    Sign.DEADLY: blame.deadly,
    Sign.ACCEPTED: versions.accept_due,
    Sign.WANTED: lambda s: s.wanted and s.new,
    Sign.UNASKED: lambda s: s.wanted and not s.new,
    Sign.TURN: stranding.its_turn,
    Sign.BOTH_GONE: lambda s: all(s.gone(copy) for copy in s.change.copies),
    Sign.SHOWN_EQUAL: lambda s: versions.newly_shown(s) is not None,
    Sign.PRIMARY_GONE: lambda s: s.gone(s.primary) and versions.heirs(s) if _two(s) else s.lost(s.primary),
    Sign.NO_HEIR: lambda s: s.gone(s.primary),
    Sign.SECONDARY_GONE: lambda s: s.gone(s.secondary),
    Sign.ARRIVING_GONE: moving.lost,
    Sign.SECONDARY_DIFFERS: lambda s: versions.differing(s, s.secondary) is not None,
    Sign.ARRIVING_DIFFERS: lambda s: versions.differing(s, s.arriving) is not None,
    Sign.ARRIVED: lambda s: moving.arrived(s) and moving.staying(s) is not None,
    Sign.ARRIVED_ALONE: moving.arrived,
    Sign.PRIMARY_SILENT: lambda s: s.scheme.switches_back and s.silent(s.primary) and _next_leader_ready(s),
    Sign.PRIMARY_GIVEN_UP: lambda s: (
        not s.scheme.switches_back
        and s.silent(s.primary)
        and (_next_leader_ready(s) if _two(s) else stranding.given_up(s))
    ),
    Sign.SECONDARY_SILENT: lambda s: s.silent(s.secondary) and s.answers(s.primary),
    Sign.PRIMARY_LEAVING: lambda s: s.leaving(s.primary),
    Sign.ANOTHER_SCHEME: unanswered.scheme,
    Sign.UNFIT_ASKED: unanswered.unfit_scheme,
    Sign.TAKEN_ALONG: lambda s: s.joins > s.change.line,
    Sign.ROLLBACK_REFUSED: lambda s: unanswered.rollback(s) and bool(unanswered.rollback_refusal(s)),
    Sign.ROLLBACK_ASKED: lambda s: unanswered.rollback(s) and s.rollback.ready,
    Sign.PRIMARY_WELL: lambda s: s.calm(s.primary) and s.caught_up(s.primary, s.secondary),
    Sign.PRIMARY_UNSTEADY: lambda s: s.age_us >= s.terms.unsteady_us and s.ready(s.secondary),
    Sign.MOVE_REFUSED: lambda s: bool(unanswered.move_refusal(s)),
    Sign.MOVE_ASKED: unanswered.movable,
    Sign.DRILL_REFUSED: lambda s: bool(drilling.refusal(s)),
    Sign.DRILL_ASKED: drilling.due,
    Sign.UNPROTECTED: protection.lacks_standby,
    Sign.SECONDARY_UNWANTED: protection.secondary_unwanted,
    Sign.STEP_DUE: protection.gate_open,
    Sign.MOVE_OVERDUE: moving.overdue,
    Sign.STANDBY_LOST: reassigning.lost,
    Sign.STANDBY_COMPLETE: reassigning.complete,
    Sign.STANDBY_OVERDUE: moving.overdue,
    Sign.OVERFULL: lambda s: s.relief not in ("", s.primary.worker) and s.host(s.relief) is not None,
    Sign.OUTRANKED: lambda s: s.outranked is not None and protection.at_rest(s),
    Sign.STANDBY_ELSEWHERE: reassigning.due,
    Sign.CHOSEN: lambda s: bool(adapting.chosen(s)),
    Sign.PLANNED: adapting.planned,
}
"""Condition of each sign. The order of Sign is their precedence: the first one that has a row counts."""

"""A unit moves to another worker without an outage: the conditions, and the copies of each record on the way.

Source: PROTOCOL 8. The first record (BEGIN) adds a copy on the new worker that processes beside the primary. The second
record (HAND_OVER), once that copy has caught up, makes it the leader; the secondary, or else the old primary, is the
standby. Any failure between the two leads back to the ordinary rows of switching.py. A Spark driver cannot process
beside another one: the new copy is a standby until the second record, which is a takeover.
"""

from __future__ import annotations

from holdfast.schemas.assignments import Copy
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.recovery.core.placement.domains import Domains
from holdfast.services.recovery.core.placement.room import Candidate
from holdfast.services.recovery.core.unit.facts.copies import Copies, Rooms, leading, with_flags
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.rules import unanswered
from holdfast.services.recovery.core.unit.situation import Situation

MOVE_US = 60_000_000
"""Time after which a new copy that has not caught up is given up."""


# -- signs ------------------------------------------------------------------------------------------------------------


def lost(s: Situation) -> bool:
    return s.gone(s.arriving) or s.leaving(s.arriving)


def arrived(s: Situation) -> bool:
    """True if the new copy can take over without a pause; a Spark driver starts its query only at the takeover."""
    if not s.terms.host:
        return s.may_lead(s.arriving) and s.caught_up(s.arriving, s.primary)
    report = s.report(s.arriving)
    return report is not None and report.epoch >= s.change.epoch and s.ready(s.arriving)


def next_leader(s: Situation) -> Copy | None:
    """Returns the copy that takes over if the primary fails now: a ready copy, else a live one; never one that may not
    lead.

    The new copy of a unit that moves comes first, a new standby last.
    """
    may = filter(s.may_lead, s.others)
    both = sorted(may, key=lambda copy: copy.worker != s.change.moving)
    ready = (copy for copy in both if s.ready(copy))
    return next(ready, next((copy for copy in both if not s.gone(copy)), None))


def staying(s: Situation) -> Copy | None:
    """Returns the copy that stays beside the new one: the secondary or the old primary, if possible in another
    domain.
    """
    if s.target is Rung.ABSENT:
        return None
    kept = [copy for copy in s.others if copy.worker != s.change.moving and not s.gone(copy)]
    if not s.leaving(s.primary):
        kept.append(Copy(s.primary.worker, s.primary.incarnation, s.target_flags))
    domains, spread = Domains(s.detector.zones(), s.detector.hosts()), s.terms.spread
    new = domains.of(s.arriving.worker, spread)
    return next((copy for copy in kept if domains.of(copy.worker, spread) != new), kept[0] if kept else None)


def overdue(s: Situation) -> bool:
    return s.age_us >= MOVE_US


# -- moves ------------------------------------------------------------------------------------------------------------


def begin(s: Situation, rooms: Rooms) -> Copies | None:
    """Returns the copies with the copy that is to take over as the last; a present standby on its worker is reused."""
    to = _destination(s, rooms)
    if to is None:
        return None
    kept = tuple(copy for copy in s.others if copy.worker != to.worker)
    standby = next((copy for copy in s.others if copy.worker == to.worker), None)
    if standby is not None and standby.flags.process:
        return s.primary, *kept, standby
    return s.primary, *kept, with_flags(to, Rung.HOT if s.terms.host else Rung.CATCHING)


def _destination(s: Situation, rooms: Rooms) -> Copy | Candidate | Heartbeat | None:
    """Returns the worker or copy to which the unit moves: the one asked for, or the one chosen by balance.

    From a worker that leaves, a unit goes to its secondary, or else to a worker with room. Workers whose versions have
    not
    shown equal bytes yet come last.
    """
    asked = unanswered.move(s)
    wanted = asked.worker if asked is not None and unanswered.movable(s) else s.relief
    if not s.leaving(s.primary):
        return s.host(wanted)
    staying = [copy for copy in s.others if not s.gone(copy) and not s.leaving(copy)]
    without, unit = [copy.worker for copy in s.change.copies], s.change.unit
    return (
        next(filter(s.ready, staying), None)
        or rooms().for_primary(unit, without)
        or next((copy for copy in staying if not s.may_lead(copy)), None)
        or rooms().for_primary(unit, without, unshown=True)
    )


def hand_over(s: Situation, rooms: Rooms) -> Copies:
    stays = staying(s)
    return (leading(s.arriving), *(() if stays is None else (stays,)))


def abandon(s: Situation, rooms: Rooms) -> Copies:
    """Returns the copies with the secondary, or else with the new copy, which a later record removes if it is not
    needed.
    """
    kept = [copy for copy in s.others if copy.worker != s.change.moving]
    return s.primary, *(kept or s.others)


def switch(s: Situation, rooms: Rooms) -> Copies:
    return with_flags(s.primary, Rung.ACTIVE), leading(_next_leader(s))


def promote(s: Situation, rooms: Rooms) -> Copies:
    return (leading(_next_leader(s)),)


def change_places(s: Situation, rooms: Rooms) -> Copies:
    return leading(_next_leader(s)), Copy(s.primary.worker, s.primary.incarnation, s.target_flags)


def _next_leader(s: Situation) -> Copy:
    found = next_leader(s)
    assert found is not None, f"{s.change.unit}: nobody is left"
    return found

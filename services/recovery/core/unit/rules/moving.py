"""A unit moves to another worker without an outage: when, and the copies of each record on the way.

Source: PROTOCOL 8. First record: a copy on the new worker processes beside the primary (BEGIN). Second record, once
that copy has caught up: it leads (HAND_OVER), and the secondary, or else the old primary, stands by. Any failure
between the two leads back to the ordinary rows of switching.py. A Spark driver cannot process beside another one: the
new copy stands by until the second record, which is a takeover.
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
"""A new copy that has not caught up by then is given up."""


# -- signs ------------------------------------------------------------------------------------------------------------


def lost(s: Situation) -> bool:
    return s.gone(s.arriving) or s.leaving(s.arriving)


def arrived(s: Situation) -> bool:
    """The new copy can take over without a pause; a Spark driver starts its query only then."""
    if not s.terms.host:
        return s.may_lead(s.arriving) and s.caught_up(s.arriving, s.primary)
    report = s.report(s.arriving)
    return report is not None and report.epoch >= s.change.epoch and s.ready(s.arriving)


def next_leader(s: Situation) -> Copy | None:
    """The copy that takes over if the primary fails now: a ready one, else one that lives; none that may not lead.

    The new copy of a unit that moves is asked first, a standby that is being made last.
    """
    may = filter(s.may_lead, s.others)
    both = sorted(may, key=lambda copy: copy.worker != s.change.moving)
    ready = (copy for copy in both if s.ready(copy))
    return next(ready, next((copy for copy in both if not s.gone(copy)), None))


def staying(s: Situation) -> Copy | None:
    """The copy that stays beside the new one: the secondary, or the old primary; in another domain, if one is."""
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
    """The copy that is to take over is the last one; one that stands by already is the cheapest."""
    to = _destination(s, rooms)
    if to is None:
        return None
    kept = tuple(copy for copy in s.others if copy.worker != to.worker)
    standby = next((copy for copy in s.others if copy.worker == to.worker), None)
    if standby is not None and standby.flags.process:
        return s.primary, *kept, standby
    return s.primary, *kept, with_flags(to, Rung.HOT if s.terms.host else Rung.CATCHING)


def _destination(s: Situation, rooms: Rooms) -> Copy | Candidate | Heartbeat | None:
    """Asked for, or chosen by balance; a worker that leaves goes to its secondary, or wherever there is room. Last of
    all to where versions have yet to show equal bytes.
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
    """The secondary stays, or else the new copy, which the next record lets go if it is gone or nobody wants it."""
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

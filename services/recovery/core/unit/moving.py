"""A unit moves to another worker without an outage: the copies of each record on the way.

Source: PROTOCOL 8. First record: a copy on the new worker processes beside the primary (BEGIN). Second record, once
that copy has caught up: it leads (HAND_OVER), and the secondary, or else the old primary, stands by. Any failure
between the two leads back to the ordinary rows of switching.py. A Spark driver cannot process beside another one: the
new copy stands by until the second record, which is a takeover.
"""

from __future__ import annotations

from collections.abc import Callable

from schemas.assignments import PRIMARY, Copy
from schemas.heartbeats import Heartbeat
from services.recovery.core.placement.room import Candidate, Room
from services.recovery.core.unit.schemes import Rung
from services.recovery.core.unit.situation import Situation

Copies = tuple[Copy, ...]
Rooms = Callable[[], Room]
"""Asked only by a move that looks for a worker: it costs a look at all units."""


def leading(copy: Copy | Candidate | Heartbeat) -> Copy:
    return Copy(copy.worker, copy.incarnation, PRIMARY)


def with_flags(copy: Copy | Candidate | Heartbeat, rung: Rung) -> Copy:
    return Copy(copy.worker, copy.incarnation, rung.flags)


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
    wanted = s.move_due.worker if s.movable and s.move_due is not None else s.relief
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
    return (leading(s.arriving), *(() if s.staying is None else (s.staying,)))


def abandon(s: Situation, rooms: Rooms) -> Copies:
    """The secondary stays, or else the new copy, which the next record lets go if it is gone or nobody wants it."""
    kept = [copy for copy in s.others if copy.worker != s.change.moving]
    return s.primary, *(kept or s.others)


def switch(s: Situation, rooms: Rooms) -> Copies:
    return with_flags(s.primary, Rung.HOT), leading(_next_leader(s))


def promote(s: Situation, rooms: Rooms) -> Copies:
    return (leading(_next_leader(s)),)


def change_places(s: Situation, rooms: Rooms) -> Copies:
    return leading(_next_leader(s)), Copy(s.primary.worker, s.primary.incarnation, s.target_flags)


def _next_leader(s: Situation) -> Copy:
    assert s.next_leader is not None, f"{s.change.unit}: nobody is left"
    return s.next_leader

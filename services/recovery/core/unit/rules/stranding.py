"""Units that no copy can continue: the condition, and the time and worker of the next placement.

Source: MECHANISMS R2, docs/decisions/0095. Units that failed together form an incident, whose plan gives each unit its
turn.
"""

from __future__ import annotations

from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import blame
from holdfast.services.recovery.core.unit.situation import Situation


def stranded(s: Situation) -> bool:
    """True if no copy of the unit can continue or may lead, so that the unit has to be placed again.

    Units that may have ended their workers themselves are not stranded, so they open no incident.
    """
    return not blame.deadly(s) and not blame.blamed(s) and without_leader(s)


def without_leader(s: Situation) -> bool:
    """True if no copy of the unit can continue or may lead, whatever the cause."""
    left_alone = not s.change.copies or s.over or s.crowded
    if left_alone or s.unwanted:
        return False
    gone = all(s.gone(copy) for copy in s.change.copies if s.may_lead(copy))
    return gone or (s.stance is Stance.ALONE and (s.lost(s.primary) or given_up(s)))


def given_up(s: Situation) -> bool:
    """True if the unit's only copy is silent, and its scheme does not wait for that copy."""
    return not s.scheme.switches_back and s.silent(s.primary) and s.target is Rung.ABSENT


def held_back(s: Situation) -> bool:
    """True if the unit waits for its turn in an incident."""
    return s.part is not None and stranded(s)


def its_turn(s: Situation) -> bool:
    return s.part is not None and s.part.granted and not s.part.held_up and stranded(s)


def slot(s: Situation) -> Heartbeat | None:
    """Returns the worker on which the unit is to be restored, if that worker can take it."""
    place = None if s.part is None else s.part.place
    beat = None if place is None else s.host(place.worker)
    there = beat is not None and place is not None and beat.incarnation == place.incarnation
    fits = beat is not None and not beat.leaving and s.fit(beat) is Fit.EQUAL
    return beat if there and fits else None


def silent_hosts(s: Situation) -> list[str]:
    """Workers that have lost a copy of the unit and are not quite gone; the unit is placed elsewhere."""
    named = {(copy.worker, copy.incarnation) for copy in s.change.copies}
    return [beat.worker for beat in s.detector.alive() if (beat.worker, beat.incarnation) in named]


def unequal_hosts(s: Situation) -> list[str]:
    """Workers on which no copy of the unit may lead at once."""
    return [beat.worker for beat in s.detector.alive() if s.fit(beat) is not Fit.EQUAL]

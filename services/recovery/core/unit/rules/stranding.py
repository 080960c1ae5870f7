"""Units that no copy can continue: which are, and where and when they are placed again.

Source: MECHANISMS R2, docs/decisions/0095. What failed together is an incident, whose plan gives each unit its turn.
"""

from __future__ import annotations

from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import blame
from holdfast.services.recovery.core.unit.situation import Situation


def stranded(s: Situation) -> bool:
    """No copy of it can continue, or none that may: it has to be placed again. In an incident nobody waits for one
    worker.

    What a unit may have done itself is no incident.
    """
    return not blame.deadly(s) and not blame.blamed(s) and without_leader(s)


def without_leader(s: Situation) -> bool:
    """No copy of it can continue, or none that may, whosever fault that is."""
    left_alone = not s.change.copies or s.over or s.crowded
    if left_alone or s.unwanted:
        return False
    gone = all(s.gone(copy) for copy in s.change.copies if s.may_lead(copy))
    return gone or (s.stance is Stance.ALONE and (s.lost(s.primary) or given_up(s)))


def given_up(s: Situation) -> bool:
    """Its only copy is silent, and its scheme does not wait for that."""
    return not s.scheme.switches_back and s.silent(s.primary) and s.target is Rung.ABSENT


def held_back(s: Situation) -> bool:
    """True if the unit is restored when its turn comes."""
    return s.part is not None and stranded(s)


def its_turn(s: Situation) -> bool:
    return s.part is not None and s.part.granted and not s.part.held_up and stranded(s)


def slot(s: Situation) -> Heartbeat | None:
    """The worker on which it is to be restored, if that can take it."""
    place = None if s.part is None else s.part.place
    beat = None if place is None else s.host(place.worker)
    there = beat is not None and place is not None and beat.incarnation == place.incarnation
    fits = beat is not None and not beat.leaving and s.fit(beat) is Fit.EQUAL
    return beat if there and fits else None


def silent_hosts(s: Situation) -> list[str]:
    """Workers that are not quite gone, and have lost a copy of it: it is placed elsewhere."""
    named = {(copy.worker, copy.incarnation) for copy in s.change.copies}
    return [beat.worker for beat in s.detector.alive() if (beat.worker, beat.incarnation) in named]


def unequal_hosts(s: Situation) -> list[str]:
    """Workers on which no copy of it may lead at once."""
    return [beat.worker for beat in s.detector.alive() if s.fit(beat) is not Fit.EQUAL]

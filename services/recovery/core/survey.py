"""Survey of units and workers while all is well, for balance and for the reassignment of standbys. Pure.

Units of Spark, units that have ended, and crowded units stay on their workers.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.services.kernel.liveness.detector import Detector
from holdfast.services.kernel.plans.pinning import Fit
from holdfast.services.kernel.protection.reassigning import Backed
from holdfast.services.recovery.core.known import ReplicaView
from holdfast.services.recovery.core.placement.balancing import Host, Placement
from holdfast.services.recovery.core.placement.domains import Domains
from holdfast.services.recovery.core.placement.room import Candidate, Room, standbys
from holdfast.services.recovery.core.placement.sharing import Claim, HeldStandby
from holdfast.services.recovery.core.placement.upkeep import Upkeep
from holdfast.services.recovery.core.unit.facts.stance import Stance
from holdfast.services.recovery.core.unit.rules import protection, reassigning
from holdfast.services.recovery.core.unit.situation import Situation


def _fleet(detector: Detector) -> list[Host]:
    """Workers that take units of the kernel; a Spark unit that moves is a takeover."""
    alive = (b for b in detector.alive() if not b.hosts and not b.leaving)
    return [Host(b.worker, b.zone, max(b.slots, 1), b.machine) for b in alive]


def all_placed(known: ReplicaView) -> tuple[list[Placement], list[Host]]:
    """Placements of all units, and the workers."""
    rested = known.relieving.rested
    found = [
        _placement(one, rested(one.change.unit, one.terms.rebalance_us, known.now_us)) for one in known.situations()
    ]
    return found, _fleet(known.detector)


def _placement(s: Situation, rested: bool) -> Placement:
    """Returns the placement of one unit, with the workers that balance may move it to.

    rested: true if balance has not moved the unit within its rebalance period.
    """
    workers = [copy.worker for copy in s.change.copies]
    if s.terms.host or s.over or s.crowded or not rested:
        return Placement(s.change.unit, workers[0], tuple(workers[1:]))
    fits = (beat.worker for beat in s.detector.alive() if not beat.hosts and s.fit(beat) is Fit.EQUAL)
    return Placement(s.change.unit, workers[0], tuple(workers[1:]), frozenset(fits), spread=s.terms.spread)


def all_backed(known: ReplicaView, upkeep: Upkeep) -> tuple[list[Backed], list[str]]:
    """Returns the present and possible places of standbys, and the names of the workers."""
    room = Room(map(Candidate.of, known.detector.alive()))
    for change in known.assigned.units().values():
        room.enter(change)
    workers, rested = _fleet(known.detector), known.reassignment.rested
    hosts = [host for host in workers if room.takes_standby(host.worker)]
    found = (
        _backed(one, upkeep, hosts, rested(one.change.unit, one.terms.rebalance_us, known.now_us))
        for one in known.situations()
    )
    return [one for one in found if one is not None], [host.worker for host in workers]


def _backed(s: Situation, upkeep: Upkeep, hosts: list[Host], rested: bool) -> Backed | None:
    """Returns the places of the unit's standby; None if no standby follows checkpoints, or too few costs were reported.

    rested: true if the standby has not moved within the rebalance period.
    """
    if s.stance is not Stance.NORMAL or not reassigning.followed(s) or s.over:
        return None
    known = upkeep.of(s.change)
    if known is None:
        return None
    fits = _apart(s, hosts) if rested and protection.at_rest(s) else frozenset[str]()
    return Backed(s.change.unit, s.primary.worker, s.secondary.worker, *known, fits)


def claim(s: Situation, room: Room) -> Claim | None:
    """Returns the unit's claim to a place; None if it has a standby, is to have none now, or a worker has a place."""
    if s.stance is not Stance.ALONE or s.over or not protection.lacks_standby(s) or not s.ready(s.primary):
        return None
    could = room.for_standbys(s.primary.worker, s.terms.spread)
    if not could or room.for_secondary(s.primary.worker, s.terms.spread) is not None:
        return None
    return Claim(s.change.unit, s.terms.priority, tuple(one.worker for one in could))


def held(s: Situation) -> Iterator[HeldStandby]:
    """Standbys of a unit, each marked as at rest if the unit can do without it for a while."""
    for index, worker in enumerate(standbys(s.change)):
        at_rest = s.stance is Stance.NORMAL and index == 0 and protection.at_rest(s)
        yield HeldStandby(s.change.unit, s.terms.priority, worker, at_rest)


def _apart(s: Situation, hosts: list[Host]) -> frozenset[str]:
    """Workers that may hold the unit's standby: only workers in another failure domain, if there are any."""
    fit = {beat.worker: s.fit(beat) for beat in s.detector.alive()}
    fitting = [h.worker for h in hosts if h.worker != s.primary.worker and fit[h.worker] is Fit.EQUAL]
    domains = Domains(s.detector.zones(), s.detector.hosts())
    own = domains.of(s.primary.worker, s.terms.spread)
    apart = [worker for worker in fitting if domains.of(worker, s.terms.spread) != own]
    return frozenset(apart or fitting)

"""Places for copies: a unit's primary where there is most room, its secondary in another failure domain. Pure and
deterministic.

Source: PROTOCOL 8 (slots are a soft limit), MECHANISMS C4 and H9. To change where copies go, change the order in
`Room._as_primary` or `Room._as_secondary`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from holdfast.schemas.assignments import Change, job_key_of
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.services.recovery.core.placement.domains import ZONE, Domains


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that may take units.

    standbys: largest number of standbys that it takes; -1: no limit.
    shown: true if its versions have shown equal bytes, so that a copy there may lead at once.
    """

    worker: str
    incarnation: str
    zone: str
    slots: int
    host: str = ""
    standbys: int = -1
    shown: bool = True

    @classmethod
    def of(cls, beat: Heartbeat, shown: bool = True) -> Candidate:
        return cls(
            beat.worker,
            beat.incarnation,
            beat.zone,
            max(beat.slots, 1),
            host=beat.machine,
            standbys=beat.standbys,
            shown=shown,
        )


class Room:
    """The load of each worker and zone while units are placed.

    Args:
        zones, hosts: of workers that hold copies but are no candidates.
    """

    def __init__(
        self,
        candidates: Iterable[Candidate],
        zones: Mapping[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        self._candidates = sorted(candidates, key=lambda candidate: candidate.worker)
        self._zones = {**(zones or {}), **{candidate.worker: candidate.zone for candidate in self._candidates}}
        machines = {**(hosts or {}), **{candidate.worker: candidate.host for candidate in self._candidates}}
        self._domains = Domains(self._zones, machines)
        self._load: Counter[str] = Counter()
        self._of_job: Counter[tuple[str, str]] = Counter()
        self._of_job_in_zone: Counter[tuple[str, str]] = Counter()
        self._backed: Counter[tuple[str, str]] = Counter()
        self._standbys: Counter[str] = Counter()
        self._departing: Counter[str] = Counter()
        self._taken: Counter[tuple[str, str]] = Counter()

    def enter(self, change: Change) -> None:
        """Adds the unit's copies."""
        for index, copy in enumerate(change.copies):
            self.hold(change.unit, copy.worker, backs=change.copies[0].worker if index else "")
        self._standbys.update(standbys(change))
        self._departing.update(_departing(change))
        self._taken.update((copy.worker, copy.incarnation) for copy in change.copies)

    def leave(self, change: Change) -> None:
        """Removes the unit's copies."""
        for index, copy in enumerate(change.copies):
            self.release(change.unit, copy.worker, backs=change.copies[0].worker if index else "")
        self._standbys.subtract(standbys(change))
        self._departing.subtract(_departing(change))
        self._taken.subtract((copy.worker, copy.incarnation) for copy in change.copies)

    @property
    def workers(self) -> list[str]:
        """Workers that may take copies that lead at once."""
        return [candidate.worker for candidate in self._candidates if candidate.shown]

    @property
    def slots(self) -> int:
        """Number of free slots for copies that lead at once; copies of a worker's former incarnation take none."""
        return sum(self._free(candidate) for candidate in self._candidates if candidate.shown)

    def has_slot(self, worker: str, incarnation: str) -> bool:
        """True if a slot is free there, for a copy that leads at once."""
        found = (one for one in self._candidates if (one.worker, one.incarnation) == (worker, incarnation))
        return any(one.shown and self._free(one) for one in found)

    def promise(self, worker: str, incarnation: str) -> None:
        """Reserves a slot of the worker for another unit."""
        self._taken[worker, incarnation] += 1

    def _free(self, candidate: Candidate) -> int:
        return max(0, candidate.slots - self._taken[candidate.worker, candidate.incarnation])

    def hold(self, unit: str, worker: str, backs: str = "") -> None:
        """Adds a copy to the worker.

        backs: the worker of the unit's primary, if the copy is its secondary.
        """
        self._count(unit, worker, backs, 1)

    def release(self, unit: str, worker: str, backs: str = "") -> None:
        """Removes a copy from the worker."""
        self._count(unit, worker, backs, -1)

    def _count(self, unit: str, worker: str, backs: str, copies: int) -> None:
        job = job_key_of(unit)
        self._load[worker] += copies
        self._of_job[job, worker] += copies
        if worker in self._zones:
            self._of_job_in_zone[job, self._zones[worker]] += copies
        for domain in self._domains.all_of(backs) if backs else ():
            self._backed[worker, domain] += copies

    def backed(self, primary: str, worker: str) -> int:
        """Returns the size of the backup group (i, j): units of worker i whose standbys are on worker j."""
        return self._backed[worker, self._domains.of(primary, "none")]

    def for_primary(
        self, unit: str, without: Collection[str] = (), *, slots: bool = False, unshown: bool = False
    ) -> Candidate | None:
        """Returns a place for the unit's only copy, not on the workers named; the caller takes it with `hold`.

        Args:
            slots: true: only a worker with a free slot.
            unshown: true: a worker whose versions have not shown equal bytes, for a copy that does not lead at once.
        """
        allowed = (one for one in self._candidates if one.worker not in without and one.shown is not unshown)
        fitting = (candidate for candidate in allowed if not slots or self._free(candidate))
        return min(fitting, key=lambda candidate: self._as_primary(unit, candidate), default=None)

    def for_secondary(self, primary: str, spread: str = ZONE) -> Candidate | None:
        """Returns a place for a unit's secondary, not on its primary's worker; the caller takes it with `hold`.

        None if no worker can take it, or each holds as many standbys as it may.

        Args:
            spread: the kind of domain that keeps the unit's copies apart.
        """
        fitting = (one for one in self.for_standbys(primary, spread) if self.takes_standby(one.worker))
        return next(fitting, None)

    def for_standbys(self, primary: str, spread: str = ZONE) -> list[Candidate]:
        """The workers that could take a standby of the primary's units, best first, with or without a place."""
        fitting = [candidate for candidate in self._candidates if candidate.worker != primary]
        return sorted(fitting, key=lambda candidate: self._as_secondary(primary, candidate, spread))

    def takes_standby(self, worker: str) -> bool:
        """True if the worker is a candidate, and holds fewer standbys than it may."""
        return any(one.worker == worker and self._standbys[worker] < _most(one) for one in self._candidates)

    def overfull(self) -> list[str]:
        """Workers that hold more standbys than they may, not counting standbys that are about to go."""
        staying = self._standbys - self._departing
        return [one.worker for one in self._candidates if staying[one.worker] > _most(one)]

    def _as_primary(self, unit: str, candidate: Candidate) -> tuple[float, int, int, str]:
        """Sort key: share of slots in use, units of the same job in the zone, units of the same job on the worker,
        name.
        """
        job = job_key_of(unit)
        return (
            self._load[candidate.worker] / candidate.slots,
            self._of_job_in_zone[job, candidate.zone],
            self._of_job[job, candidate.worker],
            candidate.worker,
        )

    def _as_secondary(
        self, primary: str, candidate: Candidate, spread: str
    ) -> tuple[bool, bool, bool, int, int, float, str]:
        """Sort key of a place for a secondary.

        The parts: may not lead yet, in the primary's domain, full, units of the primary's worker that it backs, units
        of the primary's domain that it backs, share of slots in use, name. So the standbys of one worker spread over as
        many peers as there are, and come back in parallel (MECHANISMS C4).
        """
        domain = self._domains.of(primary, spread)
        return (
            not candidate.shown,
            self._domains.of(candidate.worker, spread) == domain,
            self._load[candidate.worker] >= candidate.slots,
            self.backed(primary, candidate.worker),
            self._backed[candidate.worker, domain],
            self._load[candidate.worker] / candidate.slots,
            candidate.worker,
        )


def standbys(change: Change) -> list[str]:
    """The workers that hold a standby of the unit, also one that leads for a while, but not a copy that is to lead."""
    return [copy.worker for copy in change.copies[1:] if copy.worker != change.moving]


def _departing(change: Change) -> list[str]:
    """The worker of the standby that goes once its replacement is complete."""
    return [] if change.replacing is None else [change.copies[1].worker]


def _most(candidate: Candidate) -> float:
    return math.inf if candidate.standbys < 0 else candidate.standbys

"""Balance: moves of units between workers while all is calm. Pure and deterministic.

Source: PROTOCOL 8. After many failovers one of four workers led all units.

Every move strictly reduces first the copies beyond the workers' slots, then the imbalance of active units (the sum over
the workers of their squared number per slot). Both are bounded below, so moves end, and none undoes another. All
replicas compute the same move from the same records, so that at most one of their proposals is valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.services.recovery.core.placement.domains import ZONE, Domains


@dataclass(frozen=True, slots=True)
class Host:
    """A worker that takes units.

    slots: number of copies from which the worker counts as full.
    """

    worker: str
    zone: str
    slots: int
    host: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The workers of one unit's copies.

    active: worker of the copy that leads.
    others: workers of its other copies.
    fits: workers that may take the unit over now.
    spread: the kind of domain that keeps its copies apart.
    """

    unit: str
    active: str
    others: tuple[str, ...] = ()
    fits: frozenset[str] = frozenset()
    spread: str = ZONE


@dataclass(frozen=True, slots=True)
class Relief:
    """Hand this unit to this worker."""

    unit: str
    worker: str


@dataclass(slots=True)
class _Load:
    """Active units, and copies of any kind, by worker."""

    hosts: Mapping[str, Host]
    active: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)

    def hold(self, placement: Placement) -> None:
        self.active[placement.active] += 1
        self.copies.update((placement.active, *placement.others))

    def overflow(self, left: str, taken: str) -> int:
        """Returns the change of the number of copies beyond slots if a copy goes from one worker to the other."""
        if left == taken:
            return 0
        relieved = self.copies[left] > self.hosts[left].slots if left in self.hosts else False
        filled = self.copies[taken] >= self.hosts[taken].slots
        return int(filled) - int(relieved)

    def imbalance(self, left: str, taken: str) -> float:
        """Returns the growth of the sum of squares per slot if an active unit goes from one worker to the other."""
        grows = (2 * self.active[taken] + 1) * self.hosts[left].slots
        shrinks = (2 * self.active[left] - 1) * self.hosts[taken].slots
        return (grows - shrinks) / (self.hosts[left].slots * self.hosts[taken].slots)


def balance(placements: Iterable[Placement], fleet: Iterable[Host], calm: bool) -> Relief | None:
    """Returns the next move; None if not all is calm, or if no move improves the balance.

    A move that empties an overfull worker comes before one that evens the active units. Of equal moves, one to the
    standby comes first, as it costs least; then one to the worker with the fewest active units.
    """
    if not calm:
        return None
    known = list(placements)
    load = _Load({host.worker: host for host in fleet})
    for placement in known:
        load.hold(placement)
    best = min((ranked for placement in known for ranked in _moves(placement, load)), default=None)
    return None if best is None else Relief(best[-1], best[-2])


def _moves(placement: Placement, load: _Load) -> Iterator[tuple[int, bool, float, int, str, str]]:
    """Good moves: (more copies beyond slots, not to a standby, more imbalance, active units there, worker, unit)."""
    if placement.active not in load.hosts:
        return
    for worker in placement.fits & load.hosts.keys() - {placement.active}:
        dropped = _dropped(placement, worker, load)
        if dropped is None:
            continue
        overflow = load.overflow(dropped, worker) if worker not in placement.others else 0
        imbalance = load.imbalance(placement.active, worker)
        if (overflow, imbalance) < (0, 0.0):
            new = worker not in placement.others
            yield overflow, new, imbalance, load.active[worker], worker, placement.unit


def _dropped(placement: Placement, worker: str, load: _Load) -> str | None:
    """Returns the worker whose copy goes, as recovery will decide; None if both remaining copies would share a
    domain.
    """
    if worker in placement.others or not placement.others:
        return placement.active
    known = load.hosts.items()
    domains = Domains({name: host.zone for name, host in known}, {name: host.host for name, host in known})
    new, standby = domains.of(worker, placement.spread), placement.others[0]
    if domains.of(standby, placement.spread) != new:
        return placement.active
    if domains.of(placement.active, placement.spread) != new:
        return standby
    return None

"""Allotment of standbys if not every unit can have one: several units share a worker, up to its capacity.

Source: MECHANISMS H9, docs/decisions/0089. Pure and deterministic: every replica finds the same from the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Claim:
    """A unit that is to have a standby, and for which no worker has a place.

    workers: workers that could take it, best first.
    """

    unit: str
    priority: int
    workers: tuple[str, ...]

    def __str__(self) -> str:
        return f"full: {', '.join(self.workers)}; none of their standbys is of a less important unit"


@dataclass(frozen=True, slots=True)
class HeldStandby:
    """A standby on a worker.

    at_rest: true if nothing is under way for its unit.
    """

    unit: str
    priority: int
    worker: str
    at_rest: bool = True


@dataclass(frozen=True, slots=True)
class Outranked:
    """A standby that goes.

    by: the unit that gets its place; empty: its worker holds more standbys than it may.
    """

    unit: str
    worker: str
    by: str = ""

    def __str__(self) -> str:
        return f"for {self.by.rpartition('/')[2]}" if self.by else f"{self.worker} holds more than it may"


def outranked(claims: Iterable[Claim], held: Collection[HeldStandby], overfull: Collection[str]) -> Outranked | None:
    """Returns the next standby that goes; None if all stay.

    It is the least important one on a worker that holds too many, or else the least important one in whose place a more
    important unit could have its own. The next one follows once this one has gone.
    """
    resting = [one for one in held if one.at_rest]
    excess = [one for one in resting if one.worker in overfull]
    if excess:
        least = min(excess, key=lambda one: (one.priority, one.worker, one.unit))
        return Outranked(least.unit, least.worker)
    for claim in sorted(claims, key=lambda one: (-one.priority, one.unit)):
        places = _places(claim, resting)
        if places:
            least = min(places, key=lambda one: (one.priority, claim.workers.index(one.worker), one.unit))
            return Outranked(least.unit, least.worker, claim.unit)
    return None


def hopeless(claims: Iterable[Claim], held: Sequence[HeldStandby]) -> list[str]:
    """Units that stay without a standby, because no standby is less important."""
    return [claim.unit for claim in claims if not _places(claim, held)]


def _places(claim: Claim, held: Iterable[HeldStandby]) -> list[HeldStandby]:
    return [one for one in held if one.worker in claim.workers and one.priority < claim.priority]


@dataclass(slots=True)
class Sharing:
    """Standbys as of the last sweep of one replica.

    unserved: by unit that stays without a standby, the reason.
    """

    unserved: dict[str, str] = field(default_factory=dict)
    _next: Outranked | None = None

    def look(self, claims: Sequence[Claim], held: Sequence[HeldStandby], overfull: Collection[str]) -> None:
        """Finds the next standby that goes, and the units without a place."""
        self._next = outranked(claims, held, overfull)
        of = {claim.unit: claim for claim in claims}
        self.unserved = {unit: str(of[unit]) for unit in hopeless(claims, held)}

    @property
    def concerned(self) -> Collection[str]:
        """The unit whose standby goes now, if one does."""
        return () if self._next is None else (self._next.unit,)

    def outranked(self, unit: str) -> Outranked | None:
        """Returns why the unit's standby goes now; None if it stays."""
        return self._next if self._next is not None and self._next.unit == unit else None

    @property
    def excess(self) -> Outranked | None:
        """The next standby that goes because its worker holds more than it may."""
        return self._next if self._next is not None and not self._next.by else None

    def moves(self) -> None:
        """Notes that the outranked standby moves to another worker instead."""
        self._next = None

"""Proofs that a copy with other versions gives equal bytes: its batches compared with those of a copy that may lead.

Source: PROTOCOL 0.2 and 8, decision 0077. Both copies report digests of what a batch sent, delivered and changed. A
batch that did nothing proves little: it counts a tenth. A replica that starts again counts again from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy, Differing
from holdfast.schemas.heartbeats import DID_NOTHING, CopyState

BATCHES = 100
"""Number of equal batches after which a copy may lead."""

IDLE = 10
"""Number of batches that did nothing and together count as one batch."""

MAX_CAUSE = 300
KEPT = 1_024
"""Largest number of digests kept for one unit or copy, the newest: one may be ahead of the other by that many."""

Run = tuple[str, str]
"""Name and incarnation of a worker."""


@dataclass(slots=True)
class _Copy:
    """Digests that one copy has reported.

    digests: by batch, not compared yet.
    equal: number of equal batches.
    idle: number of equal batches that did nothing.
    upto: the last equal batch.
    differs: the first batch that differs; 0: none does.
    """

    digests: dict[int, int] = field(default_factory=dict)
    equal: int = 0
    idle: int = 0
    upto: int = 0
    differs: int = 0

    @property
    def counted(self) -> int:
        return self.equal + self.idle // IDLE


@dataclass(slots=True)
class _Unit:
    """Digests of one unit.

    true: by batch, digests of the copies that may lead, all of which are equal.
    copies: the copies that have not shown equal bytes yet.
    """

    true: dict[int, int] = field(default_factory=dict)
    copies: dict[Run, _Copy] = field(default_factory=dict)


class Proofs:
    """Proofs of all units with a copy that has not shown equal bytes yet.

    needed: number of batches that must be equal.
    """

    def __init__(self, needed: int = BATCHES) -> None:
        self.needed = needed
        self._units: dict[str, _Unit] = {}

    def see(self, change: Change, run: Run, report: CopyState) -> None:
        """Takes a report of a copy that the change names."""
        if not change.unshown or not report.shows:
            return
        copy = next((one for one in change.copies if _run(one) == run), None)
        if copy is None:
            return
        unit = self._units.setdefault(change.unit, _Unit())
        if change.unshown_of(copy) is None:
            _keep(unit.true, report.shows)
            for one in unit.copies.values():
                _compare(one, unit.true)
        else:
            one = unit.copies.setdefault(run, _Copy())
            _keep(one.digests, report.shows)
            _compare(one, unit.true)

    def follow(self, change: Change) -> None:
        """Takes a new record: drops the digests of copies that need no proof any more."""
        unit = self._units.get(change.unit)
        if unit is None:
            return
        left = {_run(copy) for copy in change.copies if change.unshown_of(copy) is not None}
        unit.copies = {run: one for run, one in unit.copies.items() if run in left}
        if not left:
            del self._units[change.unit]

    def forget(self, unit: str) -> None:
        self._units.pop(unit, None)

    def equal(self, unit: str, copy: Copy) -> int:
        """Returns the number of equal batches of the copy; IDLE batches that did nothing count as one."""
        return self._of(unit, copy).counted

    def shown(self, unit: str, copy: Copy) -> bool:
        """True if enough batches of the copy were equal, and none differed."""
        one = self._of(unit, copy)
        return one.counted >= self.needed and not one.differs

    def differing(self, change: Change, copy: Copy, report: CopyState | None) -> Differing | None:
        """Returns the difference in the bytes of a copy without proof yet, or the error that stopped it; None if
        there is none.
        """
        unshown = change.unshown_of(copy)
        if unshown is None:
            return None
        known = next((one for one in change.differ if one.versions == unshown.versions), None)
        if known is not None:
            return known
        if batch := self._of(change.unit, copy).differs:
            return Differing(unshown.versions, copy.worker, batch)
        if report is not None and report.state == "failed":
            return Differing(unshown.versions, copy.worker, cause=f"stopped: {report.error}"[:MAX_CAUSE])
        return None

    def _of(self, unit: str, copy: Copy) -> _Copy:
        known = self._units.get(unit)
        return _UNSEEN if known is None else known.copies.get(_run(copy), _UNSEEN)


_UNSEEN = _Copy()


def _run(copy: Copy) -> Run:
    return copy.worker, copy.incarnation


def _keep(digests: dict[int, int], shows: tuple[tuple[int, int], ...]) -> None:
    digests.update(shows)
    for batch in sorted(digests)[:-KEPT]:
        del digests[batch]


def _compare(one: _Copy, true: Mapping[int, int]) -> None:
    for batch in sorted(one.digests.keys() & true.keys()):
        if one.digests[batch] != true[batch]:
            one.differs = min(batch, one.differs or batch)
        elif batch > one.upto:
            idle = one.digests[batch] == DID_NOTHING
            one.equal, one.idle, one.upto = one.equal + (not idle), one.idle + idle, batch
        del one.digests[batch]

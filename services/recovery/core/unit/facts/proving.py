"""Proofs that a copy with other versions gives equal bytes: its batches against those of a copy that may lead.

Source: PROTOCOL 0.2 and 8, decision 0077. Both report digests of what a batch sent, delivered and changed. A batch that
did nothing shows little: it counts a tenth. A replica that starts again counts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy, Differing
from holdfast.schemas.heartbeats import DID_NOTHING, CopyState

BATCHES = 100
"""So many must be equal before a copy may lead."""

IDLE = 10
"""So many batches that did nothing count as one."""

MAX_CAUSE = 300
KEPT = 1_024
"""Digests of one unit or copy, the newest: one of them may be ahead of the other by so much."""

Run = tuple[str, str]
"""Name and incarnation of a worker."""


@dataclass(slots=True)
class _Copy:
    """Digests that one copy has shown.

    equal: number of equal batches.
    idle: number of batches that did nothing.
    upto: the last of them.
    differs: the first batch that differs.
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
    """true: digests of copies that may lead, all of which give the same. copies: the others."""

    true: dict[int, int] = field(default_factory=dict)
    copies: dict[Run, _Copy] = field(default_factory=dict)


class Proofs:
    """Proofs of all units that have a copy with something to show. needed: batches that must be equal."""

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
        """A new record: what no copy has to show any more is forgotten."""
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
        """So many batches of the copy were equal."""
        return self._of(unit, copy).counted

    def shown(self, unit: str, copy: Copy) -> bool:
        """Enough were, and none was not."""
        one = self._of(unit, copy)
        return one.counted >= self.needed and not one.differs

    def differing(self, change: Change, copy: Copy, report: CopyState | None) -> Differing | None:
        """Differences in the bytes of a copy that has something to show; a copy that stopped gives none."""
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

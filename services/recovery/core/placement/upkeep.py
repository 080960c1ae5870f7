"""Cost of a failure of each unit, and of its standby: sums over the present rebalance period.

Source: MECHANISMS C5 and C7, docs/decisions/0083. Each copy measures a part of R_u and reports it in some heartbeats.
The time that a standby spends on applying runs is a counter, so it takes two heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.schemas.assignments import Change, Copy
from holdfast.schemas.costs import Costs


@dataclass(slots=True)
class _Sum:
    """Sums of one copy in one period.

    first_ms, last_ms: first and last value of its counter of time spent on applying.
    """

    first_ms: float
    last_ms: float
    recovery_ms: float = 0.0
    samples: int = 0
    leads: bool = False

    def add(self, costs: Costs) -> None:
        self.samples += 1
        self.recovery_ms += costs.recovery_ms
        self.last_ms = costs.apply_ms
        self.leads = costs.leads

    @property
    def mean_ms(self) -> float:
        return self.recovery_ms / self.samples


@dataclass(slots=True)
class Upkeep:
    """Sums by copy; a copy that reports nothing in a period is dropped with the next one."""

    _sums: dict[tuple[str, str, str], _Sum] = field(default_factory=dict)

    def read(self, worker: str, incarnation: str, costs: Iterable[Costs]) -> None:
        """Takes the costs that a heartbeat reports of some copies."""
        for one in costs:
            key = worker, incarnation, one.unit
            if key not in self._sums:
                self._sums[key] = _Sum(one.apply_ms, one.apply_ms)
            self._sums[key].add(one)

    def restart(self) -> None:
        """Begins a period; counters continue from their last values."""
        known = {key: one for key, one in self._sums.items() if one.samples}
        self._sums = {key: _Sum(one.last_ms, one.last_ms) for key, one in known.items()}

    def of(self, change: Change) -> tuple[float, float] | None:
        """Returns R_u averaged over the period and h_u, both in ms; None without reports of the leader and the first
        standby.
        """
        if len(change.copies) < 2 or not change.copies[0].flags.commit:
            return None
        leader, standby = (self._of(change.unit, copy) for copy in change.copies[:2])
        if leader is None or not leader.leads or standby is None:
            return None
        return leader.mean_ms + standby.mean_ms, max(0.0, standby.last_ms - standby.first_ms)

    def _of(self, unit: str, copy: Copy) -> _Sum | None:
        found = self._sums.get((copy.worker, copy.incarnation, unit))
        return found if found is not None and found.samples else None

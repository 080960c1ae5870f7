"""The rates of a job's streams over the last minute, from what the leaders of its units count.

Source: MECHANISMS P1 and P14.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.fidelity.of_job import Rates, edge_rates

WINDOW_US, APART_US = 60_000_000, 5_000_000
LEAST_US = 20_000_000
"""A rate is a mean over at least so long, and over at most the window."""


@dataclass(slots=True)
class Counted:
    """Counts by the leader of one unit. Counts of records continue from leader to leader."""

    _samples: deque[tuple[int, Mapping[str, int], Mapping[str, int]]] = field(default_factory=deque)

    def read(self, costs: Costs, now_us: int) -> None:
        if self._samples and now_us - self._samples[-1][0] < APART_US:
            return
        inputs = {edge: records for edge, (records, _) in costs.inputs.items()}
        self._samples.append((now_us, inputs, dict(costs.outputs)))
        while now_us - self._samples[0][0] > WINDOW_US:
            self._samples.popleft()

    def rates(self, recent: bool = False) -> tuple[dict[str, float], dict[str, float]] | None:
        """Records per second by edge, in and out; None: too little was heard. recent: over the least time only."""
        if not self._samples:
            return None
        now_us, inputs, outputs = self._samples[-1]
        old = [one for one in self._samples if now_us - one[0] >= LEAST_US]
        if not old:
            return None
        since_us, taken, put = old[-1] if recent else old[0]
        span_s = (now_us - since_us) / 1_000_000
        return _rates(taken, inputs, span_s), _rates(put, outputs, span_s)


@dataclass(slots=True)
class Measured:
    """Counts of the units of one job."""

    plan: Plan
    _counted: dict[str, Counted] = field(default_factory=dict)

    def read(self, costs: Costs, now_us: int) -> None:
        if costs.leads:
            self._counted.setdefault(costs.unit, Counted()).read(costs, now_us)

    def rates(self, recent: bool = False) -> Rates | None:
        """None: not every unit's leader has been heard for long enough. recent: over the least time only."""
        inputs: dict[tuple[str, str], float] = {}
        outputs: dict[tuple[str, str], float] = {}
        for unit in (one for one in self.plan.units if not one.host):
            counted = self._counted.get(unit_key(self.plan.job, self.plan.generation, unit.name))
            found = None if counted is None else counted.rates(recent)
            if found is None:
                return None
            inputs |= {(unit.name, edge): rate for edge, rate in found[0].items()}
            outputs |= {(unit.name, edge): rate for edge, rate in found[1].items()}
        return edge_rates(self.plan, inputs, outputs)


def _rates(before: Mapping[str, int], now: Mapping[str, int], span_s: float) -> dict[str, float]:
    return {edge: max(0, records - before.get(edge, 0)) / span_s for edge, records in now.items()}

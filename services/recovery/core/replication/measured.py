"""The rates of a job's streams over the last minute, from the counts that the leaders of its units report.

Source: MECHANISMS P1 and P14.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.costs import Costs
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.fidelity.of_job import Rates, edge_rates

WINDOW_US, APART_US = 60_000_000, 5_000_000
LEAST_US = 20_000_000
"""Least span of the mean that is a rate; the longest is the window."""


class Sample(NamedTuple):
    """Counts of records by edge, in and out, that a leader reported."""

    at_us: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


class Span(NamedTuple):
    """Counts of one unit over time.

    oldest: at the beginning of the window.
    recent: LEAST_US or more before the newest counts.
    newest: the last counts.
    """

    oldest: Sample
    recent: Sample
    newest: Sample

    def rates(self, recent: bool) -> tuple[dict[str, float], dict[str, float]]:
        """Returns records per second by edge, in and out.

        recent: true: over LEAST_US only.
        """
        since, now = self.recent if recent else self.oldest, self.newest
        span_s = (now.at_us - since.at_us) / 1_000_000
        return _rates(since.inputs, now.inputs, span_s), _rates(since.outputs, now.outputs, span_s)


@dataclass(frozen=True, slots=True)
class Spans:
    """Counts of all units of a job at one moment; rates are computed from them beside the turns of recovery."""

    plan: Plan
    of: Mapping[str, Span]

    def rates(self, recent: bool = False) -> Rates:
        """Returns the rates of the job's streams.

        recent: true: over LEAST_US only.
        """
        inputs: dict[tuple[str, str], float] = {}
        outputs: dict[tuple[str, str], float] = {}
        for unit, span in self.of.items():
            taken, put = span.rates(recent)
            inputs.update({(unit, edge): rate for edge, rate in taken.items()})
            outputs.update({(unit, edge): rate for edge, rate in put.items()})
        return edge_rates(self.plan, inputs, outputs)


@dataclass(slots=True)
class Counted:
    """Counts by the leader of one unit; counts of records continue from leader to leader."""

    _samples: deque[Sample] = field(default_factory=deque)

    def read(self, costs: Costs, now_us: int) -> None:
        if self._samples and now_us - self._samples[-1].at_us < APART_US:
            return
        inputs = {edge: records for edge, (records, _) in costs.inputs.items()}
        self._samples.append(Sample(now_us, inputs, dict(costs.outputs)))
        while now_us - self._samples[0].at_us > WINDOW_US:
            self._samples.popleft()

    def span(self) -> Span | None:
        """Returns the counts over time; None if too few were reported."""
        if not self._samples:
            return None
        newest = self._samples[-1]
        old = [one for one in self._samples if newest.at_us - one.at_us >= LEAST_US]
        return Span(old[0], old[-1], newest) if old else None


@dataclass(slots=True)
class Measured:
    """Counts of the units of one job."""

    plan: Plan
    _counted: dict[str, Counted] = field(default_factory=dict)

    def read(self, costs: Costs, now_us: int) -> None:
        if costs.leads:
            self._counted.setdefault(costs.unit, Counted()).read(costs, now_us)

    def spans(self) -> Spans | None:
        """Returns the counts of all units; None if some unit's leader has not reported for long enough."""
        found: dict[str, Span] = {}
        for unit in (one for one in self.plan.units if not one.host):
            counted = self._counted.get(unit_key(self.plan.job, self.plan.generation, unit.name))
            span = None if counted is None else counted.span()
            if span is None:
                return None
            found[unit.name] = span
        return Spans(self.plan, found)

    def rates(self) -> Rates | None:
        """Returns the rates of the job's streams; None if some unit's leader has not reported for long enough."""
        spans = self.spans()
        return None if spans is None else spans.rates()


def _rates(before: Mapping[str, int], now: Mapping[str, int], span_s: float) -> dict[str, float]:
    return {edge: max(0, records - before.get(edge, 0)) / span_s for edge, records in now.items()}

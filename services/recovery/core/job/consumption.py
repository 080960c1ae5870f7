"""CPU usage of the units of a job relative to each other, as the plan of an incident counts it. Pure.

Source: MECHANISMS R6 (C_k, the cost of what an operator lost), docs/decisions/0149. The usage of a unit before it
failed is the best guess of its usage where it is restored. Differences that change from minute to minute must not
reorder a plan, so a consumption is a power of two, and 1.0 is the median of the job.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.schemas.heartbeats import Heartbeat

MEAN_US = 30_000_000
"""Age from which a measurement hardly counts."""
SPAN_US = 500_000
LEAST_CPU = 0.01
"""Share of a CPU below which all units count alike: an empty loop uses that much."""
MOST = 4.0
"""Largest consumption, in medians; the smallest is its inverse, since every unit takes a slot."""


@dataclass(slots=True)
class _Used:
    """CPU usage of the leader of one unit.

    run: worker and incarnation of the leader.
    time_us: time of its last report.
    cpu_ms: the counter in that report.
    cpu: share of one CPU; None after a single report.
    """

    run: tuple[str, str]
    time_us: int
    cpu_ms: float
    cpu: float | None = None

    def read(self, run: tuple[str, str], time_us: int, cpu_ms: float) -> None:
        """Takes a report; the counter begins at 0 with each process."""
        took_us = time_us - self.time_us
        if run == self.run and cpu_ms >= self.cpu_ms:
            if took_us < SPAN_US:
                return
            lately = 1000 * (cpu_ms - self.cpu_ms) / took_us
            before = lately if self.cpu is None else self.cpu
            self.cpu = before + (lately - before) * min(1.0, took_us / MEAN_US)
        self.run = run
        self.time_us = time_us
        self.cpu_ms = cpu_ms


@dataclass(slots=True)
class Consumption:
    """CPU usage by unit, as leaders report it in heartbeats."""

    _used: dict[str, _Used] = field(default_factory=dict)

    def read(self, beat: Heartbeat, now_us: int) -> None:
        run = beat.worker, beat.incarnation
        for costs in beat.costs:
            if not costs.leads:
                continue
            if (known := self._used.get(costs.unit)) is None:
                self._used[costs.unit] = _Used(run, now_us, costs.cpu_ms)
            else:
                known.read(run, now_us, costs.cpu_ms)

    def forget(self, units: Collection[str]) -> None:
        for unit in units:
            self._used.pop(unit, None)

    def of(self, units: Collection[str]) -> dict[str, float]:
        """Returns the consumption of units of one job relative to their median, if it is not 1.

        A unit with too few reports is left out.
        """
        known = {unit: one.cpu for unit in units if (one := self._used.get(unit)) is not None and one.cpu is not None}
        return relative(known)


def relative(cpus: Mapping[str, float]) -> dict[str, float]:
    """Returns the consumption by unit relative to the median, without units at 1.

    cpus: shares of a CPU by unit.
    """
    if not cpus:
        return {}
    floored = {unit: max(cpu, LEAST_CPU) for unit, cpu in cpus.items()}
    median = statistics.median_low(floored.values())
    found = {unit: 2.0 ** round(math.log2(cpu / median)) for unit, cpu in floored.items()}
    return {unit: min(MOST, max(1 / MOST, times)) for unit, times in found.items() if times != 1.0}

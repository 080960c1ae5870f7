"""P0, pure: output fidelity over the budget, of three planners, on the topologies of which golden values are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.model.topologies import chain, join, sixteen
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from holdfast.services.kernel.fidelity.planners.exact import exact
from holdfast.services.kernel.fidelity.planners.greedy import greedy
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Topology

CASES: Mapping[str, Callable[[], Topology]] = {
    "union": lambda: join(correlated=False),
    "join": lambda: join(correlated=True),
    "chain": chain,
    "sixteen sources": sixteen,
}
SHOWN = {"dp": "exact (DP)", "sa": "structure-aware", "greedy": "greedy"}
EXACT = ("union", "join", "chain")
"""Cases of which every plan can be looked at."""
GOLDEN: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("union", "dp"): {3: 0.3, 4: 0.6, 5: 0.8, 6: 0.9, 7: 1},
    ("join", "dp"): {4: 0.1875, 5: 0.375, 6: 0.75, 7: 1},
    ("join", "greedy"): {4: 0},
    ("chain", "dp"): {3: 0.4, 4: 0.7, 5: 0.7, 6: 0.9, 7: 1},
    ("sixteen sources", "sa"): {5: 0.0625, 9: 0.25, 15: 0.4375, 16: 0.5, 20: 0.5625, 24: 0.75, 31: 1},
    ("sixteen sources", "greedy"): {5: 0, 9: 0, 15: 0, 16: 0.0625, 20: 0.3125, 24: 0.5625, 31: 1},
}
"""Fidelity of some budgets, by case and planner: MECHANISMS section 5."""


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        one = CASES[key]()
        values: Values = {}
        for budget in range(len(one.units) + 1):
            values[f"sa_{budget}"] = structure_aware(one, budget).fidelity
            values[f"greedy_{budget}"] = greedy(one, budget).fidelity
        if key in EXACT:
            values |= {f"dp_{budget}": plan.fidelity for budget, plan in enumerate(exact(one, len(one.units)))}
        keep(key, values)


def _plots(data: Data) -> list[Plot]:
    return [
        Plot(case, "units with a replica", "output fidelity", tuple(_lines(data[case], case in EXACT)))
        for case in CASES
    ]


def _lines(values: Values, with_exact: bool) -> list[Series]:
    most = max(int(name.partition("_")[2]) for name in values)
    planners = [name for name in SHOWN if with_exact or name != "dp"]
    return [
        Series(SHOWN[name], tuple((budget, values[f"{name}_{budget}"]) for budget in range(most + 1)))
        for name in planners
    ]


def _checks(data: Data) -> list[Check]:
    return [
        Check(
            f"{case}, {SHOWN[planner]}: the golden values of {', '.join(map(str, golden))}",
            ", ".join(f"{data[case][f'{planner}_{budget}']:g}" for budget in golden),
            all(abs(data[case][f"{planner}_{budget}"] - value) < 1e-6 for budget, value in golden.items()),
        )
        for (case, planner), golden in GOLDEN.items()
    ]


P0 = Figure(
    tag="P0",
    title="output fidelity over the budget, on topologies with golden values",
    paper="Su and Zhou 2016, by its definitions; the values are worked out by hand",
    expected="The values of MECHANISMS section 5. SA lies on DP; greedy takes units that make no tree.",
    setup="Two sources that a union, or a join, reads, merged by one sink; a chain of four, two and one tasks; sixteen "
    "sources that merge 16-8-4-2-1. Every budget from none to all units.",
    ground=Ground.MODEL,
    keys=tuple(CASES),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=2,
)

"""P13 and P14, pure: output fidelity of the plans of three planners on random topologies, by the share of replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from bench.model.topologies import FULL, MIXED, STRUCTURED, Setting, random_topology
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least
from holdfast.services.kernel.fidelity.planners.exact import exact
from holdfast.services.kernel.fidelity.planners.greedy import greedy
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Topology
from holdfast.services.kernel.fidelity.trees import TooMany

COUNT = 100
"""Topologies of each setting."""

# -- P13 --------------------------------------------------------------------------------------------------------------

SHARES = (0.2, 0.3, 0.4, 0.5)
SMALL = Setting((3, 6), (1, 6), 0.5, MIXED, 0.5, most=30)
PAIRS = 200_000
"""Ways to grow a plan that the exact planner tries; topologies that have more are passed over."""


def _small() -> Iterator[tuple[Topology, list[float]]]:
    """Topologies small enough for an exact search of the best plans, with the fidelity of each budget."""
    seed = found = 0
    while found < COUNT:
        one, seed = random_topology(seed, SMALL), seed + 1
        try:
            plans = exact(one, round(max(SHARES) * len(one.units)), PAIRS)
        except TooMany:
            continue
        found += 1
        yield one, [plan.fidelity for plan in plans]


def _measure_three(keys: Sequence[str], keep: Keep) -> None:
    values: dict[str, list[tuple[float, float, float]]] = {key: [] for key in keys}
    for one, best in _small():
        for key in keys:
            budget = round(float(key) * len(one.units))
            values[key].append((best[budget], structure_aware(one, budget).fidelity, greedy(one, budget).fidelity))
    for key, some in values.items():
        dp, sa, single = (fmean(column) for column in zip(*some, strict=True))
        ratios = [own / best for best, own, _ in some if best]
        keep(key, {"dp": dp, "sa": sa, "greedy": single, "sa_over_dp": fmean(ratios), "least": min(ratios)})


def _plots_three(data: Data) -> list[Plot]:
    lines = tuple(_line(data, name) for name in ("dp", "sa", "greedy"))
    return [Plot("topologies of up to 30 tasks", "share of units with a replica", "mean output fidelity", lines)]


def _line(data: Data, name: str) -> Series:
    shown = {"dp": "exact (DP)", "sa": "structure-aware", "greedy": "greedy"}[name]
    return Series(shown, tuple((share, data[f"{share:g}"][name]) for share in SHARES))


def _checks_three(data: Data) -> list[Check]:
    ratio = fmean(data[f"{share:g}"]["sa_over_dp"] for share in SHARES)
    first, least = data[f"{SHARES[0]:g}"], min(data[f"{share:g}"]["least"] for share in SHARES)
    return [
        at_least("mean of structure-aware over exact", ratio, 0.95, shape=True),
        at_least("the least of it, of one topology and share", least, 0.25),
        at_least(
            "structure-aware over greedy at the smallest share", _over(first["sa"], first["greedy"]), 1.0, shape=True
        ),
        at_least("the same ratio", _over(first["sa"], first["greedy"]), 2.0),
    ]


def _over(one: float, other: float) -> float:
    return one / max(other, 1e-3)


P13 = Figure(
    tag="P13",
    title="plans of the exact, the structure-aware and the greedy planner",
    paper="Su and Zhou 2016, figure 13",
    expected="SA is close to DP, which is optimal; greedy is the worst, most of all with few replicas.",
    setup=f"{COUNT} random topologies of 3 to 6 operators with 1 to 6 tasks each, at most 30 together, half of the "
    f"operators with several inputs joins, a Zipf exponent of 0.5, full and other partitionings mixed; those are "
    f"passed over whose best plans are too many to look at. The mean output fidelity of the plans, by the share of "
    f"replicas.",
    ground=Ground.MODEL,
    keys=tuple(f"{share:g}" for share in SHARES),
    measure=_measure_three,
    plots=_plots_three,
    checks=_checks_three,
    seconds=60,
    differs="The paper has two queries, and the accuracy of their results beside the fidelity; here the topologies are "
    "random, and no results are computed.",
)

# -- P14 --------------------------------------------------------------------------------------------------------------

RATIOS = (0.2, 0.5)
SETTINGS: dict[str, Setting] = {
    "uniform": Setting(skew=0.0),
    "Zipf 0.5": Setting(skew=0.5),
    "degree 1-5": Setting(degree=(1, 5)),
    "degree 5-10": Setting(degree=(5, 10)),
    "structured": Setting(partitioning=STRUCTURED),
    "full": Setting(partitioning=FULL),
    "no joins": Setting(joins=0.0),
    "all joins": Setting(joins=1.0),
}


def _mean(setting: Setting, share: float, planner: Callable[[Topology, int], float]) -> float:
    some = (random_topology(seed, setting) for seed in range(COUNT))
    return fmean(planner(one, int(share * len(one.units))) for one in some)


def _measure_settings(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        values: Values = {}
        for share in RATIOS:
            values[f"sa_{share:g}"] = _mean(
                SETTINGS[key], share, lambda one, budget: structure_aware(one, budget).fidelity
            )
            values[f"greedy_{share:g}"] = _mean(SETTINGS[key], share, lambda one, budget: greedy(one, budget).fidelity)
        keep(key, values)


def _plots_settings(data: Data) -> list[Plot]:
    def bars(share: float) -> Plot:
        lines = tuple(
            Series(shown, tuple((float(at), data[key][f"{name}_{share:g}"]) for at, key in enumerate(SETTINGS)))
            for name, shown in (("sa", "structure-aware"), ("greedy", "greedy"))
        )
        return Plot(f"replicas for {share:.0%} of the units", "", "mean output fidelity", lines, bars=tuple(SETTINGS))

    return [bars(share) for share in RATIOS]


def _checks_settings(data: Data) -> list[Check]:
    def ratio(key: str, share: float) -> float:
        return _over(data[key][f"sa_{share:g}"], data[key][f"greedy_{share:g}"])

    least = min(ratio(key, share) for key in SETTINGS for share in RATIOS)
    gaps = [fmean(ratio(key, share) for key in SETTINGS) for share in RATIOS]
    return [
        at_least("structure-aware over greedy in every setting, the least", least, 1.0, shape=True),
        at_least("that ratio at 20 % over the one at 50 %", gaps[0] / gaps[1], 1.0, shape=True),
        at_least("the largest ratio at 20 %", max(ratio(key, RATIOS[0]) for key in SETTINGS), 5.0),
    ]


P14 = Figure(
    tag="P14",
    title="structure-aware and greedy plans on random topologies of several kinds",
    paper="Su and Zhou 2016, figure 14",
    expected="SA is above greedy in every setting, most of all with few replicas (up to ten times).",
    setup=f"{COUNT} random topologies a setting, of 5 to 10 operators; unless a setting says otherwise with 1 to 10 "
    f"tasks each, a Zipf exponent of 0.1, full and other partitionings mixed, half of the operators with several "
    f"inputs joins. The mean output fidelity of the plans with replicas for 20 % and for 50 % of the units.",
    ground=Ground.MODEL,
    keys=tuple(SETTINGS),
    measure=_measure_settings,
    plots=_plots_settings,
    checks=_checks_settings,
    seconds=180,
)

"""Processor time of the planner of replicas, on topologies of a thousand and of ten thousand units.

Source: MECHANISMS P8, docs/decisions/0145. In one thread, without a cluster.
"""

from __future__ import annotations

from time import process_time

from bench.model.topologies import FULL, MIXED, STRUCTURED, Setting, random_topology
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import QUICK, Scale
from holdfast.services.kernel.fidelity.planners.structured import structure_aware

KINDS = {"mixed": (MIXED, 0.5), "structured": (STRUCTURED, 0.0), "full": (FULL, 1.0)}
"""Partitionings of a topology, and the share of its operators with several inputs that are joins."""
SHARES = (0.2, 0.5)
"""Budgets."""


def planning(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """The longest of the budgets, by kind of topology and number of units; --quick: of a thousand units only."""
    figures: Figures = {}
    for about in (1_000,) if scale.rounds == QUICK.rounds else (1_000, 10_000):
        for kind, (partitioning, joins) in KINDS.items():
            took_s, units = _longest_s(about, partitioning, joins)
            figures[f"{kind}_{about}_s"] = round(took_s, 2)
            cluster.say(f"  {kind}, {units} units: {took_s:.2f} s")
        figures[f"longest_{about}_s"] = max(figures[f"{kind}_{about}_s"] for kind in KINDS)
    return figures


def _longest_s(about: int, partitioning: str, joins: float) -> tuple[float, int]:
    """Seconds of a processor, and the number of units, of 10 operators for a thousand units and 20 for ten thousand.

    Of ten thousand units the largest budget is planned, which takes longest.
    """
    operators = 10 if about <= 1_000 else 20
    tasks = about // operators
    setting = Setting((operators, operators), (tasks * 6 // 10, tasks * 14 // 10), 0.5, partitioning, joins)
    one = random_topology(1, setting)
    longest_s = 0.0
    for share in SHARES if about <= 1_000 else SHARES[-1:]:
        began_s = process_time()
        structure_aware(one, int(share * len(one.units)))
        longest_s = max(longest_s, process_time() - began_s)
    return longest_s, len(one.units)

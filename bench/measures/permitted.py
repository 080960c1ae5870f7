"""Cost of `results: tentative` while nothing is out: a running count with it, over the same with final results.

By turns in one cluster, so that both meet the same machine. Source: MECHANISMS P12, docs/decisions/0169.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from string import Template

from bench.measures.latency import latency
from bench.measures.throughput import Throughput
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale

KEYS = 1_000
FINAL, TENTATIVE = "final", "tentative"
COMPARED = ("records_per_s", "cpu_s_per_million", "p50_ms", "p99_ms")
Kinds = Mapping[str, Template]
COUNTS: Kinds = {FINAL: jobs.APART, TENTATIVE: jobs.tentative(jobs.APART)}
CHAINS: Kinds = {FINAL: jobs.WHOLE, TENTATIVE: jobs.tentative(jobs.WHOLE)}


def permitted(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """The median of each figure, and of its ratios by pairs."""
    found: dict[str, list[Figures]] = {FINAL: [], TENTATIVE: []}
    for number in range(scale.rounds):
        for kind in (FINAL, TENTATIVE) if number % 2 else (TENTATIVE, FINAL):
            one = f"{name}-{kind}{number}"
            told = Throughput(COUNTS[kind], KEYS)(cluster, one, scale)
            told = told | latency(cluster, f"{one}-chain", scale, CHAINS[kind])
            found[kind].append(told)
            cluster.say(f"  {kind}: {', '.join(f'{figure} {told[figure]:,}' for figure in COMPARED)}")
    return over_final(found)


def over_final(found: Mapping[str, Sequence[Figures]]) -> Figures:
    figures: Figures = {}
    for name in COMPARED:
        pairs = list(zip(found[TENTATIVE], found[FINAL], strict=True))
        figures[f"{name}_over_final"] = round(statistics.median(one[name] / other[name] for one, other in pairs), 3)
        figures |= {f"{kind}_{name}": statistics.median(one[name] for one in found[kind]) for kind in found}
    return figures

"""Whether choosing schemes slows the data: count-1k under `adaptive`, and under the scheme that it has meanwhile."""

from __future__ import annotations

import statistics

from bench import jobs
from bench.cluster import BenchCluster
from bench.figures import Figures
from bench.scale import Scale
from bench.throughput import Throughput

FIXED, ADAPTIVE = "active-replication", "adaptive"
"""An adaptive unit begins with the first, and keeps it for its cool-down of an hour: only the choosing differs."""


def choosing(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """By turns, each first as often as last; medians."""
    speeds: dict[str, list[float]] = {FIXED: [], ADAPTIVE: []}
    for number in range(2 * scale.rounds):
        for scheme in (FIXED, ADAPTIVE) if number % 2 == 0 else (ADAPTIVE, FIXED):
            run = Throughput(jobs.under(jobs.COUNT, scheme), keys=1_000)
            found = run(cluster, f"{name}-{number}-{scheme}", scale)
            cluster.say(f"  {scheme}: {found}")
            speeds[scheme].append(found["records_per_s"])
    fixed, adaptive = (statistics.median(speeds[scheme]) for scheme in (FIXED, ADAPTIVE))
    return {
        "fixed_records_per_s": fixed,
        "adaptive_records_per_s": adaptive,
        "adaptive_over_fixed": round(adaptive / fixed, 3),
    }

"""Throughput of a job beside that of the running count by 1,000 keys, one after the other in the same cluster.

A number alone says as much about the machine as about the job; the ratio does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.measures.throughput import Throughput
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale

COUNT = Throughput(jobs.COUNT, keys=1_000)


@dataclass(frozen=True, slots=True)
class BesideCount:
    """The figures of a job, and over_count: its records a second by those of the count."""

    throughput: Throughput

    def __call__(self, cluster: BenchCluster, name: str, scale: Scale) -> Figures:
        count = COUNT(cluster, f"{name}-count", scale)
        found = self.throughput(cluster, name, scale)
        return {
            **found,
            "count_records_per_s": count["records_per_s"],
            "over_count": round(found["records_per_s"] / count["records_per_s"], 3),
        }

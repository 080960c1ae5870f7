"""Nexmark's queries: through their operators alone, and if asked for, on a cluster beside Flink SQL."""

from __future__ import annotations

from bench.measures.nexmark.events import Events
from bench.measures.nexmark.flink import beside_flink
from bench.measures.nexmark.measure import PER_S, SEED, nexmark
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale


def nexmark_queries(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Figures of Nexmark's queries. Raises MeasureFailed."""
    figures = nexmark(cluster, name, scale)
    if not scale.beside:
        cluster.say("with --peers each query runs on a cluster, too, and beside Flink SQL")
        return figures
    return figures | beside_flink(cluster, Events(SEED, scale.records, PER_S))

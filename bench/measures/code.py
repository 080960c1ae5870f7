"""Cost of requests by users' code: the time of day, and answers of others, compared with code without requests."""

from __future__ import annotations

from bench.measures.throughput import Throughput
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.services.client.current import await_format

SHAPES = {"clock": jobs.CLOCK, "ask": jobs.ASK}
KEYS = 1_000


def code(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Measures the shapes in turn, in one cluster whose worker may load code of this package."""
    cluster.start(1, {"HOLDFAST_PLUGINS": "bench"})
    await_format(cluster.door())
    found = {
        shape: Throughput(job, KEYS)(cluster, f"{name}-{shape}", scale)
        for shape, job in {"plain": jobs.PLAIN, **SHAPES}.items()
    }
    figures: Figures = {f"{shape}_records_per_s": one["records_per_s"] for shape, one in found.items()}
    plain = found["plain"]["cpu_s_per_million"]
    return figures | {
        f"{shape}_cpu_over_plain": round(found[shape]["cpu_s_per_million"] / plain, 2) for shape in SHAPES
    }

"""Cost of a fork to the stable batches of a unit: keys that change are copied while the fork is open.

Two units process equal batches in turns, and one of them always has a fork; a new fork comes every few batches, since a
fork copies each key only once. In one thread, without a cluster. Source: MECHANISMS P12, docs/decisions/0169.
"""

from __future__ import annotations

import time

from bench.measures.counting import Batches
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.scale import Scale
from holdfast.services.kernel.state.forked import ForkedStore

SHAPES = {"20_keys_20": (20, 20), "1000_keys_10000": (1_000, 10_000), "10000_keys_10000": (10_000, 10_000)}
"""Keys, and records of a batch."""
ROUNDS, LASTS = 12, 10
"""Forks, and batches of each: a unit that catches up does far more of them."""
WARM_UP = 5


def forking(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Processor time of a batch with a fork and without, and by how much more the batches of all forks take."""
    figures: Figures = {}
    for shape, (keys, count) in SHAPES.items():
        forked, plain = Batches(count, keys), Batches(count, keys)
        for _ in range(WARM_UP):
            _ms(forked)
            _ms(plain)
        took = {"forked": 0.0, "plain": 0.0}
        for number in range(ROUNDS):
            fork = ForkedStore(forked.store)
            for batch in range(LASTS):
                for kind in ("forked", "plain") if (number + batch) % 2 else ("plain", "forked"):
                    took[kind] += _ms(forked if kind == "forked" else plain)
            fork.end()
        figures |= {f"{shape}_{kind}_ms": round(ms / ROUNDS / LASTS, 3) for kind, ms in took.items()}
        figures[f"{shape}_added_percent"] = round((took["forked"] / took["plain"] - 1) * 100, 1)
    return figures


def _ms(batches: Batches) -> float:
    began_ns = time.thread_time_ns()
    batches.next()
    return (time.thread_time_ns() - began_ns) / 1_000_000

"""The topologies of MECHANISMS section 5, of which golden values are known, and every plan of a small one."""

from __future__ import annotations

import numpy as np

from bench.model.topologies import substreams
from services.kernel.fidelity.loss import fidelity
from services.kernel.fidelity.topology import Feed, Node, Topology, topology


def units(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}-{task}" for task in range(count))


def join(correlated: bool) -> Topology:
    """Sources S1 (6, 2) and S2 (1, 1), both even full edges into J(2), merge into K(1)."""
    return topology(
        [
            Node("s1", units("s1", 2), (6, 2)),
            Node("s2", units("s2", 2), (1, 1)),
            Node("j", units("j", 2), (5, 5), (Feed("s1", rates=(6, 2)), Feed("s2", rates=(1, 1))), correlated),
            Node("k", units("k", 1), (10,), (Feed("j", substreams((5, 5), 1)),), query="q"),
        ]
    )


def chain() -> Topology:
    """S(4, 3, 2, 1) merged by two tasks, and those by one."""
    return topology(
        [
            Node("s", units("s", 4), (4, 3, 2, 1)),
            Node("a", units("a", 2), (7, 3), (Feed("s", substreams((4, 3, 2, 1), 2)),)),
            Node("k", units("k", 1), (10,), (Feed("a", substreams((7, 3), 1)),), query="q"),
        ]
    )


def sixteen() -> Topology:
    """Sixteen sources of one rate, merging 16-8-4-2-1."""
    nodes, width = [Node("n16", units("n16", 16), (1.0,) * 16)], 16
    while width > 1:
        feed, width = Feed(f"n{width}", substreams((16 / width,) * width, width // 2)), width // 2
        rates, query = (16 / width,) * width, "q" if width == 1 else ""
        nodes.append(Node(f"n{width}", units(f"n{width}", width), rates, (feed,), query=query))
    return topology(nodes)


def without(one: Topology, *failed: str, correlated: bool = True) -> float:
    """OF, or IC, when these units have failed."""
    return float(fidelity(one, one.alive(set(one.units) - set(failed)), correlated))


def every_plan(one: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The OF of each set of units, and how many units it has."""
    count = len(one.units)
    alive = (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(np.bool_)
    return fidelity(one, alive), alive.sum(axis=1)

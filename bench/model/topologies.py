"""Random topologies, as the generator of Su and Zhou 2016 makes them: operators, degrees, skew, partitionings, joins.
Further topologies have known golden values.

Source: MECHANISMS P14 of section 6 (figure 14 of the paper). The result depends only on the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from holdfast.services.kernel.fidelity.topology import Feed, Node, Substream, Topology, topology

FULL, STRUCTURED, MIXED = "full", "structured", "mixed"


@dataclass(frozen=True, slots=True)
class Setting:
    """Common settings of a set of topologies.

    operators, degree: least and most operators, and tasks of one.
    skew: exponent of the Zipf distribution of work between the tasks of an operator, 0: all alike.
    partitioning: full, structured (one-to-one, merge and split), or mixed.
    joins: part of the operators with several inputs that are joins.
    most: tasks of all operators together.
    """

    operators: tuple[int, int] = (5, 10)
    degree: tuple[int, int] = (1, 10)
    skew: float = 0.1
    partitioning: str = MIXED
    joins: float = 0.5
    most: int = 10_000


def random_topology(seed: int, setting: Setting) -> Topology:
    random = Random(seed)
    while True:
        inputs = _graph(random, random.randint(*setting.operators))
        degrees = [random.randint(*setting.degree) for _ in inputs]
        if sum(degrees) <= setting.most:
            return _made(random, setting, inputs, degrees)


def _graph(random: Random, operators: int) -> list[list[int]]:
    """Inputs of each operator; each but the last is read by a later one, and reads at most three."""
    inputs: list[list[int]] = [[] for _ in range(operators)]
    for one in range(operators - 2, -1, -1):
        free = [later for later in range(one + 1, operators) if len(inputs[later]) < 3]
        inputs[random.choice(free)].append(one)
    return [sorted(some) for some in inputs]


def _made(random: Random, setting: Setting, inputs: list[list[int]], degrees: list[int]) -> Topology:
    nodes: list[Node] = []
    for number, (reads, degree) in enumerate(zip(inputs, degrees, strict=True)):
        parts = _zipf(random, degree, setting.skew)
        feeds, taken = [], [0.0] * degree
        weights: list[tuple[float, ...]] = []
        for producer in reads:
            before = nodes[producer]
            if _full(random, setting):
                feeds.append(Feed(before.name, rates=before.rates))
                mine = tuple(sum(before.rates) * part for part in parts)
            else:
                feeds.append(Feed(before.name, substreams(before.rates, degree)))
                mine = tuple(sum(one.rate for one in feeds[-1].substreams if one.reader == at) for at in range(degree))
            weights.append(mine)
            taken = [rate + more for rate, more in zip(taken, mine, strict=True)]
        rates = tuple(taken) if reads else tuple(100.0 * degree * part for part in parts)
        name, join = f"o{number}", len(reads) > 1 and random.random() < setting.joins
        query = "result" if number == len(inputs) - 1 else ""
        units = tuple(f"{name}-{task}" for task in range(degree))
        nodes.append(Node(name, units, rates, tuple(feeds), join, query, tuple(weights)))
    return topology(nodes)


def _full(random: Random, setting: Setting) -> bool:
    return setting.partitioning == FULL or (setting.partitioning == MIXED and random.random() < 0.5)


def substreams(rates: tuple[float, ...], readers: int) -> tuple[Substream, ...]:
    """Substreams, one-to-one, merge or split, by the numbers of tasks: neighbours share a task."""
    writers = len(rates)
    if writers >= readers:
        return tuple(Substream(one, one * readers // writers, rate) for one, rate in enumerate(rates))
    of = [reader * writers // readers for reader in range(readers)]
    return tuple(Substream(one, reader, rates[one] / of.count(one)) for reader, one in enumerate(of))


def _zipf(random: Random, degree: int, skew: float) -> list[float]:
    ranks = [1 / (rank + 1) ** skew for rank in range(degree)]
    random.shuffle(ranks)
    return [rank / sum(ranks) for rank in ranks]


# -- with golden values: MECHANISMS section 5 --------------------------------------------------------------------------


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
    """S(4, 3, 2, 1) merged by two tasks, and their output by one."""
    return topology(
        [
            Node("s", units("s", 4), (4, 3, 2, 1)),
            Node("a", units("a", 2), (7, 3), (Feed("s", substreams((4, 3, 2, 1), 2)),)),
            Node("k", units("k", 1), (10,), (Feed("a", substreams((7, 3), 1)),), query="q"),
        ]
    )


def sixteen() -> Topology:
    """Sixteen sources of equal rate, merged 16-8-4-2-1."""
    nodes, width = [Node("n16", units("n16", 16), (1.0,) * 16)], 16
    while width > 1:
        feed, width = Feed(f"n{width}", substreams((16 / width,) * width, width // 2)), width // 2
        rates, query = (16 / width,) * width, "q" if width == 1 else ""
        nodes.append(Node(f"n{width}", units(f"n{width}", width), rates, (feed,), query=query))
    return topology(nodes)

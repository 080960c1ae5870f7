"""Random topologies, as the generator of Su and Zhou 2016 makes them: operators, degrees, skew, partitionings, joins.

Source: MECHANISMS P14 of section 6 (figure 14 of the paper). Nothing but the seed decides what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from services.kernel.fidelity.topology import Feed, Node, Substream, Topology, topology

FULL, STRUCTURED, MIXED = "full", "structured", "mixed"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a set of topologies has in common.

    operators, degree: least and most operators, and tasks of one. skew: exponent of the Zipf distribution of work
    between the tasks of an operator, 0: all alike. partitioning: full, structured (one-to-one, merge and split), or
    mixed. joins: part of the operators with several inputs that are joins. most: tasks of all operators together.
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
    """By operator, those that it reads; each but the last is read by a later one, and reads at most three."""
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
    """One-to-one, merge or split, by the number of tasks: neighbours go to, or come from, the same task."""
    writers = len(rates)
    if writers >= readers:
        return tuple(Substream(one, one * readers // writers, rate) for one, rate in enumerate(rates))
    of = [reader * writers // readers for reader in range(readers)]
    return tuple(Substream(one, reader, rates[one] / of.count(one)) for reader, one in enumerate(of))


def _zipf(random: Random, degree: int, skew: float) -> list[float]:
    ranks = [1 / (rank + 1) ** skew for rank in range(degree)]
    random.shuffle(ranks)
    return [rank / sum(ranks) for rank in ranks]

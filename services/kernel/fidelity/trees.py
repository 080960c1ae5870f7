"""MC-trees: the least sets of units that feed one sink task.

A tree of a task with correlated inputs has one writer of each input stream, a tree of a task with independent inputs a
single writer, and so on up to the sources. Trees are sets: two trees with the same units are equal.
Source: MECHANISMS P5.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, product

from holdfast.services.kernel.fidelity.topology import Tasks, Topology

MOST = 5_000
Trees = frozenset[frozenset[int]]


class TooMany(ValueError):
    """An error for a topology with too many trees or plans to enumerate."""


def mc_trees(topology: Topology, most: int = MOST) -> Trees:
    """All MC-trees, as sets of unit numbers.

    Raises:
        TooMany: a task has more than `most`.
    """
    found: list[list[Trees]] = []
    for node in topology.nodes:
        found.append([_of_task(node, task, found, most) for task in range(len(node.units))])
    return _least(tree for sink in topology.sinks for trees in found[sink] for tree in trees)


def _of_task(node: Tasks, task: int, above: list[list[Trees]], most: int) -> Trees:
    own = frozenset({int(node.units[task])})
    if not node.streams:
        return frozenset({own})
    by_stream = [
        {
            tree
            for substream in range(*stream.substreams_of(task).indices(len(stream.writers)))
            for tree in above[stream.producer][int(stream.writers[substream])]
        }
        for stream in node.streams
    ]
    if not node.correlated:
        found = {tree | own for trees in by_stream for tree in trees}
    else:
        count = 1
        for trees in by_stream:
            count *= len(trees)
        if count > most:
            raise TooMany(f"a task of {node.name} has {count} trees, more than {most}")
        found = {own.union(*some) for some in product(*by_stream)}
    if len(found) > most:
        raise TooMany(f"a task of {node.name} has {len(found)} trees, more than {most}")
    return _least(found) if node.correlated else frozenset(found)


def _least(trees: Iterable[frozenset[int]]) -> Trees:
    """The trees that contain no other tree: several tasks of one unit may make a tree larger than needed."""
    kept: list[frozenset[int]] = []
    for _, alike in groupby(sorted(set(trees), key=lambda one: (len(one), sorted(one))), key=len):
        smaller = list(kept)
        kept += [tree for tree in alike if not any(one < tree for one in smaller)]
    return frozenset(kept)

"""Sub-topologies, blocks and branches: the parts into which the paper divides a topology before planning.

Operators connected by any partitioning except full form a structured sub-topology; single operators connected by full
partitioning form a full one. A structured one is divided into blocks, so that each has few MC-trees: a branch is an
MC-tree of a block. Source: MECHANISMS P8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from holdfast.services.kernel.fidelity.topology import Stream, Topology
from holdfast.services.kernel.fidelity.trees import MOST, TooMany

Branch = frozenset[int]
"""Unit numbers."""


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Some nodes.

    nodes: the numbers of the nodes.
    full: True if the next node reads each node in full; False if the sub-topology is structured.
    """

    nodes: tuple[int, ...]
    full: bool


def sub_topologies(topology: Topology) -> tuple[SubTopology, ...]:
    """The sub-topologies; every node is in exactly one."""
    clusters = _components(
        range(len(topology.nodes)), _edges(topology, lambda stream, reader: not _full(topology, stream, reader))
    )
    structured = [SubTopology(cluster, False) for cluster in clusters if len(cluster) > 1]
    single = [cluster[0] for cluster in clusters if len(cluster) == 1]
    return (*structured, *(SubTopology(one, True) for one in _components(single, _edges(topology, lambda *_: True))))


def blocks(topology: Topology, sub: SubTopology) -> tuple[tuple[int, ...], ...]:
    """The nodes of each block of a structured sub-topology."""

    def stays(stream: Stream, reader: int) -> bool:
        node = topology.nodes[reader]
        ends = _splits(topology, reader) or (node.correlated and len(node.streams) > 1)
        return not _full(topology, stream, reader) and not (_merges(topology, stream, reader) and ends)

    return _components(sub.nodes, _edges(topology, stays))


def branches(topology: Topology, block: Sequence[int]) -> tuple[Branch, ...]:
    """The MC-trees of a block alone; input from other blocks counts as present.

    Raises:
        TooMany: there are more than `MOST`.
    """
    inside, trees = set(block), dict[int, list[set[Branch]]]()
    for place in sorted(block):
        node = topology.nodes[place]
        trees[place] = []
        for task, unit in enumerate(node.units):
            above = [
                {
                    tree
                    for one in stream.writers[stream.substreams_of(task)]
                    for tree in trees[stream.producer][int(one)]
                }
                for stream in node.streams
                if stream.producer in inside and stream.producer in trees
            ]
            own = frozenset({int(unit)})
            if not above:
                found = {own}
            elif node.correlated:
                found = {own.union(*some) for some in product(*above)}
            else:
                found = {tree | own for some in above for tree in some}
            if len(found) > MOST:
                raise TooMany(f"a block has more than {MOST} branches")
            trees[place].append(found)
    read = {stream.producer for place in block for stream in topology.nodes[place].streams}
    ends = [place for place in block if place not in read]
    all_of_them = {tree for place in ends for some in trees[place] for tree in some}
    return tuple(sorted(all_of_them, key=lambda tree: (len(tree), sorted(tree))))


def linked(topology: Topology) -> dict[int, frozenset[int]]:
    """The units that send to each unit or read from it, by unit."""
    found: dict[int, set[int]] = {unit: set() for unit in range(len(topology.units))}
    for node in topology.nodes:
        for stream in node.streams:
            producer = topology.nodes[stream.producer]
            for task, unit in enumerate(node.units):
                for writer in stream.writers[stream.substreams_of(task)]:
                    one, other = int(unit), int(producer.units[int(writer)])
                    found[one].add(other)
                    found[other].add(one)
    return {unit: frozenset(some - {unit}) for unit, some in found.items()}


def _full(topology: Topology, stream: Stream, reader: int) -> bool:
    """True if every task reads several writers, and several tasks read every writer."""
    return stream.common and len(stream.writers) > 1 and len(topology.nodes[reader].units) > 1


def _merges(topology: Topology, stream: Stream, reader: int) -> bool:
    readers = len(topology.nodes[reader].units)
    return len(stream.writers) > 1 if stream.common else len(stream.writers) > readers


def _splits(topology: Topology, place: int) -> bool:
    for reader, node in enumerate(topology.nodes):
        for stream in node.streams:
            if stream.producer != place:
                continue
            if stream.common:
                if len(topology.nodes[reader].units) > 1:
                    return True
            elif int(np.bincount(stream.writers).max()) > 1:
                return True
    return False


def _edges(topology: Topology, keep: Callable[[Stream, int], bool]) -> list[tuple[int, int]]:
    return [
        (stream.producer, reader)
        for reader, node in enumerate(topology.nodes)
        for stream in node.streams
        if keep(stream, reader)
    ]


def _components(nodes: Iterable[int], edges: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    of = {one: one for one in nodes}

    def root(one: int) -> int:
        while of[one] != one:
            one = of[one]
        return one

    for one, other in edges:
        if one in of and other in of:
            of[root(one)] = root(other)
    found: dict[int, list[int]] = {}
    for one in of:
        found.setdefault(root(one), []).append(one)
    return tuple(tuple(sorted(some)) for some in sorted(found.values()))

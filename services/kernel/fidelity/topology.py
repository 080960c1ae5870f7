"""The tasks of a job, the substreams between them, and the part of each task's input over each of them.

Tasks are in arrays by operator, so that a computation for all tasks of an operator is one pass of numpy. Every task
belongs to a unit; a unit fails, and is replicated, as a whole. Source: MECHANISMS P1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Parts = NDArray[np.float64]
Alive = NDArray[np.bool_]
"""An array by unit number, True if the unit is present. A first axis holds several sets of units."""


@dataclass(frozen=True, slots=True)
class Substream:
    """A stream from one task of the producer to one of the reader.

    writer: the number of the producer's task.
    reader: the number of the reader's task.
    rate: records per second without failure.
    """

    writer: int
    reader: int
    rate: float


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream that an operator reads from another one.

    producer: the name of the other operator.
    substreams: the streams between tasks; empty if every task reads every writer. Then each writer's output reaches
    every reader in the same ratio, given by the reader's rates. This case has no substreams because a thousand readers
    of a thousand writers would have a million.
    rates: by writer, records per second, for a feed without substreams.
    local: True if writer i and reader i belong to one unit.
    """

    producer: str
    substreams: tuple[Substream, ...] = ()
    rates: tuple[float, ...] = ()
    local: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """An operator.

    name: the name of the operator.
    units: the unit of each task.
    rates: the output of each task, in records per second.
    feeds: the streams that it reads.
    correlated: True if a missing part of one input makes the rows of the others useless, as in a join.
    query: the query whose sink it is; empty: it is not a sink.
    weights: the input of each task over each feed without substreams.
    """

    name: str
    units: tuple[str, ...]
    rates: tuple[float, ...]
    feeds: tuple[Feed, ...] = ()
    correlated: bool = False
    query: str = ""
    weights: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An input stream of all tasks of an operator.

    producer: the number of the producing node.
    writers: the writer of each substream.
    starts: by reader, the position of its first substream in `writers` and `shares`; a common stream has one entry for
    all readers.
    shares: the share of each substream in its reader's stream; they add up to 1.
    weight: by reader, the stream's part of the reader's whole input.
    common: True if every reader reads every writer in the same ratio.
    local: True if writer i and reader i belong to one unit.
    """

    producer: int
    writers: Numbers
    starts: Numbers
    shares: Parts
    weight: Parts
    common: bool
    local: bool

    def mean(self, values: Parts) -> Parts:
        """By reader, the weighted mean of a value of the writers (last axis); one value for all readers of a common
        stream.
        """
        if self.common:
            return np.asarray(values @ self.shares)[..., None]
        return np.asarray(np.add.reduceat(values[..., self.writers] * self.shares, self.starts, axis=-1))

    def substreams_of(self, reader: int) -> slice:
        """The positions of the reader's substreams in `writers` and `shares`."""
        if self.common:
            return slice(0, len(self.writers))
        end = self.starts[reader + 1] if reader + 1 < len(self.starts) else len(self.writers)
        return slice(int(self.starts[reader]), int(end))


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one operator.

    name: the name of the operator.
    units: the unit number of each task.
    streams: its input streams.
    correlated: see Node.
    query: see Node.
    rates: the output of each task, in records per second.
    below: the nodes that depend on it.
    """

    name: str
    units: Numbers
    streams: tuple[Stream, ...]
    correlated: bool
    query: str
    rates: Parts
    below: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes in topological order.

    units: the names of the units, in the order of the nodes.
    nodes: the nodes.
    sinks: the numbers of the sink nodes.
    share: by sink node, the part of each task in the output of all sinks.
    numbers: the number of each unit, by name.
    nodes_of: by unit, the nodes with a task of it.
    fixed: units that are present in every plan.
    barred: units that no plan may contain.
    """

    units: tuple[str, ...]
    nodes: tuple[Tasks, ...]
    sinks: tuple[int, ...]
    share: Mapping[int, Parts]
    numbers: Mapping[str, int] = field(repr=False)
    nodes_of: tuple[tuple[int, ...], ...] = field(repr=False)
    fixed: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()

    @property
    def open(self) -> tuple[int, ...]:
        """The units that a plan may contain or omit."""
        return tuple(one for one in range(len(self.units)) if one not in self.fixed and one not in self.barred)

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.nodes[sink].query for sink in self.sinks))

    def alive(self, units: Sequence[str] | frozenset[str] | set[str]) -> Alive:
        """An array by unit number, True for exactly these units."""
        found = np.zeros(len(self.units), dtype=np.bool_)
        found[[self.numbers[name] for name in units]] = True
        return found


def topology(nodes: Sequence[Node], fixed: Collection[str] = (), barred: Collection[str] = ()) -> Topology:
    """The topology of these nodes.

    nodes: in topological order.
    fixed: names of units, see Topology.
    barred: names of units, see Topology.

    Raises:
        ValueError: there is no sink, a feed names a node that does not come before, or a task reads nothing of a feed.
    """
    units = tuple(dict.fromkeys(name for node in nodes for name in node.units))
    numbers = {name: number for number, name in enumerate(units)}
    places = {node.name: place for place, node in enumerate(nodes)}
    for node in nodes:
        for feed in node.feeds:
            if places.get(feed.producer, len(nodes)) >= places[node.name]:
                raise ValueError(f"{node.name} reads {feed.producer}, which does not come before it")
    below = _below(nodes, places)
    made = tuple(_tasks(node, nodes, places, numbers, below[place]) for place, node in enumerate(nodes))
    sinks = tuple(place for place, node in enumerate(nodes) if node.query)
    if not sinks:
        raise ValueError("there is no sink: a sink names its query")
    parts = _parts(np.concatenate([made[sink].rates for sink in sinks]))
    ends = np.cumsum([len(made[sink].rates) for sink in sinks])
    share = dict(zip(sinks, np.split(parts, ends[:-1]), strict=True))
    nodes_of: list[list[int]] = [[] for _ in units]
    for place, node in enumerate(nodes):
        for name in dict.fromkeys(node.units):
            nodes_of[numbers[name]].append(place)
    places_of = tuple(tuple(some) for some in nodes_of)
    apart = [frozenset(numbers[name] for name in some) for some in (fixed, barred)]
    return Topology(units, made, sinks, share, numbers, places_of, *apart)


def _tasks(
    node: Node,
    nodes: Sequence[Node],
    places: Mapping[str, int],
    numbers: Mapping[str, int],
    below: tuple[int, ...],
) -> Tasks:
    taken = [_taken(node, index) for index in range(len(node.feeds))]
    total = np.sum(taken, axis=0) if taken else np.zeros(len(node.units))
    empty = total <= 0
    streams = []
    for feed, mine in zip(node.feeds, taken, strict=True):
        weight = np.where(empty, 1 / len(node.feeds), mine / np.where(empty, 1, total))
        streams.append(_stream(node, feed, places[feed.producer], len(nodes[places[feed.producer]].units), weight))
    own = np.array([numbers[name] for name in node.units], dtype=np.int64)
    rates = np.array(node.rates, dtype=np.float64)
    return Tasks(node.name, own, tuple(streams), node.correlated, query=node.query, rates=rates, below=below)


def _taken(node: Node, index: int) -> Parts:
    """The rate of each task's input over one feed."""
    feed = node.feeds[index]
    if not feed.substreams:
        if node.weights:
            return np.array(node.weights[index], dtype=np.float64)
        return np.full(len(node.units), sum(feed.rates) / len(node.units))
    found = np.zeros(len(node.units))
    np.add.at(found, [one.reader for one in feed.substreams], [one.rate for one in feed.substreams])
    return found


def _stream(node: Node, feed: Feed, producer: int, writing: int, weight: Parts) -> Stream:
    if not feed.substreams:
        if len(feed.rates) != writing:
            raise ValueError(f"{node.name} reads {feed.producer}: {writing} writers, rates of {len(feed.rates)}")
        everybody, shares = np.arange(writing, dtype=np.int64), _parts(np.array(feed.rates, dtype=np.float64))
        return Stream(
            producer, everybody, np.zeros(1, dtype=np.int64), shares, weight=weight, common=True, local=feed.local
        )
    ordered = sorted(feed.substreams, key=lambda one: (one.reader, one.writer))
    readers = np.array([one.reader for one in ordered], dtype=np.int64)
    starts = np.searchsorted(readers, np.arange(len(node.units)))
    if len(np.unique(readers)) < len(node.units):
        raise ValueError(f"a task of {node.name} reads nothing of {feed.producer}")
    rates = np.array([one.rate for one in ordered], dtype=np.float64)
    sums = np.add.reduceat(rates, starts)[readers]
    counts = np.bincount(readers, minlength=len(node.units))[readers]
    shares = np.where(sums > 0, rates / np.where(sums > 0, sums, 1), 1 / counts)
    writers = np.array([one.writer for one in ordered], dtype=np.int64)
    return Stream(producer, writers, starts.astype(np.int64), shares, weight=weight, common=False, local=feed.local)


def _parts(rates: Parts) -> Parts:
    """The parts of the rates in their sum; equal parts if the sum is 0."""
    total = rates.sum()
    return rates / total if total > 0 else np.full(len(rates), 1 / max(len(rates), 1))


def _below(nodes: Sequence[Node], places: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The nodes whose input depends on each node, and the node itself, in topological order."""
    direct: list[set[int]] = [set() for _ in nodes]
    for place, node in enumerate(nodes):
        for feed in node.feeds:
            direct[places[feed.producer]].add(place)
    found: list[set[int]] = [set() for _ in nodes]
    for place in reversed(range(len(nodes))):
        found[place] = {place}.union(*(found[one] for one in direct[place]))
    return [tuple(sorted(one)) for one in found]

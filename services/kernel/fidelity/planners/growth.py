"""The growth of each task's output with a few more units: the best MC-trees of all sizes, computed from the sources
down.

An MC-tree of a task is the task's unit and the best tree of one writer (independent inputs) or of one writer of each
stream (correlated inputs). So the best tree of each size follows from the trees of the writers, in polynomial time and
without a list of trees. Units that already have a replica cost nothing, so the same pass finds extensions of a plan. A
second pass, from the sinks up, computes how much the job's OF rises with a task's output under the present plan.
Source: MECHANISMS P9.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.services.kernel.fidelity.loss import Standing, taken_in
from holdfast.services.kernel.fidelity.topology import Alive, Parts, Stream, Tasks, Topology

MOST_SIZE = 48
"""The largest size of the trees searched, in new units."""
_EQUAL = 1e-12
"""The relative size below which a summand is a rounding error. A single value counts, however small: a tree through
many joins of a thousand tasks each brings less than this.
"""


class Growth:
    """The growth of a plan.

    gains: by node, of shape (tasks, size + 1): the additional output of a task with that many new units above it, its
    own among them.
    worth: by node and task, the increase of the job's OF with the output of the task.
    """

    def __init__(self, standing: Standing, size: int) -> None:
        self._standing = standing
        self._size = size
        self._topology = standing.topology
        self.inputs = [taken_in(node, standing.outputs) for node in self._topology.nodes]
        self._means = [_means(node, standing.outputs) if node.correlated else [] for node in self._topology.nodes]
        self._barred = np.zeros(len(self._topology.units), dtype=np.bool_)
        self._barred[list(self._topology.barred)] = True
        self.gains: list[Parts] = []
        for place, node in enumerate(self._topology.nodes):
            self.gains.append(self._of_node(place, node))
        self.worth = _worth(standing)

    def candidates(self, most: int) -> list[tuple[int, int, int]]:
        """Triples (node, task, size), the best first by gain per new unit, at least one of each size with a gain."""
        found: list[tuple[float, int, int, int]] = []
        least = _EQUAL * self._standing.fidelity
        sizes = np.arange(1, self._size + 1)
        for place, gains in enumerate(self.gains):
            dense = self.worth[place][:, None] * np.where(gains[:, 1:] > gains[:, :-1], gains[:, 1:], 0.0) / sizes
            for size in range(self._size):
                column = dense[:, size]
                some = [int(column.argmax())] if most == 1 else np.argsort(-column, kind="stable")[:most].tolist()
                found += [(-float(column[task]), place, task, size + 1) for task in some if column[task] > least]
        found.sort()
        if most > 1:
            return [one[1:] for one in found[: most * 4]]
        best: dict[int, tuple[int, int, int]] = {}
        for _, place, task, size in found:
            best.setdefault(size, (place, task, size))
        return list(best.values())

    def units(self, place: int, task: int, size: int) -> set[int]:
        """The new units of the best tree of a task with at most `size` new units."""
        found: set[int] = set()
        self._gather(place, task, size, found)
        return {unit for unit in found if not self._standing.alive[unit]}

    def _gather(self, place: int, task: int, size: int, found: set[int]) -> None:
        node = self._topology.nodes[place]
        unit = int(node.units[task])
        dead = not self._standing.alive[unit]
        found.add(unit)
        if not node.streams:
            return
        if not node.correlated:
            options = []
            for stream in node.streams:
                left = size - (1 if dead and not stream.local else 0)
                rows = self.gains[stream.producer][stream.writers[stream.substreams_of(task)], max(left, 0)]
                values = rows * stream.shares[stream.substreams_of(task)] * stream.weight[task]
                best = int(values.argmax())
                options.append((float(values[best]), left, stream, best))
            value, left, stream, best = max(options, key=lambda one: one[0])
            if value > _EQUAL * self.gains[place][task, size] and left > 0:
                self._follow(stream, task, best, left, found)
            return
        left = size - (1 if dead and not any(stream.local for stream in node.streams) else 0)
        parts = self._split(place, task, max(left, 0))
        for stream, means, part in zip(node.streams, self._means[place], parts, strict=True):
            rows = self.gains[stream.producer][stream.writers[stream.substreams_of(task)], part]
            values = rows * stream.shares[stream.substreams_of(task)]
            best = int(values.argmax())
            if part and values[best] > _EQUAL * float(means[task]):
                self._follow(stream, task, best, part, found)

    def _follow(self, stream: Stream, task: int, best: int, size: int, found: set[int]) -> None:
        writer = int(stream.writers[stream.substreams_of(task)][best])
        self._gather(stream.producer, writer, size, found)

    def _split(self, place: int, task: int, size: int) -> list[int]:
        """The number of new units for each stream of a task with correlated inputs."""
        node = self._topology.nodes[place]
        tables: list[Parts] = []
        reached: list[Parts] = []
        for stream, means in zip(node.streams, self._means[place], strict=True):
            mean = float(means[task])
            rows = self.gains[stream.producer][stream.writers[stream.substreams_of(task)], : size + 1]
            tables.append(mean + (rows * stream.shares[stream.substreams_of(task)][:, None]).max(axis=0))
            reached.append(tables[-1] if not reached else _together(reached[-1][None], tables[-1][None])[0])
        parts: list[int] = []
        left = size
        for number in range(len(tables) - 1, 0, -1):
            values = [float(reached[number - 1][left - own] * tables[number][own]) for own in range(left + 1)]
            own = int(np.argmax(values))
            parts.append(own)
            left -= own
        return [left, *reversed(parts)]

    def _of_node(self, place: int, node: Tasks) -> Parts:
        dead = ~self._standing.alive[node.units]
        base = self.inputs[place]
        base = np.broadcast_to(base, node.units.shape)
        found = np.zeros((len(node.units), self._size + 1))
        if not node.streams:
            found[dead, 1:] = 1.0
            found[self._barred[node.units]] = 0.0
            return found
        best = [_best_of(stream, self.gains[stream.producer]) for stream in node.streams]
        local = any(stream.local for stream in node.streams)
        if not node.correlated:
            for stream, gains in zip(node.streams, best, strict=True):
                more = gains * stream.weight[:, None]
                found = np.maximum(found, _shifted(more, dead & ~np.bool_(stream.local)))
            found[dead, 1:] += base[dead, None]
        else:
            reached: Parts | None = None
            for mean, gains in zip(self._means[place], best, strict=True):
                table = np.broadcast_to(mean[:, None] + gains, found.shape)
                reached = table if reached is None else _together(reached, table)
            assert reached is not None
            found = _shifted(reached, dead & (not local)) - np.where(dead, 0.0, base)[:, None]
        found[:, 0] = 0.0
        found[self._barred[node.units]] = 0.0
        return np.maximum.accumulate(np.maximum(found, 0.0), axis=1)


def _best_of(stream: Stream, gains: Parts) -> Parts:
    """The largest gain from one writer of the stream, by reader and size; a common stream has one row for all
    readers.
    """
    more = gains[stream.writers] * stream.shares[:, None]
    if stream.common:
        return np.asarray(more.max(axis=0, keepdims=True))
    return np.asarray(np.maximum.reduceat(more, stream.starts, axis=0))


def _shifted(values: Parts, dead: Alive) -> Parts:
    """Shifts the values by one size for tasks whose own unit is new, too."""
    rows = np.broadcast_to(values, (len(dead), values.shape[1]))
    later = np.concatenate([np.zeros((len(rows), 1)), rows[:, :-1]], axis=1)
    return np.where(dead[:, None], later, rows)


def _together(left: Parts, right: Parts) -> Parts:
    """The best product for every size of two streams of a join, with the units divided between them."""
    found = left * right[:, :1]
    for own in range(1, right.shape[1]):
        np.maximum(found[:, own:], left[:, : left.shape[1] - own] * right[:, own : own + 1], out=found[:, own:])
    return found


def _worth(standing: Standing) -> list[Parts]:
    topology = standing.topology
    found = [np.zeros(len(node.units)) for node in topology.nodes]
    for sink in topology.sinks:
        found[sink] += topology.share[sink]
    for place in range(len(topology.nodes) - 1, -1, -1):
        node = topology.nodes[place]
        if not node.streams:
            continue
        passing = found[place] * standing.alive[node.units]
        for stream, part in zip(node.streams, _slopes(node, standing.outputs), strict=True):
            down = passing * part
            if stream.common:
                found[stream.producer] += down.sum() * stream.shares
            else:
                counts = np.diff(np.append(stream.starts, len(stream.writers)))
                np.add.at(found[stream.producer], stream.writers, np.repeat(down, counts) * stream.shares)
    return found


def _slopes(node: Tasks, outputs: Sequence[Parts]) -> list[Parts]:
    """The increase of a task's output with the input of a stream, by stream and task."""
    if not node.correlated:
        return [stream.weight for stream in node.streams]
    means, ones = _means(node, outputs), np.ones(len(node.units))
    return [
        np.asarray(np.prod([ones, *(mean for other, mean in enumerate(means) if other != own)], axis=0))
        for own in range(len(means))
    ]


def _means(node: Tasks, outputs: Sequence[Parts]) -> list[Parts]:
    """The mean output of the writers that a task reads, by stream and task."""
    return [np.broadcast_to(stream.mean(outputs[stream.producer]), node.units.shape) for stream in node.streams]


def least_tree(topology: Topology, most: int) -> int:
    """The largest number of units in the least tree of any task, at most `most`. A search for larger trees finds no
    further gain.
    """
    sizes: list[Parts] = []
    for node in topology.nodes:
        own = np.ones(len(node.units))
        by_stream = []
        for stream in node.streams:
            rows = sizes[stream.producer][stream.writers]
            least = rows.min(keepdims=True) if stream.common else np.minimum.reduceat(rows, stream.starts)
            by_stream.append(least - (1 if stream.local else 0))
        if by_stream:
            own = own + (sum(by_stream) if node.correlated else np.min(np.broadcast_arrays(*by_stream), axis=0))
        sizes.append(np.asarray(own))
    return int(min(most, max(one.max() for one in sizes)))

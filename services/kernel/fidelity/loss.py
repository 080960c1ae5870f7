"""The share of its output that a job keeps while some units are gone: output fidelity, and the metric compared with it.

The paper counts losses; this module counts the kept part of a stream, 1 minus its loss, because it is a sum over the
present substreams. A failed task outputs nothing. A present source task outputs all. Any other task outputs as much as
it receives: with independent inputs their mean, weighted by rate; with correlated inputs their product. Source:
MECHANISMS P2, P3 and P4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.services.kernel.fidelity.topology import Alive, Parts, Tasks, Topology


def fidelity(topology: Topology, alive: Alive, correlated: bool = True) -> Parts:
    """The output fidelity OF of each set of units, 0 to 1.

    correlated: False computes IC, which treats all inputs as independent.
    """
    return _of_sinks(topology, kept(topology, alive, correlated))


def of_queries(topology: Topology, alive: Alive) -> dict[str, float]:
    """The OF of each query.

    alive: one set of units.
    """
    outputs = kept(topology, alive)
    found: dict[str, tuple[float, float]] = {}
    for sink in topology.sinks:
        share, query = topology.share[sink], topology.nodes[sink].query
        got, all_of_it = found.get(query, (0.0, 0.0))
        weight = share if share.sum() > 0 else np.full(len(share), 1 / len(share))
        found[query] = (got + float(outputs[sink] @ weight), all_of_it + float(weight.sum()))
    return {query: got / all_of_it for query, (got, all_of_it) in found.items()}


def kept(topology: Topology, alive: Alive, correlated: bool = True) -> list[Parts]:
    """The output of each task as a part of its output without a failure, 0 to 1, by node."""
    found: list[Parts] = []
    for node in topology.nodes:
        found.append(alive[..., node.units] * taken_in(node, found, correlated))
    return found


def taken_in(node: Tasks, outputs: Sequence[Parts], correlated: bool = True) -> Parts:
    """The part of its output that the inputs of each task of a node permit, 0 to 1."""
    if not node.streams:
        return np.ones(len(node.units))
    means = [stream.mean(outputs[stream.producer]) for stream in node.streams]
    if correlated and node.correlated:
        return np.asarray(np.prod(np.stack(np.broadcast_arrays(*means)), axis=0))
    return np.asarray(sum(mean * stream.weight for mean, stream in zip(means, node.streams, strict=True)))


def _of_sinks(topology: Topology, outputs: Sequence[Parts]) -> Parts:
    return np.asarray(sum(outputs[sink] @ topology.share[sink] for sink in topology.sinks))


class Standing:
    """The output of a job under a growing plan: an added unit changes only nodes below it."""

    def __init__(self, topology: Topology, alive: Alive) -> None:
        self.topology = topology
        self.alive = alive.copy()
        self.outputs = kept(topology, self.alive)
        self.fidelity = float(_of_sinks(topology, self.outputs))
        self._foreseen: tuple[tuple[int, ...], float, dict[int, Parts]] = ((), self.fidelity, {})

    def with_units(self, units: Iterable[int]) -> float:
        """The OF with these units added, without adding them."""
        return self._recomputed(tuple(units))[1]

    def add(self, units: Iterable[int]) -> None:
        some, self.fidelity, changed = self._recomputed(tuple(units))
        self.alive[list(some)] = True
        for place, output in changed.items():
            self.outputs[place] = output
        self._foreseen = ((), self.fidelity, {})

    def _recomputed(self, units: tuple[int, ...]) -> tuple[tuple[int, ...], float, dict[int, Parts]]:
        """The result of adding units. The last result is cached, because a unit is first evaluated and then added."""
        if units != self._foreseen[0]:
            self._foreseen = (units, *self._computed(units))
        return self._foreseen

    def _computed(self, units: tuple[int, ...]) -> tuple[float, dict[int, Parts]]:
        alive = self.alive.copy()
        alive[list(units)] = True
        nodes = self.topology.nodes
        first = {place for unit in units for place in self.topology.nodes_of[unit]}
        outputs, changed = list(self.outputs), dict[int, Parts]()
        for place in sorted({below for one in first for below in nodes[one].below}):
            output = alive[nodes[place].units] * taken_in(nodes[place], outputs)
            outputs[place] = changed[place] = output
        return float(_of_sinks(self.topology, outputs)), changed

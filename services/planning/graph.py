"""The DAG of a job: the inputs of each operator and query, their topological order, and problems of the graph.

Source: JOBS "A job file".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.suggestions import suggest


def sink_name(query: str) -> str:
    return f"sink-{query}"


@dataclass(frozen=True, slots=True)
class Slot:
    """An input of an operator or query: its producer, and its path in the job file."""

    producer: str
    path: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of a job.

    Attributes:
        slots: the inputs of each source, operator and sink, by name.
        order: names in topological order, and otherwise in the order of the file; without names on or behind a cycle.
        needed: names of everything that leads to a query.
    """

    slots: Mapping[str, tuple[Slot, ...]]
    order: tuple[str, ...]
    needed: frozenset[str]

    @classmethod
    def of(cls, spec: JobSpec) -> Graph:
        slots: dict[str, tuple[Slot, ...]] = {name: () for name in spec.sources}
        # A name with two meanings is reported by name_problems; here the first meaning keeps the name.
        for name in spec.operators:
            slots.setdefault(name, tuple(_operator_slots(spec, name)))
        for name, query in spec.queries.items():
            slots.setdefault(sink_name(name), (Slot(query.input, f"queries.{name}.input"),))
        return cls(slots, tuple(_order(slots)), _upstream(slots, map(sink_name, spec.queries)))

    @classmethod
    def over(cls, slots: Mapping[str, tuple[Slot, ...]], ends: Iterable[str]) -> Graph:
        """Builds the graph of these inputs. Everything that leads to one of `ends` is needed."""
        return cls(slots, tuple(_order(slots)), _upstream(slots, ends))

    def upstream(self, name: str) -> frozenset[str]:
        """Everything that `name` depends on, with `name` itself."""
        return _upstream(self.slots, [name])


def _operator_slots(spec: JobSpec, name: str) -> Iterator[Slot]:
    operator = spec.operators[name]
    for producer, path in zip(operator.inputs, operator.slot_paths, strict=True):
        yield Slot(producer, f"operators.{name}.{path}")


def _order(slots: Mapping[str, Sequence[Slot]]) -> list[str]:
    done: dict[str, None] = {}
    left = list(slots)
    while left:
        ready = [name for name in left if all(slot.producer in done for slot in slots[name])]
        if not ready:
            break
        done |= dict.fromkeys(ready)
        left = [name for name in left if name not in done]
    return list(done)


def _upstream(slots: Mapping[str, Sequence[Slot]], names: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in slots and name not in found:
            found.add(name)
            waiting += [slot.producer for slot in slots[name]]
    return frozenset(found)


def name_problems(spec: JobSpec) -> Iterator[Problem]:
    """Problems of names that have two meanings."""
    for name in spec.operators:
        if name in spec.sources:
            yield Problem(f"operators.{name}", "is the name of a source, too", "rename one of them")
    sinks = {sink_name(query): query for query in spec.queries}
    for section, names in (("sources", spec.sources), ("operators", spec.operators)):
        for name in names:
            if name in sinks:
                yield Problem(f"{section}.{name}", f"is the name of the sink of query {sinks[name]}", "rename it")


def input_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    """Problems of inputs that name no source and no operator."""
    known = [*spec.sources, *spec.operators]
    for slots in graph.slots.values():
        for slot in slots:
            if slot.producer in known or slot.producer.partition(".")[0] in known:
                continue  # side_outputs.py reports problems of outputs
            if slot.producer in spec.queries:
                message = f"'{slot.producer}' is a query; only sources and operators can be read"
                yield Problem(slot.path, message, f"read {spec.queries[slot.producer].input}")
            else:
                message = f"there is no source or operator '{slot.producer}'"
                yield Problem(slot.path, message, suggest(slot.producer, known))


def cycle_problems(graph: Graph) -> Iterator[Problem]:
    """Problems of operators that wait for each other: for each set of them, a cycle through its first operator."""
    reach = {name: _upstream(graph.slots, (slot.producer for slot in graph.slots[name])) for name in graph.slots}
    seen: set[str] = set()
    for name in graph.slots:
        if name in seen or name not in reach[name]:
            continue
        members = {other for other in reach[name] if name in reach[other]}
        seen |= members
        path = _cycle(graph, name, members)
        slot = next(slot for slot in graph.slots[name] if slot.producer == path[-2])
        message = "reads itself" if len(path) == 2 else f"is on a cycle: {' -> '.join(path)}"
        yield Problem(slot.path, message, "an operator reads only what comes before it")


def _cycle(graph: Graph, start: str, members: set[str]) -> list[str]:
    """A shortest path from `start` along the stream back to `start`."""
    before: dict[str, str] = {}
    waiting = [start]
    readers: dict[str, list[str]] = defaultdict(list)
    for name in members:
        for slot in graph.slots[name]:
            readers[slot.producer].append(name)
    while start not in before:
        name = waiting.pop(0)
        for reader in sorted(readers[name]):
            if reader not in before:
                before[reader] = name
                waiting.append(reader)
    path = [start, before[start]]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def unused_warnings(spec: JobSpec, graph: Graph) -> Iterator[str]:
    """Warnings about sources and operators that lead to no query, so that the plan leaves them out."""
    for section, names in (("sources", spec.sources), ("operators", spec.operators)):
        for name in names:
            if name not in graph.needed:
                yield f"{section}.{name}: leads to no query and is left out"

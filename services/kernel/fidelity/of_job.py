"""The topology of a job, from its plan and from given or measured rates.

Forward is one-to-one, merge is merge, keyed and spread are full (one writer to several readers is a split). In a full
edge the rows of every writer reach the readers in the same proportions, so the rate of a substream is the writer's
output times the reader's part of the whole input. All rows of a table count equally: on its side a join loses the share
of the table's tasks that are gone. The output of Spark returns through a task that counts as the reader of the rows
written for Spark. Source: MECHANISMS P1; docs/decisions/0145.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import floor

from holdfast.schemas.plans import Edge, OperatorPlan, Plan
from holdfast.schemas.topics import edge as edge_of
from holdfast.services.kernel.fidelity.topology import Feed, Node, Substream, Topology, topology
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import writers

SURVIVING = frozenset({"active-standby", "active-replication", "hybrid", "adaptive"})
"""Schemes under which a unit outside the budget counts as present: a copy of it takes over."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The known rates, in records per second; unknown rates follow from the inputs, in equal parts.

    outputs: by operator, the output of each task.
    inputs: by operator and producer, the input of each task.
    """

    outputs: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """The units of a replication budget.

    topology: the topology of the job.
    units: the names of the planned units.
    left_out: units with a scheme of their own, adaptive units, and units of Spark.
    """

    topology: Topology
    units: tuple[str, ...]
    left_out: tuple[str, ...]

    def budget(self, share: float) -> int:
        """The number of units that may have a replica.

        share: the share of the planned units, 0 to 1.
        """
        return floor(share * len(self.units) + 1e-9)


def budget_share(plan: Plan) -> float | None:
    """The replication budget of the job file, 0 to 1; None if it has none."""
    return plan.settings.fault_tolerance.replication_budget


def planned(plan: Plan, rates: Rates | None = None, without: Collection[str] = ()) -> Planned:
    """The units of a budget.

    without: planned units that now have a scheme of their own; they count as gone.

    Raises:
        ValueError: the plan has no query.
    """
    units = {(operator, unit.index): unit for unit in plan.units if not unit.host for operator in unit.operators}
    on_workers = [unit for unit in plan.units if not unit.host]
    fixed = [unit.name for unit in on_workers if not unit.planned and unit.scheme in SURVIVING]
    barred = [unit.name for unit in on_workers if not unit.planned and unit.scheme not in SURVIVING]
    barred += [unit.name for unit in on_workers if unit.planned and unit.name in without]
    nodes: dict[str, Node] = {}
    edges = _inputs(plan)
    for operator in _ordered(plan, edges):
        names = tuple(units[operator.name, task].name for task in range(operator.parallelism))
        nodes[operator.name] = _node(plan, operator, names, edges[operator.name], nodes, rates or Rates())
    left_out = tuple(unit.name for unit in plan.units if not unit.planned or unit.name in without)
    made = topology(tuple(nodes.values()), fixed, barred)
    return Planned(made, tuple(unit.name for unit in on_workers if unit.name not in left_out), left_out)


def _inputs(plan: Plan) -> dict[str, list[Edge]]:
    """The input edges of each operator. The task that reads Spark's output counts as the reader of the rows written for
    Spark.
    """
    found: dict[str, list[Edge]] = {operator.name: [] for operator in plan.operators}
    for edge in sorted(plan.edges, key=lambda one: one.slot):
        found[edge.consumer].append(edge)
    for spark in plan.spark:
        slots = {given.topic: slot for slot, given in enumerate(spark.inputs)}
        written = [(one.name, one.sink.topic) for one in plan.operators if one.kind == "sink"]
        found[spark.operator] += [
            Edge(name, spark.operator, slots[topic], "spread", topic=topic) for name, topic in written if topic in slots
        ]
    return found


def _ordered(plan: Plan, edges: Mapping[str, list[Edge]]) -> list[OperatorPlan]:
    left, found = list(plan.operators), dict[str, OperatorPlan]()
    while left:
        ready = [one for one in left if all(edge.producer in found for edge in edges[one.name])]
        if not ready:
            raise ValueError("the operators of the plan read each other in a circle")
        found |= {one.name: one for one in ready}
        left = [one for one in left if one.name not in found]
    return list(found.values())


def _node(
    plan: Plan,
    operator: OperatorPlan,
    names: tuple[str, ...],
    edges: list[Edge],
    nodes: Mapping[str, Node],
    rates: Rates,
) -> Node:
    feeds, weights = [], []
    for edge in edges:
        before = nodes[edge.producer]
        table = edge.producer in plan.tables
        sent = (1.0,) * len(before.units) if table else before.rates
        if edge.routing in ("forward", "merge"):
            found = tuple(
                Substream(writer, reader, sent[writer])
                for reader in range(len(names))
                for writer in writers(edge.routing, reader, len(sent), len(names))
            )
            feeds.append(Feed(edge.producer, found, local=edge.topic is None))
            taken = tuple(map(sum, (sent[reader :: len(names)] for reader in range(len(names)))))
        else:
            feeds.append(Feed(edge.producer, rates=sent))
            taken = (sum(sent) / len(names),) * len(names)
        known = rates.inputs.get(operator.name, {}).get(edge.producer)
        weights.append(taken if known is None or table else known)
    put_out = rates.outputs.get(operator.name)
    if put_out is None:
        put_out = tuple(map(sum, zip(*weights, strict=True))) if weights else _of_source(plan, operator)
    kind = catalogue.OPERATORS.get(operator.kind)
    correlated = kind is not None and kind.correlated(operator.settings)
    query = operator.sink.query
    return Node(operator.name, names, put_out, tuple(feeds), correlated=correlated, query=query, weights=tuple(weights))


def _of_source(plan: Plan, operator: OperatorPlan) -> tuple[float, ...]:
    """The number of partitions of each task, as its weight: every partition counts equally."""
    owners = next((one.owners for one in plan.sources if one.operator == operator.name), ())
    return tuple(float(len(owned)) for owned in owners) or (1.0,) * operator.parallelism


def edge_rates(plan: Plan, inputs: Mapping[tuple[str, str], float], outputs: Mapping[tuple[str, str], float]) -> Rates:
    """The rates of operators from measurements of leaders; an operator has none if one of its tasks reports nothing.

    Args:
        inputs: records per second by unit and edge, as in schemas/costs.py.
        outputs: records per second by unit and edge, as in schemas/costs.py.
    """
    units = {(operator, unit.index): unit.name for unit in plan.units if not unit.host for operator in unit.operators}
    topics = {edge.topic: edge_of(edge.topic) for edge in plan.edges if edge.topic is not None}
    found: dict[str, tuple[float, ...]] = {}
    taken: dict[str, dict[str, tuple[float, ...]]] = {}
    for operator in plan.operators:
        tasks = [units.get((operator.name, task), "") for task in range(operator.parallelism)]
        sent = [topics[e.topic] for e in plan.edges if e.producer == operator.name and e.topic is not None]
        edges = {operator.name} if operator.kind == "sink" else set(sent)
        for edge in sorted(edges):
            values = [outputs.get((unit, edge)) for unit in tasks]
            known = tuple(value for value in values if value is not None)
            if len(known) == len(values):
                found[operator.name] = known
        for one in plan.edges:
            if one.consumer == operator.name and one.topic is not None:
                values = [inputs.get((unit, topics[one.topic])) for unit in tasks]
                known = tuple(value for value in values if value is not None)
                if len(known) == len(values):
                    taken.setdefault(operator.name, {})[one.producer] = known
    return Rates(found, taken)

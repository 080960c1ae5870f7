"""The derived parts of a plan: the tasks of each unit, their inputs, and the targets of their output.

Source: PROTOCOL 1 and 2. A plan is compact; every program that runs, trims or draws a job derives the rest here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.schemas.plans import MICRO_BATCH, Edge, OperatorPlan, Plan, SourcePlan, SparkPlan, UnitPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.plans.late_counts import Counted, counted
from holdfast.services.kernel.plans.reach import reach


@dataclass(frozen=True, slots=True)
class LocalInput:
    """A slot fed by a task of the same unit."""

    task: str


@dataclass(frozen=True, slots=True)
class RemoteInput:
    """A slot fed through Kafka.

    partition: the partition that it reads.
    writers: the indices of the producer's tasks that send a frame each batch.
    """

    partition: Partition
    writers: tuple[int, ...]


Input = LocalInput | RemoteInput


@dataclass(frozen=True, slots=True)
class Output:
    """A data topic that a task writes.

    topic: the name of the topic.
    routing: forward, merge, spread or keyed (by hash of `key`).
    key: the key columns.
    partitions: the number of partitions of the topic.
    targets: the partitions to which this task sends a frame each batch.
    """

    topic: str
    routing: str
    key: tuple[str, ...]
    partitions: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceShare:
    """The part of the user's topic that one source task reads.

    topic: the name of the topic.
    partitions: the partitions of the task.
    """

    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """A task of a unit.

    name: the name of the task.
    index: its number in the operator, and its writer number.
    operator: the operator as planned.
    inputs: the input of each slot.
    input_fields: the fields of each slot.
    outputs: the distinct data topics that it writes.
    source: its share of a source; None: the task is not of a source.
    counted: the count of late rows of each slot, if the operator drops late rows.
    """

    name: str
    index: int
    operator: OperatorPlan
    inputs: tuple[Input, ...]
    input_fields: tuple[dict[str, str], ...]
    outputs: tuple[Output, ...]
    source: SourceShare | None
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitLayout:
    """A unit.

    unit: the unit as planned.
    tasks: its tasks in topological order.
    clocked: True if its frames hold the time at which their batch was cut.
    """

    unit: UnitPlan
    tasks: tuple[TaskLayout, ...]
    clocked: bool = False


def task_name(operator: str, index: int) -> str:
    return f"{operator}-{index}"


def unit_layouts(plan: Plan, topics: JobTopics) -> dict[str, UnitLayout]:
    """The layout of every unit that workers run, by name.

    Raises:
        ValueError: the plan was made under another prefix or generation than `topics`.
    """
    graph, asked = _Graph(plan, topics), clocked(plan)
    return {
        unit.name: UnitLayout(unit, tuple(graph.task(name, unit.index) for name in unit.operators), asked)
        for unit in plan.units
        if not unit.host
    }


def clocked(plan: Plan) -> bool:
    """True if code of the job uses the time of day, which the cuts hold."""
    return any(operator.python.clock for operator in plan.operators)


def readers(plan: Plan, topics: JobTopics) -> dict[Partition, tuple[str, ...]]:
    """The units that read each data partition; it may be trimmed to the least position acknowledged by all of them."""
    found: dict[Partition, list[str]] = defaultdict(list)
    for name, layout in unit_layouts(plan, topics).items():
        inputs = {
            source.partition for task in layout.tasks for source in task.inputs if isinstance(source, RemoteInput)
        }
        for partition in sorted(inputs):
            found[partition].append(name)
    return {partition: tuple(units) for partition, units in sorted(found.items())}


def senders(layouts: Mapping[str, UnitLayout]) -> dict[Partition, dict[int, str]]:
    """The unit that sends, by data partition and writer number."""
    found: dict[Partition, dict[int, str]] = defaultdict(dict)
    for name, layout in layouts.items():
        for task in layout.tasks:
            for output in task.outputs:
                for target in output.targets:
                    found[Partition(output.topic, target)][task.index] = name
    return dict(found)


def below(layouts: Mapping[str, UnitLayout]) -> dict[str, frozenset[str]]:
    """The units that read each unit's output, directly or through others."""
    return reach(_directly_below(layouts))


def directly_above(layouts: Mapping[str, UnitLayout]) -> dict[str, tuple[str, ...]]:
    """The units whose frames each unit reads."""
    direct = _directly_below(layouts)
    return {name: tuple(above for above in layouts if name in direct[above] and above != name) for name in layouts}


def _directly_below(layouts: Mapping[str, UnitLayout]) -> dict[str, set[str]]:
    reading: dict[Partition, set[str]] = defaultdict(set)
    for name, layout in layouts.items():
        for source in (source for task in layout.tasks for source in task.inputs if isinstance(source, RemoteInput)):
            reading[source.partition].add(name)
    return {
        name: {
            reader
            for task in layout.tasks
            for output in task.outputs
            for target in output.targets
            for reader in reading[Partition(output.topic, target)]
        }
        for name, layout in layouts.items()
    }


def data_topics(plan: Plan) -> dict[str, int]:
    """The number of partitions of each topic between operators: the number of the reading operator's tasks."""
    operators = {operator.name: operator for operator in plan.operators}
    between = {edge.topic: operators[edge.consumer].parallelism for edge in plan.edges if edge.topic is not None}
    rows = {operator.sink.topic: operator.sink.partitions for operator in _inputs_of_spark(plan)}
    logs = commit_logs(plan)
    return between | rows | {source.topic: len(source.first) for source in plan.sources if source.topic in logs}


def all_data_topics(plan: Plan, topics: JobTopics) -> dict[str, int]:
    """The topics of `data_topics`, and one for the files of each query on Spark that has a checkpoint."""
    files = {topics.query_files(one.operator): 1 for one in plan.spark if one.mode == MICRO_BATCH}
    return data_topics(plan) | files


def commit_logs(plan: Plan) -> dict[str, str]:
    """The operator of each commit log, by topic."""
    return {one.topic: one.operator for one in plan.sources if one.operator in {spark.operator for spark in plan.spark}}


def spark_plan(plan: Plan, operator: str) -> SparkPlan:
    """The plan of an operator that Spark runs. Raises StopIteration for another operator."""
    return next(one for one in plan.spark if one.operator == operator)


def _inputs_of_spark(plan: Plan) -> list[OperatorPlan]:
    topics = {given.topic for spark in plan.spark for given in spark.inputs if given.writers}
    return [one for one in plan.operators if one.kind == "sink" and one.sink.topic in topics]


def writers(routing: str, reader: int, writing: int, reading: int) -> tuple[int, ...]:
    """The tasks, of `writing` tasks, that send to task `reader`, of `reading` tasks."""
    if routing in ("forward", "merge"):
        return tuple(range(reader, writing, reading))
    return tuple(range(writing))


def targets(routing: str, writer: int, reading: int) -> tuple[int, ...]:
    """The tasks, of `reading` tasks, to which task `writer` sends."""
    if routing in ("forward", "merge"):
        return (writer % reading,)
    return tuple(range(reading))


class _Graph:
    """The plan, indexed by operator."""

    def __init__(self, plan: Plan, topics: JobTopics) -> None:
        _check_names(plan, topics)
        self._operators: Mapping[str, OperatorPlan] = {operator.name: operator for operator in plan.operators}
        self._sources: Mapping[str, SourcePlan] = {source.operator: source for source in plan.sources}
        self._into: dict[str, list[Edge]] = defaultdict(list)
        self._out_of: dict[str, list[Edge]] = defaultdict(list)
        for edge in sorted(plan.edges, key=lambda edge: edge.slot):
            self._into[edge.consumer].append(edge)
            self._out_of[edge.producer].append(edge)
        self._counted = counted(self._operators, self._into)

    def task(self, name: str, index: int) -> TaskLayout:
        operator, edges = self._operators[name], self._into[name]
        return TaskLayout(
            name=task_name(name, index),
            index=index,
            operator=operator,
            inputs=tuple(self._input(edge, index) for edge in edges),
            input_fields=tuple(self._operators[edge.producer].fields for edge in edges),
            outputs=self._outputs(self._out_of[name], index),
            source=self._share(name, index),
            counted=self._counted.get(name, ()),
        )

    def _input(self, edge: Edge, index: int) -> Input:
        if edge.topic is None:
            return LocalInput(task_name(edge.producer, index))
        writing = self._operators[edge.producer].parallelism
        reading = self._operators[edge.consumer].parallelism
        return RemoteInput(Partition(edge.topic, index), writers(edge.routing, index, writing, reading))

    def _outputs(self, edges: Sequence[Edge], index: int) -> tuple[Output, ...]:
        found: dict[str, Output] = {}
        for edge in edges:
            if edge.topic is not None:
                reading = self._operators[edge.consumer].parallelism
                to = targets(edge.routing, index, reading)
                found[edge.topic] = Output(edge.topic, edge.routing, edge.key, reading, targets=to)
        return tuple(found[topic] for topic in sorted(found))

    def _share(self, name: str, index: int) -> SourceShare | None:
        source = self._sources.get(name)
        if source is None:
            return None
        owned = source.owners[index]
        return SourceShare(source.topic, owned)


def _check_names(plan: Plan, topics: JobTopics) -> None:
    """Raises ValueError for a plan of another prefix: a worker under another prefix than the controller would read
    topics that do not exist.
    """
    for edge in plan.edges:
        if edge.topic is not None and not edge.topic.startswith(f"{topics.root}."):
            raise ValueError(f"plan of {plan.job} names topic {edge.topic}, not one under {topics.root}")

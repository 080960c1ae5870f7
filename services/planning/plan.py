"""Turns a JobSpec into a plan: tasks, units, topics and positions, decided once for a generation.

Source: PROTOCOL 1 and 2, JOBS "A job file".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from holdfast.schemas.decided import Id
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, Problem, SourcePlan
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plurals import plural
from holdfast.services.planning import (
    database_tables,
    files,
    hosting,
    parallelism,
    replication,
    several_sinks,
    several_topics,
    side_outputs,
    tentative,
    units,
    user_topics,
)
from holdfast.services.planning.check import Checked, Describe, check, resolve
from holdfast.services.planning.fusion import Fused, fuse
from holdfast.services.planning.graph import sink_name
from holdfast.services.planning.spark_inputs import operators
from holdfast.services.planning.sql import whole as sql
from holdfast.services.planning.wiring import edges, frames_per_batch, links

FRAMES_PER_S = 5000
"""Most frames per second of a job. Above this rate brokers and workers spend their time on empty frames (PROTOCOL 2).
"""
LEAST_INTERVAL_MS = 10
"""Least time between two batches of a job whose file sets no interval."""


def make_plan(
    spec: JobSpec,
    *,
    generation: str,
    id: Id,
    topics: Mapping[str, int] | None,
    first: Mapping[str, Mapping[int, int]],
    prefix: str,
    versions: Mapping[str, str],
    allow: Sequence[str],
    describe: Describe = catalogue.describe,
    ids: Mapping[str, str] | None = None,
) -> Plan:
    """Makes the plan of a job.

    Args:
        id: id of the proposal on `jobs.plans`.
        topics: number of partitions of the user's topics that exist; None for a local run, where each source task gets
            a partition of its own.
        first: offset from which each partition of each source topic is read; not used in a local run.
        prefix: prefix of the cluster's topics.
        versions: versions of the libraries that determine output bytes.
        allow: modules that Python operators may come from.
        describe: computes the output columns of an operator from its inputs.
        ids: Kafka's ids of the user's topics.

    Raises:
        JobRejected: with every problem.
    """
    sinks = several_sinks.whole(spec)
    whole = several_topics.whole(sinks.spec, topics, prefix)
    queries = sql.whole(whole.spec, allow, describe)
    outputs = side_outputs.whole(queries.spec)
    try:
        checked = check(outputs.spec, allow, describe)
        names = JobTopics(prefix, spec.name, generation)
        found = [*sinks.problems, *whole.problems, *queries.problems, *outputs.problems]
        draft = _drafted(checked, topics, first, ids or {}, names, found)
        return draft.plan(id, versions)
    except JobRejected as rejected:
        problems = whole.as_written(queries.as_written(outputs.as_written(rejected.problems)))
        raise JobRejected(sinks.as_written(problems)) from None


def _drafted(
    checked: Checked,
    topics: Mapping[str, int] | None,
    first: Mapping[str, Mapping[int, int]],
    ids: Mapping[str, str],
    names: JobTopics,
    found: Sequence[Problem],
) -> _Draft:
    """Returns a draft of the plan. Raises JobRejected with the problems of the job; `found` holds problems from earlier
    steps, which have been counted already."""
    spec = checked.spec
    problems = [*checked.problems, *user_topics.conflicts(spec, names.prefix), *files.shared(spec)]
    problems += parallelism.problems(checked)
    if topics is not None:
        problems += user_topics.absences(spec, checked.graph, topics)
    if checked.problems or found:
        # Without every stream there are no tasks and no units to find more problems in.
        raise JobRejected(problems)
    draft = _Draft(checked, topics, first, ids, names=names)
    if problems := [*problems, *draft.problems()]:
        raise JobRejected(problems)
    return draft


class _Draft:
    """A plan under construction, of a job without problems."""

    def __init__(
        self,
        checked: Checked,
        topics: Mapping[str, int] | None,
        first: Mapping[str, Mapping[int, int]],
        ids: Mapping[str, str],
        names: JobTopics,
    ) -> None:
        self._spec = checked.spec
        self._topics = topics
        self._first = first
        self._ids = ids
        asked, checked = checked, hosting.in_place(checked, names)
        self._asked = asked
        self._checked = checked
        self._names = names
        self.tasks = parallelism.tasks(checked)
        found = links(checked, self.tasks)
        placed = [[resolve(name, self._spec) for name in unit] for unit in self._spec.placement.units]
        self._fused: Fused = fuse(self.tasks, found, placed, self._outside())
        self.edges: tuple[Edge, ...] = edges(found, self.tasks, self._fused.inside(found), names)
        self.units = tuple(units.unit_plans(checked, self.tasks, self._fused.groups))
        self.sink_partitions = {
            topic: self._sink_partitions(query)
            for query in self._spec.queries
            if (topic := user_topics.sink_topic(self._spec, query))
        }
        self._tentative = tentative.having(asked, self.units)
        self._schemes = {name: units.scheme_of(checked, name) for name in operators(self._spec)}
        sinks = [name for name in self.tasks if self._is_input_of_spark(name)]
        rows = {name: self._rows_partitions(name) for name in sinks}
        self.drivers = tuple(hosting.unit_plans(asked, self.tasks, self._schemes, len(self.units)))
        self.spark = tuple(hosting.spark_plans(asked, self.tasks, self.units, first, rows, names))
        self._frames = frames_per_batch(self.edges, self.tasks)
        self._wanted_ms = self._spec.batch_interval_ms or LEAST_INTERVAL_MS
        self.interval_ms = max(self._wanted_ms, -(-self._frames * 1000 // FRAMES_PER_S))

    def plan(self, id: Id, versions: Mapping[str, str]) -> Plan:
        """The finished plan. Raises JobRejected if its replication budget cannot work."""
        made = Plan(
            job=self._spec.name,
            generation=self._names.generation,
            id=id,
            spec=self._spec.as_plain(),
            operators=self.operators(),
            edges=self.edges,
            units=(*self.units, *self.drivers),
            sources=self.sources(),
            sink_partitions=self.sink_partitions,
            interval_ms=self.interval_ms,
            versions=dict(versions),
            spark=self.spark,
            warnings=(*self._asked.warnings, *self.warnings()),
        )
        if problems := [*replication.problems(made)]:
            raise JobRejected(problems)
        return structs.replace(made, warnings=(*made.warnings, *units.gap_warnings(made), *replication.warnings(made)))

    # -- operators ----------------------------------------------------------------------------------------------------

    def operators(self) -> tuple[OperatorPlan, ...]:
        return tuple(
            OperatorPlan(
                name=name,
                kind=self._checked.kind(name),
                parallelism=self.tasks[name],
                inputs=tuple(slot.producer for slot in self._checked.graph.slots[name]),
                params=self._params(name),
                fields=dict(self._checked.streams[name].fields),
                row_key=tuple(self._checked.streams[name].row_key),
            )
            for name in self.tasks
        )

    def _params(self, name: str) -> dict[str, Any]:
        if name in self._checked.params:
            params = self._checked.params[name]
            return params | {"partitions": self._rows_partitions(name)} if self._is_input_of_spark(name) else params
        query = next(query for query in self._spec.queries if sink_name(query) == name)
        topic, sink = user_topics.sink_topic(self._spec, query), self._spec.queries[query].sink
        return {
            "query": query,
            "topic": topic,
            "format": "json" if sink is None else sink.format,
            "key": "json" if sink is None else sink.key,
            "partitions": self.sink_partitions.get(topic, 1),
            "commit_interval_ms": 0 if sink is None else files.commit_interval_ms(sink),
            **({} if sink is None or sink.parquet is None else {"parquet": sink.parquet.model_dump(mode="json")}),
            **({} if sink is None or sink.sql is None else {"sql": sink.sql.model_dump(mode="json")}),
            **({"tentative": True} if query in self._tentative else {}),
            **({"updates": True} if query in self._tentative and tentative.updates(self._asked, query) else {}),
            **({"headers": dict(sink.headers)} if sink is not None and sink.headers else {}),
            **({} if sink is None or sink.schema_id is None else {"schema_id": sink.schema_id}),
            **({} if sink is None or not sink.field_numbers else {"field_numbers": dict(sink.field_numbers)}),
            **({} if sink is None or sink.record is None else {"record": sink.record}),
            **({} if sink is None or sink.key_format is None else {"key_format": sink.key_format}),
            **({} if sink is None or sink.key_schema_id is None else {"key_schema_id": sink.key_schema_id}),
            **({"delete_when": sink.delete_when} if sink is not None and sink.delete_when else {}),
        }

    def _sink_partitions(self, query: str) -> int:
        topic, sink = user_topics.sink_topic(self._spec, query), self._spec.queries[query].sink
        wanted = self.tasks[sink_name(query)] if sink is None or sink.partitions is None else sink.partitions
        return wanted if self._topics is None else self._topics.get(topic, wanted)

    def _outside(self) -> dict[str, bool]:
        """The sinks, each with True if it lies outside Kafka."""
        found = dict.fromkeys((name for name in self.tasks if self._checked.kind(name) == "sink"), False)
        for query, one in self._spec.queries.items():
            if one.sink is not None and (one.sink.parquet is not None or one.sink.sql is not None):
                found[sink_name(query)] = True
        return found

    def _is_input_of_spark(self, name: str) -> bool:
        return self._checked.kind(name) == "sink" and name in self._checked.params

    def _rows_partitions(self, sink: str) -> int:
        """The number of partitions of the topic that holds an operator's input rows for Spark."""
        return max(hosting.MIN_PARTITIONS, self.tasks[sink])

    def sources(self) -> tuple[SourcePlan, ...]:
        read = tuple(self._source(name) for name in self.tasks if name in self._spec.sources)
        return (*read, *hosting.source_plans(self.spark, self._names))

    def _source(self, name: str) -> SourcePlan:
        topic = user_topics.source_topic(self._spec, name)
        if self._topics is None:
            first = dict.fromkeys(range(self.tasks[name]), 0)
        else:
            first = {partition: self._first[topic][partition] for partition in range(self._topics[topic])}
        owners = parallelism.owners(self.tasks[name], len(first))
        return SourcePlan(name, topic, owners, first, topic_id=self._ids.get(topic, ""))

    # -- what is wrong, what is remarkable ----------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        return [*self._fused.problems, *units.scheme_problems(self._spec, self.units)]

    def warnings(self) -> Iterator[str]:
        yield from self._fused.warnings
        yield from tentative.warnings(self._asked, self.units)
        yield from files.warnings(self._spec, self.units)
        yield from database_tables.warnings(self._asked)
        named = {name for name in self._schemes if units.asked_for(self._spec, name)}
        yield from hosting.warnings(self._checked, self._schemes, named, self.tasks)
        if self._topics is not None:
            yield from user_topics.partition_warnings(self._spec, self._topics)
        if self.interval_ms > self._wanted_ms:
            yield (
                f"batch_interval_ms: raised from {self._wanted_ms} to {self.interval_ms}, because a batch "
                f"is {plural(self._frames, 'frame')} and {FRAMES_PER_S} a second are the limit; less parallelism "
                "lowers it"
            )
        if self._spec.latency_ms is not None and self._spec.latency_ms <= self.interval_ms:
            yield (
                f"latency_ms: {self._spec.latency_ms} has no effect: batches are {self.interval_ms} ms apart at "
                "least; a larger latency_ms makes them rarer, which costs less"
            )

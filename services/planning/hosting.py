"""Plans the Spark operators of a job: the work of each driver, and the tasks on workers that connect it to the job.

Source: PROTOCOL 12. Behind a JSON source, Spark reads the user's topic directly. Elsewhere a sink task
`input-<operator>` writes the rows as plain JSON. A task on a worker reads the commit log of the driver like a source
and so returns the driver's rows to the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from holdfast.schemas.job_operators import Spark, SparkSql
from holdfast.schemas.plans import MICRO_BATCH, REAL_TIME, SourcePlan, SparkInput, SparkPlan, UnitPlan
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.codecs.marked import lanes
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.planning.check import Checked
from holdfast.services.planning.graph import Graph, Slot, sink_name
from holdfast.services.planning.spark_inputs import directly_behind, event_time, operators, rows_name
from holdfast.services.planning.spark_settings import texts

HOST = "spark"
MIN_PARTITIONS = 2
"""Least number of partitions of a topic that a sink task writes for Spark, which is the number of Spark tasks that read
it in parallel."""

MAX_LANES = 16
"""Most partitions of a topic that a query reads in real-time mode. Each partition occupies one task of the driver."""

_SCHEMES = {
    "hybrid": "passive-hot",
    "active-standby": "passive-hot",
    "active-replication": "passive-hot",
    "adaptive": "passive-hot",
}
"""Schemes that Spark units replace, and the scheme that they run under. A driver takes over by starting its query, so
two drivers never compute at once, and a switch back would be a second outage."""


def unit_name(operator: str) -> str:
    return task_name(f"spark-{operator}", 0)


def in_place(checked: Checked, topics: JobTopics) -> Checked:
    """Returns the job as workers run it: a Spark operator has no inputs, and a sink writes the rows that the operator
    reads."""
    spec, graph = checked.spec, checked.graph
    hosted = [name for name in operators(spec) if name in graph.needed]
    if not hosted:
        return checked
    slots = {name: graph.slots[name] for name in graph.order if name in graph.needed}
    slots |= dict.fromkeys(hosted, ())
    streams, params = dict(checked.streams), dict(checked.params)
    ends = [sink_name(query) for query in spec.queries]
    for name in hosted:
        one = operators(spec)[name]
        for (given, producer), path in zip(one.named_inputs.items(), one.slot_paths, strict=True):
            if directly_behind(spec, producer):
                continue
            rows = rows_name(name, given)
            sink = f"input-{rows}"
            ends.append(sink)
            slots[sink] = (Slot(producer, f"operators.{name}.{path}"),)
            streams[sink] = streams[producer]
            params[sink] = {
                "query": sink,
                "topic": topics.rows(rows),
                "format": "json",
                "commit_interval_ms": 0,
                "for_spark": True,
            }
    return replace(checked, graph=Graph.over(slots, ends), streams=streams, params=params)


def source_plans(plans: Sequence[SparkPlan], topics: JobTopics) -> Iterator[SourcePlan]:
    """Plans of the sources that read the commit logs of Spark operators."""
    for one in plans:
        read = (0, *lanes(one.first)) if one.mode == REAL_TIME else (0,)
        yield SourcePlan(one.operator, topics.commits(one.operator), (read,), dict.fromkeys(read, 0))


def spark_plans(
    checked: Checked,
    tasks: Mapping[str, int],
    units: tuple[UnitPlan, ...],
    first: Mapping[str, Mapping[int, int]],
    partitions: Mapping[str, int],
    topics: JobTopics,
) -> Iterator[SparkPlan]:
    """Plans of the Spark operators for their drivers.

    Args:
        units: units of the workers.
        first: first offsets by topic and partition.
        partitions: number of partitions of the topic of each sink task that writes for Spark.
    """
    for name, operator in operators(checked.spec).items():
        if name in tasks:
            sql = operator.spark.sql if isinstance(operator.spark, SparkSql) else ""
            own, *more = (
                _read(checked, name, given, units, first, partitions, topics) for given in operator.named_inputs
            )
            found = found_by_spark(checked, name)
            yield SparkPlan(
                operator=name,
                unit=unit_name(name),
                output=dict(checked.streams[name].fields),
                outputs={output: dict(fields) for output, fields in checked.streams[name].outputs.items()},
                entry="" if isinstance(operator.spark, SparkSql) else operator.spark,
                sql=sql,
                params=operator.params,
                emit=operator.emit,
                conf=texts(operator.conf),
                more=tuple(more),
                **structs.asdict(own),
                **(found | _mode(operator, found, own)),
            )


def _mode(operator: Spark, found: Mapping[str, Any], read: SparkInput) -> dict[str, str]:
    """Mode settings of the operator. Micro-batch mode, with its reason, replaces real-time mode where the plan does not
    allow real-time mode; empty if the result of the analysis stays."""
    if found.get("mode") != REAL_TIME:
        return {}
    if operator.mode == MICRO_BATCH:
        return {"mode": MICRO_BATCH, "reason": "the job file says so"}
    if len(operator.named_inputs) > 1:
        return {"mode": MICRO_BATCH, "reason": "it has several inputs"}
    if read.writers:
        return {"mode": MICRO_BATCH, "reason": "it does not stand directly behind a source"}
    if len(read.first) > MAX_LANES:
        return {"mode": MICRO_BATCH, "reason": f"its topic has more than {MAX_LANES} partitions, each of them a task"}
    return {}


def found_by_spark(checked: Checked, name: str) -> dict[str, Any]:
    """The result of Spark's analysis of the operator."""
    return dict(checked.streams[name].hosted or {})


def _read(
    checked: Checked,
    name: str,
    given: str,
    units: tuple[UnitPlan, ...],
    first: Mapping[str, Mapping[int, int]],
    partitions: Mapping[str, int],
    topics: JobTopics,
) -> SparkInput:
    """An input of an operator. `given` is the input's name in the job file."""
    spec = checked.spec
    producer = operators(spec)[name].named_inputs[given]
    time = event_time(spec, checked.graph, checked.streams, producer)
    fields = dict(checked.streams[producer].fields)
    if not directly_behind(spec, producer):
        sink = f"input-{rows_name(name, given)}"
        writers = tuple(unit.name for unit in units if sink in unit.operators)
        first_of_rows = dict.fromkeys(range(partitions[sink]), 0)
        return SparkInput(topics.rows(rows_name(name, given)), fields, first_of_rows, given, writers=writers, **time)
    topic = spec.sources[producer].topic or ""
    return SparkInput(topic, fields, dict(first.get(topic) or {0: 0}), given, source=producer, **time)


def unit_plans(
    checked: Checked, tasks: Mapping[str, int], schemes: Mapping[str, str], behind: int
) -> Iterator[UnitPlan]:
    """Units of Spark, one for each Spark operator.

    Args:
        schemes: scheme that the file asks for, by operator.
        behind: number of units of the workers, which come before these.
    """
    hosted = [name for name in operators(checked.spec) if name in tasks]
    for number, name in enumerate(hosted):
        wanted = schemes[name]
        yield UnitPlan(
            name=unit_name(name),
            index=0,
            operators=(f"spark-{name}",),
            partition=behind + number,
            scheme=_SCHEMES.get(wanted, wanted),
            host=HOST,
        )


def warnings(
    checked: Checked, schemes: Mapping[str, str], named: Collection[str], tasks: Mapping[str, int]
) -> Iterator[str]:
    """Warnings about Spark operators. `named` holds the operators for which the file names a scheme."""
    for name in operators(checked.spec):
        if name not in tasks:
            continue
        if name in named and (wanted := schemes[name]) in _SCHEMES:
            yield f"operators.{name}: its driver runs as {_SCHEMES[wanted]}, not {wanted}: a standby starts the query"
        found = found_by_spark(checked, name)
        if found.get("holds") and not found.get("closes"):
            yield f"operators.{name}: no watermark on event time, so `cancel --drain` leaves what Spark holds unsaid"

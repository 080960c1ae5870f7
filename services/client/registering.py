"""Schemas of sinks: registered before a job is submitted, and written into the job as the ids that its records name.

So a worker asks no registry to write, and all copies of a unit write the same bytes. Source: docs/decisions/0180.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.schemas.jobs import JobSpec, Sink
from holdfast.schemas.plans import OperatorPlan, Plan, Problem
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.codecs.sink_schemas import FORMATS, key_schema, schema_of
from holdfast.services.kernel.dataflow.sink_records import key_column
from holdfast.services.kernel.dataflow.source_records import subject_of
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.log.kafka.registry import URL, Registry, RegistryUnusable
from holdfast.services.log.patience import Patience
from holdfast.services.log.seal.secret import SecretUnusable
from holdfast.services.planning.several_sinks import names
from holdfast.services.planning.sinks import VALUE, lacking


def with_schemas(
    raw: dict[str, Any],
    spec: JobSpec,
    plan: Callable[[], Plan],
    open_registry: Callable[[], Registry | None],
    patience: Callable[[], Patience],
) -> dict[str, Any]:
    """The job with the id of a schema for every sink that needs one and has none; as it is where there is none.

    Args:
        raw: the job as it is to be submitted, which `spec` was read from.
        plan: plans it, for the columns of its sinks. open_registry: its None: no registry is set.

    Raises:
        JobRejected: with what the registry refuses, or with the problems of the job.
    """
    open_ = [(name, what) for name, query in spec.queries.items() for what in lacking(query.sink)]
    if not open_:
        return raw
    made = {one.params["query"]: one for one in plan().operators if one.kind == "sink"}
    sinks = {name: made[_one_of(name, spec)] for name, _ in open_}
    try:
        registry = open_registry()
        if registry is None:
            raise RegistryUnusable(f"no Schema Registry is set: {URL} names it")
        given = {name: sink for name, query in spec.queries.items() if (sink := query.sink) is not None}
        ids = {(name, what): _register(registry, given[name], sinks[name], what, patience()) for name, what in open_}
    except (RegistryUnusable, SecretUnusable, Retriable) as error:
        hint = "an id of a schema here needs no registry"
        problems = [Problem(f"queries.{name}.sink.{what}", f"is missing, and {error}", hint) for name, what in open_]
        raise JobRejected(problems) from None
    queries = dict(raw["queries"])
    for (name, what), id in ids.items():
        queries[name] = {**queries[name], "sink": {**queries[name]["sink"], what: id}}
    return {**raw, "queries": queries}


def _register(registry: Registry, sink: Sink, plan: OperatorPlan, what: str, patience: Patience) -> int:
    """The id of the schema of the values or of the keys, under the subject of each topic; should a registry give one
    schema several ids, each of them names it.

    Args:
        what: the setting that is to hold it.
    """
    topics = sink.topics or [sink.topic]
    first, *_ = [_registered(registry, sink, topic, plan, what, patience=patience) for topic in topics]
    return first


def _one_of(query: str, spec: JobSpec) -> str:
    """A query of the plan that has the columns of this one."""
    sink = spec.queries[query].sink
    return next(iter(names(query, sink.topics).values())) if sink is not None and sink.topics else query


def _registered(registry: Registry, sink: Sink, topic: str, plan: OperatorPlan, what: str, patience: Patience) -> int:
    if what == VALUE:
        subject = subject_of({**sink.model_dump(), "topic": topic})
        asked = WriterSchema(FORMATS[sink.format], schema_of(sink.format, plan.fields, sink.record or "Row"))
    else:
        assert sink.key_format is not None
        subject = f"{topic}-key"
        asked = WriterSchema(FORMATS[sink.key_format], _key_schema(sink.key_format, plan, sink.key))
    return patience.ask(f"the Schema Registry at {registry.url} to answer", lambda: registry.register(subject, asked))


def _key_schema(format: str, plan: OperatorPlan, key: str) -> str:
    if column := key_column(key, plan.row_key):
        return key_schema(format, plan.fields[column])
    return schema_of(format, {name: plan.fields[name] for name in plan.row_key}, "Key")

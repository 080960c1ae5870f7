"""Schemas of sinks: registered before a job is submitted; the job gets their ids, which its records then name.

So a worker needs no registry to write, and all copies of a unit write the same bytes. Source: docs/decisions/0180.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from holdfast.schemas.jobs import JobSpec, Sink
from holdfast.schemas.plans import OperatorPlan, Plan, Problem
from holdfast.services.kernel.codecs.protobuf_messages import Unlike, extended, paths
from holdfast.services.kernel.codecs.protobuf_schemas import NoSchema
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.codecs.sink_schemas import FORMATS, key_schema, schema_of
from holdfast.services.kernel.dataflow.sink_records import key_column
from holdfast.services.kernel.dataflow.source_records import subject_of
from holdfast.services.kernel.errors import JobRejected, Retriable
from holdfast.services.log.kafka.registry import URL, Registry, RegistryUnusable
from holdfast.services.log.patience import Patience
from holdfast.services.log.seal.secret import SecretUnusable
from holdfast.services.planning.several_sinks import names
from holdfast.services.planning.sinks import KEY, VALUE, lacking

Answer = TypeVar("Answer")


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
    made = {one.sink.query: one for one in plan().operators if one.kind == "sink"}
    sinks = {name: made[_one_of(name, spec)] for name, _ in open_}
    try:
        registry = open_registry()
        if registry is None:
            raise RegistryUnusable(f"no Schema Registry is set: {URL} names it")
        given = {name: sink for name, query in spec.queries.items() if (sink := query.sink) is not None}
        asking = _Asking(registry, patience)
        settings = [
            (name, asking.registered(f"queries.{name}.sink", given[name], sinks[name], what)) for name, what in open_
        ]
    except (RegistryUnusable, SecretUnusable, Retriable, NoSchema) as error:
        hint = "an id of a schema here needs no registry"
        problems = [Problem(f"queries.{name}.sink.{what}", f"is missing, and {error}", hint) for name, what in open_]
        raise JobRejected(problems) from None
    queries = dict(raw["queries"])
    for name, added in settings:
        queries[name] = {**queries[name], "sink": {**queries[name]["sink"], **added}}
    return {**raw, "queries": queries}


class _Asking:
    """Registers schemas of sinks."""

    def __init__(self, registry: Registry, patience: Callable[[], Patience]) -> None:
        self._registry = registry
        self._patience = patience

    def registered(self, path: str, sink: Sink, plan: OperatorPlan, what: str) -> dict[str, Any]:
        """Settings of the sink: the id of the schema of the values or of the keys, under the subject of each topic, and
        the numbers of its fields where they are not in order. Should a registry give one schema several ids, each of
        them names it.

        Args:
            path: of the sink. what: the setting that is to hold the id.
        """
        wanted = _of_values(sink, plan) if what == VALUE else _of_keys(sink, plan)
        found = [self._under(subject, wanted, path) for subject in _subjects(sink, what)]
        (id, numbers), *others = found
        if any(one.numbers != numbers for one in others):
            message = "the newest schemas of its topics give the fields different numbers"
            raise JobRejected([Problem(f"{path}.topics", message, "`subject` names one schema for all")])
        if not numbers:
            return {what: id}
        if what != VALUE:
            message = "its columns have other places than in the newest schema, and a field keeps its number"
            raise JobRejected(
                [Problem(f"{path}.key_format", message, "name the columns of the key in the order of before")]
            )
        return {what: id, "field_numbers": numbers}

    def _under(self, subject: str, wanted: _Wanted, path: str) -> _Registered:
        schema, numbers = WriterSchema(FORMATS[wanted.format], wanted.text()), dict[str, int]()
        if wanted.format == "protobuf" and (newest := self._ask(lambda: self._registry.newest(subject))) is not None:
            named = f"version {newest.version} of {subject}"
            try:
                if newest.schema.kind != schema.kind or newest.schema.parts:
                    raise Unlike(f"is of kind {newest.schema.kind}" if not newest.schema.parts else "refers to others")
                text, numbers = extended(newest.schema.text, wanted.fields, wanted.record)
            except (Unlike, NoSchema) as error:
                hint = "cast or rename the column, or name another `subject`"
                setting = "format" if wanted.setting == VALUE else "key_format"
                raise JobRejected([Problem(f"{path}.{setting}", f"{named} {error}", hint)]) from None
            if text == newest.schema.text:
                return _Registered(newest.id, _out_of_order(numbers, wanted.fields))
            schema = WriterSchema(schema.kind, text)
        return _Registered(
            self._ask(lambda: self._registry.register(subject, schema)), _out_of_order(numbers, wanted.fields)
        )

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        return self._patience().ask(f"the Schema Registry at {self._registry.url} to answer", question)


class _Registered(NamedTuple):
    """A registered schema.

    numbers: numbers of the fields; empty: they are in order.
    """

    id: int
    numbers: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A schema to be registered, of rows or of keys.

    record: name that the schema must have; None: any.
    """

    setting: str
    format: str
    fields: dict[str, str]
    record: str | None
    text: Callable[[], str]


def _out_of_order(numbers: dict[str, int], fields: Mapping[str, str]) -> dict[str, int]:
    """The numbers, if they differ from those of fields in order; else none."""
    places = dict[str, int]()
    for one in paths(fields):
        message = one.rpartition(".")[0]
        places[message] = places.get(message, 0) + 1
        if numbers.get(one, places[message]) != places[message]:
            return numbers
    return {}


def _one_of(query: str, spec: JobSpec) -> str:
    """The name of a query in the plan with the columns of this query, which may have several topics."""
    sink = spec.queries[query].sink
    return next(iter(names(query, sink.topics).values())) if sink is not None and sink.topics else query


def _subjects(sink: Sink, what: str) -> list[str]:
    topics = sink.topics or [sink.topic]
    if what != VALUE:
        return [f"{topic}-key" for topic in topics]
    return [subject_of(topic, sink.subject, sink.subject_strategy, sink.record) for topic in topics]


def _of_values(sink: Sink, plan: OperatorPlan) -> _Wanted:
    fields, record = dict(plan.fields), sink.record
    return _Wanted(VALUE, sink.format, fields, record, lambda: schema_of(sink.format, fields, record or "Row"))


def _of_keys(sink: Sink, plan: OperatorPlan) -> _Wanted:
    format = sink.key_format
    assert format is not None
    if column := key_column(sink.key, plan.row_key):
        text = plan.fields[column]
        return _Wanted(KEY, format, {column: text}, None, lambda: key_schema(format, column, text))
    fields = {name: plan.fields[name] for name in plan.row_key}
    return _Wanted(KEY, format, fields, None, lambda: schema_of(format, fields, "Key"))

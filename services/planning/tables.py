"""Checks sources that are tables: their keys and their readers.

Source: JOBS "A job file". Only the newest row of each key of a table is valid, and only a join looks it up.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.job_operators import Join, OperatorSpec
from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.operator_settings import AggregateSettings, TopSettings
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs import fields
from holdfast.services.kernel.codecs.metadata import KEY
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.graph import Graph


def problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    """Problems of a job's tables and their readers."""
    for name, source in spec.sources.items():
        if source.table is not None:
            yield from _key_problems(f"sources.{name}", source, source.table)
    yield from _reader_problems(spec, graph)
    yield from _time_problems(spec, graph)


def keys(operator: OperatorSpec, spec: JobSpec) -> dict[int, tuple[str, ...]]:
    """The key columns of an operator's inputs that are tables, by slot; empty columns if the key itself is faulty."""
    read = {slot: spec.sources.get(producer) for slot, producer in enumerate(operator.inputs)}
    return {
        slot: tuple(source.table) if set(source.table) <= source.types.keys() else ()
        for slot, source in read.items()
        if source is not None and source.table is not None
    }


def _key_problems(path: str, source: Source, key: list[str]) -> Iterator[Problem]:
    for index, column in enumerate(key):
        at = f"{path}.table[{index}]"
        if column not in source.types:
            yield Problem(at, f"there is no field '{column}'", suggest(column, source.types))
        elif column in key[:index]:
            yield Problem(at, f"'{column}' is named twice", "name it once")
        elif (what := source.metadata.get(column)) is not None and not _is_key(source, what, len(key)):
            message = f"'{column}' is {what} of the record: of metadata only the key, alone, names a row"
            hint = "name columns of the value, or one column that is the record's key"
            yield Problem(at, message, f"{hint}; with `key_format` fields of it, key.NAME")
        elif what is not None and source.envelope is not None:
            message = f"'{column}' is the record's key, and the row of a deletion of {source.envelope} is in its value"
            yield Problem(at, message, "name columns of the row")
        elif fields.required(source.types[column]).startswith(("list<", "struct<", "map<")):
            yield Problem(
                at, f"'{column}' is {with_article(source.types[column])}, which is no key", "choose a plain column"
            )
    if source.start != "earliest":
        yield Problem(f"{path}.start", "a table is read from its beginning", "leave it out")


def _is_key(source: Source, what: str, count: int) -> bool:
    """True if this metadata can be one of `count` key columns."""
    return (what == "key" and count == 1) or (what.startswith(KEY) and source.key_format is not None)


def _reader_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    for reader, slots in graph.slots.items():
        for index, slot in enumerate(slots):
            source = spec.sources.get(slot.producer)
            if source is None or source.table is None:
                continue
            operator = spec.operators.get(reader)
            if operator is None or index not in catalogue.OPERATORS[operator.kind].table_slots:
                message = f"{slot.producer} is a table, which only a join with a table reads"
                yield Problem(slot.path, message, "without `table` it is a stream of changes")


def _time_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    """Problems of operators that wait for time to pass, behind a join of two tables. A table sets no limit on how late
    a change may come."""
    untimed: dict[str, str] = {}
    for name in graph.order:
        operator = spec.operators.get(name)
        if operator is None:
            continue
        if isinstance(operator, Join) and len(keys(operator, spec)) == 2:
            untimed[name] = name
        joined = next((untimed[one] for one in operator.inputs if one in untimed), None)
        if joined is None:
            continue
        untimed[name] = joined
        settings, kind = operator.settings(), catalogue.OPERATORS[operator.kind]
        forgets = isinstance(settings, AggregateSettings | TopSettings) and settings.forget_after_s is not None
        if kind.closes(settings) or forgets or operator.kind == "spark":
            message = f"reads changes of tables, of which {joined} cannot say how late they may come"
            yield Problem(f"operators.{name}", message, "without `table` a topic is a stream of changes, with times")

"""The stream of a source: its columns and its event time.

Source: JOBS "Field types", PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.job_operators import OperatorSpec
from holdfast.schemas.jobs import ENVELOPED, REGISTERED, JobSpec, Source
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs import fields, metadata
from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.dataflow import event_time
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.plurals import with_article

_SECOND_US = 1_000_000


def stream(source: Source) -> Stream:
    """The stream of a source. Records of a plain source are only added, so no column identifies a row. Records of a
    table replace one another by the table's key."""
    if source.table is None:
        return Stream({**source.types, OP: "string"} if source.envelope else source.types, (), False)
    return Stream({**source.types, fields.DELETED: "bool?"}, tuple(source.table))


def source_problems(spec: JobSpec) -> Iterator[Problem]:
    for name, source in spec.sources.items():
        if not source.in_value:
            hint = "`holdfast submit` writes those of the registry into the job; or declare the fields"
            yield Problem(f"sources.{name}.fields", "are not known: they are left out, and no registry was asked", hint)
        yield from _field_problems(f"sources.{name}.fields", source)
        if source.format == "text" and [*map(fields.required, source.in_value.values())] != ["string"]:
            hint = "one field that holds the whole record, such as fields: {line: string}"
            yield Problem(f"sources.{name}.fields", "a source of format text has one field of type string", hint)
        if source.format == "arrow":
            yield from _map_problems(f"sources.{name}.fields", source)
        yield from _envelope_problems(f"sources.{name}", source)
        yield from _origin_problems(f"sources.{name}.fields", source)
        if source.table is None:
            yield from _time_problems(f"sources.{name}.event_time", source)


def _map_problems(path: str, source: Source) -> Iterator[Problem]:
    for column, text in fields.holding_maps(source.in_value):
        hint = "list<struct<key: string, value: ...>>, and MAP_FROM_ENTRIES in a select"
        yield Problem(f"{path}.{column}", f"is {with_article(text)}, and records of format arrow hold none", hint)


def closing_warnings(spec: JobSpec) -> Iterator[str]:
    """Warnings about late records for sources that close open windows after silence."""
    streams = {name: source for name, source in spec.sources.items() if source.table is None}
    open_s = sum(_open_us(operator) for operator in spec.operators.values()) / _SECOND_US
    for name, source in streams.items():
        if (after_s := source.close_after_idle_s) is None:
            continue
        path = f"sources.{name}.close_after_idle_s"
        yield (
            f"{path}: when no record has come to any source for {after_s:g} s, every window and join range that is "
            f"open closes; records that come later, with times up to {open_s:g} s past the newest, may be late"
        )
        if waiting := [other for other, one in streams.items() if one.close_after_idle_s is None]:
            yield f"{path}: source {', '.join(waiting)} has none, so what also waits for it stays open"


def _open_us(operator: OperatorSpec) -> int:
    """The longest time that the operator keeps something open after its newest row, in microseconds."""
    return catalogue.OPERATORS[operator.kind].held(operator.settings(), 0).until or 0


def _field_problems(path: str, source: Source) -> Iterator[Problem]:
    if source.subject is not None and source.format not in REGISTERED:
        yield Problem(
            path.replace(".fields", ".subject"), f"a source of format {source.format} has none", "leave it out"
        )
    yield from _registry_problems(path.removesuffix(".fields"), source)
    if source.csv is not None and source.format != "csv":
        hint = "leave it out, or set format: csv"
        yield Problem(path.replace(".fields", ".csv"), f"a source of format {source.format} has none", hint)
    for column, kind in source.types.items():
        if column.startswith("_"):
            name = column.lstrip("_") or "name"
            hint = f"such names belong to holdfast: rename it, {name}: {{type: {kind}, from: {column}}}"
            yield Problem(f"{path}.{column}", "begins with an underscore", hint)
        try:
            fields.dtype(kind)
        except ValueError as error:
            yield Problem(f"{path}.{column}", str(error), _hint(kind))
            continue
        if (what := source.metadata.get(column)) is not None:
            mistakes = metadata.mistakes(what, kind, source.key_format)
            yield from (Problem(f"{path}.{column}", *one) for one in mistakes)


def _registry_problems(path: str, source: Source) -> Iterator[Problem]:
    """Problems of schema settings that have no effect for this source, or that need another setting."""
    if source.subject_strategy != "topic" and source.record is None and source.subject is None:
        yield Problem(f"{path}.record", "is missing: the strategy goes by the record's name", "record: shop.Order")
    reads = source.format in REGISTERED
    if not reads and (source.subject_strategy != "topic" or source.record is not None):
        name = "record" if source.record is not None else "subject_strategy"
        yield Problem(f"{path}.{name}", f"a source of format {source.format} has none", "leave it out")
    if not reads and source.key_format is None and source.on_schema_change == "fail":
        message = f"a source of format {source.format} has no schema that may change"
        yield Problem(f"{path}.on_schema_change", message, "leave it out")


def _envelope_problems(path: str, source: Source) -> Iterator[Problem]:
    if source.envelope is None:
        return
    if source.format not in ENVELOPED:
        hint = f"change records are read as {' and '.join(ENVELOPED)}"
        yield Problem(f"{path}.envelope", f"a source of format {source.format} has none", hint)
    if source.table is None and OP in source.types:
        hint = f"rename it, row_{OP}: {{type: {source.types[OP]}, from: {source.origins.get(OP, OP)}}}"
        yield Problem(
            f"{path}.fields.{OP}", f"is the column that says what happened to a row of {source.envelope}", hint
        )


def _origin_problems(path: str, source: Source) -> Iterator[Problem]:
    """Problems of a field name that two columns read. Each name in the record gives one column."""
    named: dict[str, str] = {}
    for column in source.in_value:
        origin = source.origins.get(column, column)
        if origin in named:
            yield Problem(f"{path}.{column}", f"'{origin}' of the record is also '{named[origin]}'", "name it once")
        named.setdefault(origin, column)


def _hint(kind: str) -> str:
    torn = kind.count("(") + kind.count("<") > kind.count(")") + kind.count(">")
    return "quote a type that holds a comma or a colon" if torn else ""


def _time_problems(path: str, source: Source) -> Iterator[Problem]:
    if source.event_time is None:
        return
    try:
        fields.schema(source.types)
    except ValueError:
        return  # the type of a field is at fault, which is a problem of its own
    found = event_time.mistakes(source.event_time, source.unit, source.types)
    yield from (Problem(path, one.message, one.hint) for one in found)

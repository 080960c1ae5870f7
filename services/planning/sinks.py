"""Checks the key, the headers and the deletions in records of a sink.

Source: JOBS "queries".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl

from holdfast.schemas.checkpoints import SKIPPED
from holdfast.schemas.jobs import JobSpec, Sink
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs.fields import dtype, holding_maps, schema
from holdfast.services.kernel.codecs.protobuf_messages import paths, unlike_names
from holdfast.services.kernel.codecs.sink_schemas import FORMATS, names
from holdfast.services.kernel.dataflow.sink_records import key_column
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, may_fail, result_type
from holdfast.services.kernel.expressions.type_words import in_words
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning import database_tables, files
from holdfast.services.planning.graph import sink_name

RESERVED = ("batch", "status", "query", "job", SKIPPED, "fidelity", "unit", "watermark", "replay-of")
"""Headers that holdfast sets itself."""


def problems(spec: JobSpec, name: str, rows: Stream) -> Iterator[Problem]:
    """Problems of the sink with this name. `rows` is the stream that its query delivers."""
    for query, one in spec.queries.items():
        if sink_name(query) == name and one.sink is not None:
            path = f"queries.{query}.sink"
            if one.sink.parquet is not None:
                yield from files.problems(path, one.sink, rows)
                yield from map_problems(f"{path}.parquet", "files", rows.fields)
                continue
            if one.sink.sql is not None:
                yield from database_tables.problems(path, one.sink, rows)
                yield from _condition_problems(f"{path}.delete_when", one.sink, rows)
                continue
            yield from _key_problems(f"{path}.key", one.input, one.sink, rows)
            yield from _header_problems(f"{path}.headers", one.sink, rows)
            yield from _deletion_problems(f"{path}.delete_when", one.input, one.sink, rows)
            yield from _schema_problems(path, one.sink, rows)


def unregistered(spec: JobSpec) -> Iterator[Problem]:
    """Problems of sinks whose records need the id of a schema that is not registered yet."""
    for query, one in spec.queries.items():
        for what in lacking(one.sink):
            assert one.sink is not None
            whose = f"records of format {one.sink.format}" if what == VALUE else f"keys of format {one.sink.key_format}"
            message = f"is missing: {whose} name the schema of their columns"
            yield Problem(f"queries.{query}.sink.{what}", message, "`holdfast submit` registers it")


VALUE, KEY = "schema_id", "key_schema_id"
"""Settings that hold the id of a schema."""


def lacking(sink: Sink | None) -> list[str]:
    """Settings for the id of a schema that the sink needs and does not have."""
    if sink is None:
        return []
    named = {VALUE: sink.format in FORMATS, KEY: sink.key_format is not None}
    return [name for name, needed in named.items() if needed and getattr(sink, name) is None]


def _schema_problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    for name, given in (("subject", sink.subject), ("schema_id", sink.schema_id)):
        if given is not None and sink.format not in FORMATS:
            yield Problem(f"{path}.{name}", f"a sink of format {sink.format} has none", "leave it out")
    if sink.format not in FORMATS and (sink.record is not None or sink.subject_strategy != "topic"):
        name = "record" if sink.record is not None else "subject_strategy"
        yield Problem(f"{path}.{name}", f"a sink of format {sink.format} has none", "leave it out")
    elif sink.subject_strategy != "topic" and sink.record is None and sink.subject is None:
        yield Problem(f"{path}.record", "is missing: the strategy goes by the record's name", "record: shop.Order")
    elif sink.record is not None and not all(map(_WORD.fullmatch, sink.record.split("."))):
        yield Problem(f"{path}.record", f"'{sink.record}' is no name of a record", "record: shop.Order")
    yield from _named_key_problems(path, sink, rows)
    if sink.format == "arrow":
        yield from map_problems(f"{path}.format", "records of format arrow", rows.fields)
    yield from _name_problems(f"{path}.format", sink.format, rows.fields)
    yield from _number_problems(f"{path}.field_numbers", sink, rows)


def map_problems(path: str, what: str, fields: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of maps where only lists of structs can be written."""
    for column, text in holding_maps(fields):
        hint = f"a select before makes a list of structs, MAP_ENTRIES({column})"
        yield Problem(path, f"column '{column}' is {with_article(text)}, and {what} hold no maps", hint)


def _name_problems(path: str, format: str, fields: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of column names that the format does not allow."""
    if format in ("avro", "protobuf") and (bad := [*names(fields)]):
        message = f"{format} has no field '{bad[0]}': names are letters, digits and _"
        yield Problem(path, message, f'rename it in a select: "{bad[0]}" AS {_plain(bad[0])}')
    elif format == "protobuf" and (alike := next(unlike_names(fields), None)):
        message = f"'{alike[0]}' and '{alike[1]}' are one name in the JSON of protobuf"
        yield Problem(path, message, f'rename one in a select: "{alike[1]}" AS {alike[1].lower()}_2')


def _number_problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    """Problems of the field numbers. All fields need numbers: a field without one would get a number that another field
    may have."""
    if not sink.field_numbers:
        return
    if sink.format != "protobuf":
        yield Problem(path, f"a sink of format {sink.format} has none", "leave them out")
        return
    wanted = [*paths(rows.fields)]
    if unknown := next((one for one in sink.field_numbers if one not in wanted), None):
        yield Problem(f"{path}.{unknown}", f"there is no field '{unknown}'", suggest(unknown, wanted))
    for one in wanted:
        if one not in sink.field_numbers:
            yield Problem(
                f"{path}.{one}", "is missing: either every field has a number here, or none", "leave them out"
            )
            return
    taken = dict[tuple[str, int], str]()
    for one in wanted:
        number, message = sink.field_numbers[one], one.rpartition(".")[0]
        if (other := taken.setdefault((message, number), one)) != one:
            yield Problem(f"{path}.{one}", f"{number} is the number of '{other}', too", "each has a number of its own")


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _named_key_problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    """Problems of a key whose records carry the id of its schema."""
    if sink.key_format is None:
        if sink.key_schema_id is not None:
            yield Problem(f"{path}.key_schema_id", "a key without a key_format has none", "leave it out")
        return
    if sink.format == "arrow" or (sink.key == "json" and not rows.row_key):
        yield Problem(f"{path}.key_format", "these records have no key", "`key` names the column that is one")
    alone = key_column(sink.key, rows.row_key)
    written = [alone] if alone and sink.key_format == "protobuf" else [] if alone else rows.row_key
    fields = {name: rows.fields[name] for name in written if name in rows.fields}
    yield from _name_problems(f"{path}.key_format", sink.key_format, fields)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).lower().lstrip("0123456789") or "name"


def _key_problems(path: str, given: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    key = sink.key
    if key == "json":
        return
    if sink.format == "arrow":
        yield Problem(path, "a record of format arrow holds many rows and has no key", "leave it out")
    elif key == "text" and len(rows.row_key) != 1:
        yield Problem(
            path, f"text is one column, and rows of {given} are identified {_identified(rows)}", _choice(rows)
        )
    elif key != "text" and key not in rows.fields:
        yield Problem(path, f"there is no column '{key}'", suggest(key, ["json", "text", *rows.fields]))
    elif key != "text" and dtype(rows.fields[key]).is_nested():
        yield Problem(path, f"'{key}' is {with_article(rows.fields[key])}, which is no key", _choice(rows))


def _header_problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    if sink.headers and sink.format == "arrow":
        yield Problem(path, "a record of format arrow holds many rows and has no headers of a row", "leave them out")
        return
    for header, column in sink.headers.items():
        if header in RESERVED:
            yield Problem(f"{path}.{header}", "is a header of holdfast", "choose another name")
        elif column not in rows.fields:
            yield Problem(f"{path}.{header}", f"there is no column '{column}'", suggest(column, rows.fields))
        elif dtype(rows.fields[column]).is_nested():
            message = f"'{column}' is {with_article(rows.fields[column])}, which is no header"
            yield Problem(f"{path}.{header}", message, _choice(rows))


def _deletion_problems(path: str, given: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    """Problems of `delete_when`. A record without a value needs a key, and the condition must have a result for every
    row."""
    text = sink.delete_when
    if text is None:
        return
    if sink.format == "arrow":
        yield Problem(path, "a record of format arrow holds many rows and deletes none", "format: json")
    elif sink.key == "json" and not rows.row_key:
        message = f"rows of {given} are identified {_identified(rows)}, so a record without a value names none"
        yield Problem(path, message, f"`key` names the column that does; {_choice(rows)}")
    yield from _condition_problems(path, sink, rows)


def _condition_problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    text = sink.delete_when
    if text is None:
        return
    columns = schema(rows.fields)
    try:
        kind = result_type(compile_expression(text, columns), columns)
    except ExpressionError as error:
        yield from (Problem(path, one) for one in error.mistakes)
        return
    if kind != pl.Boolean:
        yield Problem(path, f"is {in_words(kind)}, not true or false", "compare it with something")
    elif may_fail(text):
        message = "may fail on a row, and a sink has no dead letters of expressions"
        yield Problem(path, message, "compute it in a select before, and name that column here")


def _identified(rows: Stream) -> str:
    return f"by {', '.join(rows.row_key)}" if rows.row_key else "by no column"


def _choice(rows: Stream) -> str:
    plain = [column for column, kind in rows.fields.items() if not dtype(kind).is_nested()]
    return f"name a column: {', '.join(plain[:8])}" if plain else "leave it out"

"""Checks sinks that write tables of databases.

Source: JOBS "queries", docs/decisions/0239.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from holdfast.schemas.jobs import Sink
from holdfast.schemas.plans import Problem
from holdfast.schemas.sink_plans import POSITIONS
from holdfast.services.kernel.codecs.fields import dtype
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.files import OF_RECORDS
from holdfast.services.planning.graph import sink_name

if TYPE_CHECKING:
    from holdfast.services.planning.check import Checked

MOST_BYTES = 63
"""Length of a name in PostgreSQL, which would cut a longer one."""


def problems(path: str, sink: Sink, rows: Stream) -> Iterator[Problem]:
    """Problems of one sink of a table.

    Args:
        path: path of the sink in the job file.
        rows: the stream that its query delivers.
    """
    assert sink.sql is not None
    for name in OF_RECORDS:
        if getattr(sink, name) != Sink.model_fields[name].default:
            yield Problem(f"{path}.{name}", "says how a row becomes a record, and a table has none", "leave it out")
    if sink.key != Sink.model_fields["key"].default:
        yield Problem(f"{path}.key", "is the key of a record, and a table has none", f"sql: {{key: [{sink.key}]}}")
    if sink.sql.table.rpartition(".")[2].lower() == POSITIONS:
        yield Problem(f"{path}.sql.table", "is the table in which holdfast keeps its positions", "choose another name")
    for column, text in rows.fields.items():
        if dtype(text).is_nested():
            message = f"column '{column}' is {with_article(text)}, for which tables have no type"
            yield Problem(f"{path}.sql", message, "a select before takes parts of it, or leaves it out")
        elif len(column.encode()) > MOST_BYTES:
            message = f"the name of column '{column}' is longer than {MOST_BYTES} bytes"
            yield Problem(f"{path}.sql", message, "rename it in a select")
    yield from _key_problems(f"{path}.sql.key", sink.sql.key, rows)
    if sink.delete_when is not None and not sink.sql.key:
        yield Problem(f"{path}.sql.key", "is missing: delete_when deletes the row of a key", _key(rows))


def _key_problems(path: str, key: list[str], rows: Stream) -> Iterator[Problem]:
    for index, column in enumerate(key):
        at = f"{path}[{index}]"
        if column not in rows.fields:
            yield Problem(at, f"there is no column '{column}'", suggest(column, rows.fields))
        elif column in key[:index]:
            yield Problem(at, f"'{column}' is named twice", "name it once")
        elif dtype(rows.fields[column]) == pl.Float64:
            yield Problem(at, f"'{column}' is a float, which is no key", "a column of another type")


def warnings(checked: Checked) -> Iterator[str]:
    """Tables to which rows are appended although they come again with other values."""
    for name, query in checked.spec.queries.items():
        rows = checked.streams[sink_name(name)]
        if query.sink is None or query.sink.sql is None or query.sink.sql.key or not rows.row_key or rows.once:
            continue
        yield (
            f"queries.{name}.sink.sql: rows of {query.input} come again with other values, and are appended one below "
            f"the other; {_key(rows)} keeps the newest of each"
        )


def _key(rows: Stream) -> str:
    return f"key: [{', '.join(rows.row_key)}]" if rows.row_key else "key: [the columns that identify a row]"

"""Sinks: what the key of their records may be.

Source: JOBS "queries".
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs.fields import dtype
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.graph import sink_name


def key_problems(spec: JobSpec, name: str, rows: Stream) -> Iterator[Problem]:
    """Problems of the key of the sink of this name. rows: what its query delivers."""
    for query, one in spec.queries.items():
        if sink_name(query) != name or one.sink is None or one.sink.key == "json":
            continue
        path, key = f"queries.{query}.sink.key", one.sink.key
        if one.sink.format == "arrow":
            yield Problem(path, "a record of format arrow holds many rows and has no key", "leave it out")
        elif key == "text" and len(rows.row_key) != 1:
            identified = f"by {', '.join(rows.row_key)}" if rows.row_key else "by no column"
            yield Problem(
                path, f"text is one column, and rows of {one.input} are identified {identified}", _choice(rows)
            )
        elif key != "text" and key not in rows.fields:
            yield Problem(path, f"there is no column '{key}'", suggest(key, ["json", "text", *rows.fields]))
        elif key != "text" and dtype(rows.fields[key]).is_nested():
            yield Problem(path, f"'{key}' is a {rows.fields[key]}, which is no key", _choice(rows))


def _choice(rows: Stream) -> str:
    plain = [column for column, kind in rows.fields.items() if not dtype(kind).is_nested()]
    return f"name a column: {', '.join(plain[:8])}" if plain else "leave it out"

"""Rows of a sink as a table takes them: the newest of each key, without those that no database takes.

Source: docs/decisions/0239.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.dataflow.sink_records import condition
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.worker.sinks.too_large import with_content

NUL = "\0"


def changes(
    frames: Sequence[pl.DataFrame], fields: Mapping[str, str], key: Sequence[str], delete_when: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows to write, and keys of rows to delete: of several rows of one key the last one counts."""
    rows = pl.concat([one.select(schema(fields).names()) for one in frames])
    if key:
        rows = rows.unique(key, keep="last", maintain_order=True)
    if not delete_when:
        return rows, rows.clear().select(key)
    gone = condition(delete_when, tuple(fields.items()))(rows)
    return rows.filter(~gone), rows.filter(gone).select(key)


def split_unstorable(sink: SinkRows, batch: int) -> tuple[SinkRows, list[DeadLetter]]:
    """The rows that a table takes, and a dead letter for each other: without its whole key, or with text that has a
    NUL, which PostgreSQL does not take and no tool of SQLite shows.
    """
    operator, rows = sink.task.operator, sink.rows
    key = () if operator.sink.sql is None else operator.sink.sql.key
    texts = [one for one in operator.fields if rows.schema[one] == pl.String]
    bad = {f"its value of {one} is null, and it is part of the key": pl.col(one).is_null() for one in key}
    bad |= {f"its value of {one} has a NUL, which tables do not take": _has_nul(one) for one in texts}
    if not bad or not rows.select(pl.any_horizontal(*bad.values()).any()).item():
        return sink, []
    letters, kept = list[DeadLetter](), rows
    for reason, condition_of in bad.items():
        found = encode_json(kept.filter(condition_of), operator.fields)
        letters += [with_content(DeadLetter(operator.name, reason, batch), one) for one in found]
        kept = kept.filter(~condition_of)
    return sink._replace(rows=kept), letters


def _has_nul(column: str) -> pl.Expr:
    return pl.col(column).str.contains(NUL, literal=True).fill_null(False)

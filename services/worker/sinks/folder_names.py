"""Names of the folders for the rows of a sink by `partition_by`, in the form of Hive: `carrier=UA`."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import polars as pl

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.dataflow.unit import SinkRows
from holdfast.services.worker.sinks.too_large import with_content

NULL = "__HIVE_DEFAULT_PARTITION__"
MOST_BYTES = 255
"""Most bytes of a name in most file systems."""
_SAFE = " !$&()+,;@|<>"


def folder_name(column: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{quote(column, safe=_SAFE)}={NULL if value is None else quote(text, safe=_SAFE)}"


def split_unnamed(sink: SinkRows, batch: int) -> tuple[SinkRows, list[DeadLetter]]:
    """The rows whose values can name folders, and a dead letter for each other row."""
    operator, rows = sink.task.operator, sink.rows
    columns = () if operator.sink.parquet is None else operator.sink.parquet.partition_by
    by = [one for one in columns if rows.schema[one] == pl.String]
    bad = [pl.col(column).is_in(long) for column in by if (long := _too_long(column, rows[column]))]
    if not bad:
        return sink, []
    refused = rows.select(pl.any_horizontal(bad).fill_null(False)).to_series()
    reason = f"its value of {' or '.join(by)} names no folder: {MOST_BYTES} bytes are the most"
    letters = [
        with_content(DeadLetter(operator.name, reason, batch), one)
        for one in encode_json(rows.filter(refused), operator.fields)
    ]
    return sink._replace(rows=rows.filter(~refused)), letters


def _too_long(column: str, values: pl.Series) -> list[str]:
    """Values whose folder names would be too long for file systems."""
    longest = values.str.len_bytes().max()
    if not isinstance(longest, int) or 3 * (longest + len(column.encode())) < MOST_BYTES:  # a byte becomes three
        return []
    return [one for one in values.unique().drop_nulls() if len(folder_name(column, one)) > MOST_BYTES]

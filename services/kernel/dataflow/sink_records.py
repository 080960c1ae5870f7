"""A sink task's rows as the records of its topic: their bytes, keys and partitions, a function of the batch alone.

Source: PROTOCOL 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from holdfast.schemas.checkpoints import SKIPPED
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.arrow_records import ArrowReader, Halves, UnfitRecord, encode_arrow, halves
from holdfast.services.kernel.codecs.avro_bytes import Records
from holdfast.services.kernel.codecs.avro_records import RecordReader
from holdfast.services.kernel.codecs.avro_schemas import parse
from holdfast.services.kernel.codecs.fields import optional, schema
from holdfast.services.kernel.codecs.json_encoder import encode_json, keys, text_keys
from holdfast.services.kernel.codecs.keys import partitions
from holdfast.services.kernel.codecs.protobuf_messages import message_schema
from holdfast.services.kernel.codecs.protobuf_records import MessageReader
from holdfast.services.kernel.codecs.protobuf_schemas import message
from holdfast.services.kernel.codecs.protobuf_schemas import parse as parse_protobuf
from holdfast.services.kernel.codecs.registered import HEADER
from holdfast.services.kernel.codecs.registered_encoder import registered_key, registered_keys, registered_values
from holdfast.services.kernel.codecs.sink_schemas import FORMATS, schema_of
from holdfast.services.kernel.expressions.parsing import compile_expression, computing
from holdfast.services.kernel.plans.layout import TaskLayout

Headers = Sequence[tuple[str, bytes]] | None


@dataclass(frozen=True, slots=True)
class SinkRecords:
    """The records of a batch, column by column.

    values: the value of each record; None: the record deletes the row of its key.
    keys: the key of each record; None: no record has a key.
    partitions: the partition of each record; None: Kafka chooses by the key.
    headers: the headers of each record that come from columns; None: there are none.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[int] | None = None
    headers: Sequence[Sequence[tuple[str, bytes]]] | None = None


def halves_of(sink: OperatorPlan) -> Halves | None:
    """A function that splits a record of the sink into two; None if each record is one row."""
    return halves if sink.sink.format == "arrow" else None


def sink_records(task: TaskLayout, rows: pl.DataFrame, batch: int) -> SinkRecords:
    """Encodes rows as records.

    Keyed rows, also those keyed by a column, go to the partition that Kafka's murmur2 chooses. Rows without a key take
    turns by batch. An Arrow record holds rows of many keys and has no key itself; rows of one key always go to the same
    partition.
    """
    operator = task.operator
    row_key, count = list(operator.row_key), max(1, operator.sink.partitions)
    if for_spark(operator):
        return _for_spark(task, rows, batch)
    turn = (batch + task.index) % count
    if operator.sink.format == "arrow":
        return _arrow(rows, operator.fields, partitions(rows, row_key, count) if row_key else turn)
    values: list[bytes | None] = [*_encoded(operator, rows)]
    if text := operator.sink.delete_when:
        for row in condition(text, tuple(operator.fields.items()))(rows).arg_true().to_list():
            values[row] = None
    headers = _headers(rows, operator.sink.headers)
    column = key_column(operator.sink.key, row_key)
    if (format := operator.sink.key_format) is not None and (column or row_key):
        return SinkRecords(values, keys=_named_keys(operator, rows, column, format), headers=headers)
    if column:
        return SinkRecords(values, keys=text_keys(rows[column]), headers=headers)
    if row_key:
        return SinkRecords(values, keys=keys(rows, row_key), headers=headers)
    return SinkRecords(values, partitions=[turn] * len(values), headers=headers)


def _encoded(operator: OperatorPlan, rows: pl.DataFrame) -> list[bytes]:
    """A value for each row. Values with a schema in a registry begin with a byte 0 and the id of the schema."""
    format = operator.sink.format
    if format not in FORMATS:
        return encode_json(rows, operator.fields)
    id, numbers = operator.sink.schema_id, operator.sink.field_numbers
    return registered_values(rows, operator.fields, format, id, numbers)


def _named_keys(operator: OperatorPlan, rows: pl.DataFrame, column: str, format: str) -> list[bytes | None]:
    """Keys that name their schema.

    column: the column that is the whole key; empty: the key is a record.
    """
    id = operator.sink.key_schema_id
    if column:
        return registered_key(rows[column], operator.fields[column], format, id)
    return registered_keys(rows, {name: operator.fields[name] for name in operator.row_key}, format, id)


def _headers(rows: pl.DataFrame, columns: Mapping[str, str] | None) -> list[list[tuple[str, bytes]]] | None:
    """The headers of each row.

    columns: by header, its column.
    """
    if not columns:
        return None
    values = zip(*(text_keys(rows[column]) for column in columns.values()), strict=True)
    return [[(name, one) for name, one in zip(columns, row, strict=True) if one is not None] for row in values]


@lru_cache(maxsize=256)
def condition(text: str, fields: tuple[tuple[str, str], ...]) -> Callable[[pl.DataFrame], pl.Series]:
    """A function that computes for each row whether a condition is true. Raises ExpressionError."""
    compute = computing([compile_expression(text, schema(dict(fields))).alias(_TRUE)])
    return lambda rows: compute(rows)[_TRUE].fill_null(False)


_TRUE = "_true"


def key_column(key: str, row_key: Sequence[str]) -> str:
    """The column whose text is the key of a sink's record; empty if the key is JSON.

    key: the setting Sink.key.
    """
    if key == "json":
        return ""
    return key if key != "text" else row_key[0] if row_key else ""


FINAL, TENTATIVE, CLOSING = "final", "tentative", "closing"
"""Values of the header `status`: a final row; a row computed without the units that are out; a record without a value
that withdraws a tentative row.
"""


class RowsOf:
    """The records that a query of one generation writes, recognised by their headers: other programs may write to its
    topic, too.
    """

    def __init__(self, job: str, generation: str, query: str) -> None:
        self._job = f"{job}@{generation}".encode()
        self._query = query.encode()

    def headers(self, batch: int, skipped: int = 0) -> list[tuple[str, bytes]]:
        """The headers of each record of a batch.

        skipped: the number of records that its unit has skipped so far (precision `gap`).
        """
        return self._headers(batch, FINAL) + ([(SKIPPED, str(skipped).encode())] if skipped else [])

    def tentative_headers(self, batch: int, fidelity: float, unit: str, watermark: int) -> list[tuple[str, bytes]]:
        """The headers of each tentative row of a batch.

        unit: the unit of the sink.
        watermark: the watermark of the batch at the sink.
        """
        known = {"fidelity": f"{fidelity:.4g}", "unit": unit, "watermark": str(watermark)}
        return [*self._headers(batch, TENTATIVE), *((name, value.encode()) for name, value in known.items())]

    def closing_headers(self, batch: int) -> list[tuple[str, bytes]]:
        """The headers of records that withdraw tentative rows.

        batch: the stable batch that made them due.
        """
        return self._headers(batch, CLOSING)

    def _headers(self, batch: int, status: str) -> list[tuple[str, bytes]]:
        return [("batch", str(batch).encode()), ("status", status.encode()), ("query", self._query), ("job", self._job)]

    def batch(self, headers: Headers) -> int | None:
        """The batch of a final row; None for any other record.

        Records without the header `job` are of a former version, and count by their query.
        """
        batch = dict(headers or ()).get("batch", b"")
        return int(batch) if self.status(headers) == FINAL and batch.isdigit() else None

    def status(self, headers: Headers) -> str | None:
        """FINAL, TENTATIVE or CLOSING; None if the record is not of this query."""
        found = dict(headers or ())
        ours = found.get("query") == self._query and found.get("job", self._job) == self._job
        status = found.get("status", b"").decode(errors="replace")
        return status if ours and status in (FINAL, TENTATIVE, CLOSING) else None

    def made_by(self, headers: Headers, unit: str) -> int | None:
        """The watermark of a tentative row; None if the row is of another unit or has no watermark."""
        found = dict(headers or ())
        watermark = found.get("watermark", b"")
        ours = found.get("unit") == unit.encode() and watermark.removeprefix(b"-").isdigit()
        return int(watermark) if ours else None


def for_spark(operator: OperatorPlan) -> bool:
    """True if a sink writes the rows that a Spark operator reads."""
    return operator.sink.for_spark


def _for_spark(task: TaskLayout, rows: pl.DataFrame, batch: int) -> SinkRecords:
    """Records for a Spark operator. No partition has two writers, so the watermark of its rows never decreases."""
    own = range(task.index, task.operator.sink.partitions, task.operator.parallelism)
    values = encode_json(rows, task.operator.fields)
    return SinkRecords(values, partitions=[own[batch % len(own)]] * len(values))


def json_rows(sink: OperatorPlan) -> Callable[[bytes], Sequence[bytes]]:
    """A function that returns the rows in a record of the sink, each as a JSON object. The function may raise
    UnfitRecord.

    Raises NoSchema of protobuf_schemas.py if the Protobuf library is missing.
    """
    format = sink.sink.format
    if format == "json-schema":
        return lambda value: [value[HEADER:]]
    if format not in ("arrow", "avro", "protobuf"):
        return lambda value: [value]
    fields = {name: optional(text) for name, text in sink.fields.items()}  # bounds of a window may be null
    if format == "protobuf":
        read = _protobuf_rows(tuple(fields.items()), tuple(sink.sink.field_numbers.items()))
    else:
        read = ArrowReader(fields).read if format == "arrow" else _avro_rows(fields)
    return lambda value: encode_json(read(value), fields)


def _avro_rows(fields: dict[str, str]) -> Callable[[bytes | None], pl.DataFrame]:
    """A reader of the one row in an Avro record. The reader may raise UnfitRecord."""
    reader, first = RecordReader.of(parse(schema_of("avro", fields)), fields), np.zeros(1, np.int64)

    def read(value: bytes | None) -> pl.DataFrame:
        records = Records([value], HEADER)
        columns = reader.read(records, first)
        if records.refused:
            raise UnfitRecord(records.refused[0])
        return pl.DataFrame([column.alias(name) for name, column in zip(fields, columns, strict=True)])

    return read


@lru_cache(maxsize=64)
def _protobuf_rows(
    columns: tuple[tuple[str, str], ...], numbers: tuple[tuple[str, int], ...]
) -> Callable[[bytes | None], pl.DataFrame]:
    """A reader of the one row in a Protobuf message. The reader may raise UnfitRecord."""
    fields = dict(columns)
    reader = MessageReader(message(parse_protobuf(message_schema(fields, given=dict(numbers))), (0,)), fields)

    def read(value: bytes | None) -> pl.DataFrame:
        columns, refused = reader.read([(value or b"")[HEADER + 1 :]])
        if refused:
            raise UnfitRecord(refused[0])
        return pl.DataFrame([column.alias(name) for name, column in zip(fields, columns, strict=True)])

    return read


def _arrow(rows: pl.DataFrame, fields: dict[str, str], where: np.ndarray | int) -> SinkRecords:
    values: list[bytes] = []
    into: list[int] = []
    for partition in [where] if isinstance(where, int) else np.unique(where).tolist():
        some = encode_arrow(rows if isinstance(where, int) else rows.filter(pl.Series(where == partition)), fields)
        values += some
        into += [partition] * len(some)
    return SinkRecords(values, partitions=into)

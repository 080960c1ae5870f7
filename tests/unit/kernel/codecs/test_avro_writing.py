"""Avro records of a sink: fastavro reads what was written, and so does the reader of a source."""

from __future__ import annotations

import io
import json
from datetime import UTC
from decimal import Decimal
from typing import Any

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.avro_encoder import encode_avro
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import optional, schema
from holdfast.services.kernel.codecs.json_schemas import fields as json_fields
from holdfast.services.kernel.codecs.sink_schemas import names, schema_of
from tests.support.avro import Known
from tests.support.examples import examples

FIELDS = {
    "i": "int", "s": "string?", "f": "float", "b": "bool", "r": "bytes?", "t": "timestamp", "d": "date?",
    "n": "decimal(20,3)", "l": "list<string?>", "o": "struct<a: int?, l: list<int>, t: timestamp?>?",
    "m": "list<struct<x: string?>>",
}  # fmt: skip
_INT = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
_TIME = st.datetimes(timezones=st.just(UTC))
_ROW = st.fixed_dictionaries({
    "i": _INT, "s": st.none() | st.text(max_size=70), "f": st.floats(allow_nan=False), "b": st.booleans(),
    "r": st.none() | st.binary(max_size=5), "t": _TIME, "d": st.none() | st.dates(),
    "n": st.decimals(-(10**16), 10**16, places=3),
    "l": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    "o": st.none() | st.fixed_dictionaries({
        "a": st.none() | _INT, "l": st.lists(_INT, max_size=2), "t": st.none() | _TIME}),
    "m": st.lists(st.fixed_dictionaries({"x": st.none() | st.text(max_size=2)}), max_size=2),
})  # fmt: skip


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema(FIELDS))


@examples(each_run=40, with_long=200)
@given(st.lists(_ROW, min_size=1, max_size=5), st.integers(0, 5))
def test_both_readers_read_what_was_written_and_batches_change_nothing(rows: list[dict[str, Any]], at: int) -> None:
    given, head = frame(rows), b"\0\0\0\0\1"
    records = encode_avro(given, FIELDS, head)
    own = fastavro.parse_schema(json.loads(schema_of("avro", FIELDS)))
    read: list[Any] = [fastavro.schemaless_reader(io.BytesIO(one[len(head) :]), own, None) for one in records]
    assert read == given.to_dicts()
    assert records == encode_avro(given[:at], FIELDS, head) + encode_avro(given[at:], FIELDS, head)
    wanted = {name: optional(text) for name, text in FIELDS.items()}
    decoder = Decoder(wanted, "avro", schemas=Known({1: json.loads(schema_of("avro", FIELDS))}))
    found = decoder.decode(records, [0] * len(records))
    assert found.refused == []
    assert found.rows.drop("_time").to_dicts() == given.to_dicts()


@pytest.mark.parametrize("number", ["0.000", "-0.001", "0.127", "0.128", "-0.128", "-0.129", "99999999999999999.999"])
def test_decimals_take_the_fewest_bytes(number: str) -> None:
    fields = {"n": "decimal(20,3)"}
    (record,) = encode_avro(pl.DataFrame({"n": [Decimal(number)]}, schema=schema(fields)), fields)
    unscaled = int(Decimal(number).scaleb(3))
    assert record[2:] == unscaled.to_bytes(record[1] // 2, "big", signed=True)
    bits = 8 * (record[1] // 2 - 1) - 1  # a byte less would not hold it
    assert bits < 0 or not -(2**bits) <= unscaled < 2**bits


def test_a_time_outside_the_calendar_is_null_and_no_row_is_no_record() -> None:
    fields = {"d": "date", "t": "timestamp"}
    days = pl.Series("d", [5_000_000], dtype=pl.Int32).cast(pl.Date)
    times = pl.Series("t", [2**62], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    assert encode_avro(pl.DataFrame([days, times]), fields) == [b"\0\0"]
    assert encode_avro(frame([]), FIELDS) == []


def test_the_schema_depends_on_the_columns_alone_and_a_json_schema_gives_them_back() -> None:
    assert schema_of("avro", FIELDS) == schema_of("avro", dict(FIELDS))
    shown = json_fields(schema_of("json-schema", {"i": "int", "t": "timestamp", "o": "struct<d: date, l: list<bool>>"}))
    assert shown == {"i": "int?", "t": "timestamp?", "o": "struct<d: date?, l: list<bool?>?>?"}
    assert list(names({"a": "int", "PM2.5": "int", "o": "list<struct<x-y: int>>"})) == ["PM2.5", "x-y"]

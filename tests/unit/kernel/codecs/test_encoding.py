"""Sink records: JSON that any reader takes, and that reads back as the same row."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from services.kernel.codecs.decoding import Decoder
from services.kernel.codecs.encoding import encode_json, keys
from services.kernel.codecs.fields import schema, with_time

FIELDS = {
    "s": "string?",
    "i": "int?",
    "f": "float?",
    "b": "bool?",
    "t": "timestamp?",
    "d": "date?",
    "raw": "bytes?",
    "m": "decimal(12,2)?",
    "l": "list<timestamp?>?",
    "o": "struct<n: int, inner: list<bytes>, m: decimal(12,2)?>?",
}
FIVE = datetime(2013, 1, 1, 5, tzinfo=UTC)


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{**row, "_time": 0} for row in rows], schema=with_time(schema(FIELDS)))


def test_a_row_is_an_object_of_its_fields_in_their_order() -> None:
    row = {"s": 'a"\n', "i": 1, "f": 0.5, "b": True, "t": FIVE, "d": FIVE.date(), "raw": b"hi", "m": Decimal("1.10")}
    row |= {"l": [FIVE, None], "o": {"n": 1, "inner": [b"\xff"], "m": Decimal("2.00")}}
    (record,) = encode_json(frame(row), FIELDS)
    assert record.decode() == (
        '{"s":"a\\"\\n","i":1,"f":0.5,"b":true,"t":"2013-01-01T05:00:00Z","d":"2013-01-01","raw":"aGk=","m":"1.10",'
        '"l":["2013-01-01T05:00:00Z",null],"o":{"n":1,"inner":["/w=="],"m":"2.00"}}'
    )


def test_nothing_gives_nothing_and_null_is_null() -> None:
    assert encode_json(frame(), FIELDS) == []
    (record,) = encode_json(frame({}), FIELDS)
    assert json.loads(record) == dict.fromkeys(FIELDS)


def test_json_has_no_nan_and_no_infinity() -> None:
    some = encode_json(frame({"f": float("nan")}, {"f": float("inf")}, {"f": 1e300}), FIELDS)
    assert [json.loads(record)["f"] for record in some] == [None, None, 1e300]


def test_a_fraction_is_written_where_there_is_one() -> None:
    some = encode_json(frame({"t": FIVE}, {"t": FIVE.replace(microsecond=5)}), FIELDS)
    assert [json.loads(record)["t"] for record in some] == ["2013-01-01T05:00:00Z", "2013-01-01T05:00:00.000005Z"]


def test_keys_are_arrays_of_the_key_columns() -> None:
    rows = frame({"s": "EWR", "t": FIVE}, {"s": None, "t": FIVE})
    assert keys(rows, ["s", "t"]) == [b'["EWR","2013-01-01T05:00:00Z"]', b'[null,"2013-01-01T05:00:00Z"]']
    assert keys(rows, []) == [None, None]
    assert keys(frame(), ["s"]) == []


def test_different_keys_are_written_differently_and_equal_ones_alike() -> None:
    floats = [{"f": value} for value in (None, float("nan"), float("inf"), 0.0, -0.0)]
    found = keys(frame(*floats), ["f"])
    assert found == [b"[null]", b'["nan"]', b'["inf"]', b"[0.0]", b"[0.0]"]


moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
int64 = st.integers(-(2**63), 2**63 - 1)
money = st.decimals(-(10**9), 10**9, places=2)
value = {
    "s": st.text(st.characters(exclude_categories=["Cs"])),
    "i": int64,
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "t": moments,
    "d": st.dates(date(1, 1, 1)),
    "raw": st.binary(),
    "m": money,
    "l": st.lists(st.none() | moments, max_size=3),
    "o": st.fixed_dictionaries({"n": int64, "inner": st.lists(st.binary(), max_size=2), "m": st.none() | money}),
}
rows = st.lists(st.fixed_dictionaries({name: st.none() | one for name, one in value.items()}), max_size=4)


@given(rows)
def test_records_read_back_as_the_same_rows(some: list[dict[str, Any]]) -> None:
    records = encode_json(frame(*some), FIELDS)
    decoded = Decoder(FIELDS).decode(records, [0] * len(records))
    assert decoded.refused == []
    assert decoded.rows.equals(frame(*some))


@given(rows)
def test_a_record_is_a_function_of_its_row(some: list[dict[str, Any]]) -> None:
    """Also among many rows, whose times are written another way."""
    alone = [encode_json(frame(row), FIELDS)[0] for row in some]
    assert encode_json(frame(*some), FIELDS) == alone
    assert encode_json(frame(*some * 40), FIELDS) == alone * 40
    assert keys(frame(*some * 40), ["t", "m"]) == keys(frame(*some), ["t", "m"]) * 40

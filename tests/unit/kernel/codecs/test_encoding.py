"""Sink records: JSON that any reader takes, and that reads back as the same row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.arrow_records import ArrowReader, encode_arrow
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.codecs.json_encoder import encode_json, keys
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US
from tests.support.examples import examples

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
        '{"s":"a\\"\\n","i":1,"f":0.5,"b":true,"t":"2013-01-01T05:00:00.000000Z","d":"2013-01-01","raw":"aGk=","m":"1.10",'
        '"l":["2013-01-01T05:00:00.000000Z",null],"o":{"n":1,"inner":["/w=="],"m":"2.00"}}'
    )


def test_nothing_gives_nothing_and_null_is_null() -> None:
    assert encode_json(frame(), FIELDS) == []
    (record,) = encode_json(frame({}), FIELDS)
    assert json.loads(record) == dict.fromkeys(FIELDS)


def test_json_has_no_nan_and_no_infinity() -> None:
    some = encode_json(frame({"f": float("nan")}, {"f": float("inf")}, {"f": 1e300}), FIELDS)
    assert [json.loads(record)["f"] for record in some] == [None, None, 1e300]


def test_times_have_six_digits_of_a_second_so_that_they_sort_as_texts() -> None:
    some = encode_json(frame({"t": FIVE}, {"t": FIVE.replace(microsecond=5)}), FIELDS)
    assert [json.loads(record)["t"] for record in some] == [
        "2013-01-01T05:00:00.000000Z",
        "2013-01-01T05:00:00.000005Z",
    ]


def test_keys_are_arrays_of_the_key_columns() -> None:
    rows = frame({"s": "EWR", "t": FIVE}, {"s": None, "t": FIVE})
    assert keys(rows, ["s", "t"]) == [b'["EWR","2013-01-01T05:00:00.000000Z"]', b'[null,"2013-01-01T05:00:00.000000Z"]']
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


LEAST, MOST = -(2**63), 2**63 - 1
EDGES: dict[str, list[Any]] = {
    "s": ["", "ä", "\U0001f600"],
    "i": [LEAST, MOST, 0],
    "f": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1e308],
    "b": [True, False],
    "t": [LEAST, MOST, OLDEST_US - 1, OLDEST_US, -1, 0, 1, NEWEST_US, NEWEST_US + 1],
    "d": [-(2**31), 2**31 - 1, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897],
    "raw": [b"", b"\xff"],
    "m": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999.99")],
    "tiny": [Decimal("0E-8"), Decimal("1E-8"), Decimal("-1E-8"), Decimal("9.99999999")],
    "l": [[], [None], [LEAST, MOST, 0], [NEWEST_US + 1]],
    "o": [{"t": NEWEST_US + 1, "d": -719_163, "m": Decimal("0E-8")}, {"t": None, "d": 0, "m": None}],
}
EDGE_FIELDS = FIELDS | {
    "tiny": "decimal(9,8)?",
    "l": "list<timestamp?>?",
    "o": "struct<t: timestamp?, d: date?, m: decimal(9,8)?>?",
}
PHYSICAL = {
    "t": pl.Int64(),
    "d": pl.Int32(),
    "l": pl.List(pl.Int64()),
    "o": pl.Struct({"t": pl.Int64(), "d": pl.Int32(), "m": pl.Decimal(9, 8)}),
}
draws: dict[str, st.SearchStrategy[Any]] = {
    "s": value["s"],
    "i": int64,
    "f": st.floats(),
    "b": st.booleans(),
    "t": int64,
    "d": st.integers(-(2**31), 2**31 - 1),
    "raw": st.binary(max_size=4),
    "m": money,
    "tiny": st.decimals(-9, 9, places=8),
    "l": st.lists(st.none() | int64, max_size=3),
    "o": st.fixed_dictionaries({"t": st.none() | int64, "d": st.none(), "m": st.none()}),
}
edge_rows = st.lists(
    st.fixed_dictionaries({n: st.none() | st.sampled_from(EDGES[n]) | draws[n] for n in EDGES}), min_size=1, max_size=8
)


def physical_frame(some: list[dict[str, Any]], count: int) -> pl.DataFrame:
    """So many rows, these in turn. Times and dates are numbers, for Python has no words for those outside."""
    types = schema(EDGE_FIELDS)
    columns = [pl.Series(n, [row[n] for row in some], dtype=PHYSICAL.get(n, types[n])).cast(types[n]) for n in types]
    rows = pl.DataFrame(columns)
    return pl.concat([rows] * (count // len(some) + 1)).head(count)


def depend_on_their_row_alone(some: list[dict[str, Any]], counts: Sequence[int]) -> None:
    one = [physical_frame([row], 1) for row in some]
    alone = [encode_json(row, EDGE_FIELDS)[0] for row in one]
    key = ["t", "d", "m", "tiny", "f", "i"]
    keyed = [keys(row, key)[0] for row in one]
    for count in counts:
        batch = physical_frame(some, count)
        times = count // len(some) + 1
        assert encode_json(batch, EDGE_FIELDS) == (alone * times)[:count]
        assert keys(batch, key) == (keyed * times)[:count]
        read = pl.concat([ArrowReader(EDGE_FIELDS).read(record) for record in encode_arrow(batch, EDGE_FIELDS)])
        assert encode_json(read, EDGE_FIELDS) == (alone * times)[:count], "what Arrow holds is what JSON holds"


@examples(each_run=20, with_long=100)
@given(edge_rows)
def test_a_record_and_its_key_depend_on_their_row_alone(some: list[dict[str, Any]]) -> None:
    depend_on_their_row_alone(some, (31, 32, 33))


def test_records_of_edge_values_depend_on_their_row_alone_in_batches_of_any_size() -> None:
    edges = [{name: EDGES[name][index % len(EDGES[name])] for name in EDGES} for index in range(12)]
    depend_on_their_row_alone(edges, (1, 31, 32, 33, 10_000))


@given(st.lists(int64 | st.sampled_from(EDGES["t"]), min_size=2, max_size=50))
def test_times_are_written_in_their_order_and_those_outside_the_calendar_are_null(times: list[int]) -> None:
    column = pl.Series("t", times, dtype=pl.Int64).cast(pl.Datetime("us", "UTC")).to_frame()
    texts = [json.loads(record)["t"] for record in encode_json(column, {"t": "timestamp?"})]
    assert [text is None for text in texts] == [not OLDEST_US <= time <= NEWEST_US for time in times]
    known = [(time, text) for time, text in zip(times, texts, strict=True) if text is not None]
    assert [text for _, text in sorted(known)] == sorted(text for _, text in known)


@given(st.lists(st.decimals(-9, 9, places=8), min_size=1, max_size=40))
def test_decimals_are_plain_digits_with_the_scale_of_their_type(some: list[Decimal]) -> None:
    texts = [json.loads(r)["m"] for r in encode_json(pl.DataFrame({"m": some}, {"m": pl.Decimal(9, 8)}), {"m": ""})]
    assert texts == [f"{number + 0:.8f}" for number in some]


@given(rows)
def test_a_record_is_a_function_of_its_row(some: list[dict[str, Any]]) -> None:
    """Also among many rows, whose times are written another way."""
    alone = [encode_json(frame(row), FIELDS)[0] for row in some]
    assert encode_json(frame(*some), FIELDS) == alone
    assert encode_json(frame(*some * 40), FIELDS) == alone * 40
    assert keys(frame(*some * 40), ["t", "m"]) == keys(frame(*some), ["t", "m"]) * 40

"""Arrow records: many rows in one, read strictly, written bounded, and unchanged from one end to the other."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import arrow_records, keys
from holdfast.services.kernel.codecs.arrow_records import ArrowReader, UnfitRecord, encode_arrow
from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.fields import TIME
from holdfast.services.kernel.dataflow.sink_records import json_rows, sink_records
from holdfast.services.kernel.plans.layout import TaskLayout

FIELDS = {
    "id": "int",
    "at": "timestamp",
    "name": "string?",
    "score": "float?",
    "price": "decimal(5,2)?",
    "day": "date?",
    "raw": "bytes?",
    "ok": "bool?",
    "tags": "list<string>?",
    "place": "struct<x: int, seen: timestamp?>?",
}
NOW_MS = 1_357_016_400_000
AT = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "id": -(2**63),
        "at": AT,
        "name": 'ä "quoted"\n🙂\u0000',
        "score": -0.0,
        "price": Decimal("-999.99"),
        "day": date(1, 1, 1),
        "raw": b"\x00\xff",
        "ok": False,
        "tags": ["", "x", None],
        "place": {"x": 2**63 - 1, "seen": AT},
    },
    {"id": 2**63 - 1, "at": AT, **dict.fromkeys([*FIELDS][2:]), "score": float("nan")},
]
SMALL = {"id": "int", "at": "timestamp", "note": "string?"}


def frame(rows: list[dict[str, Any]] = ROWS, fields: dict[str, str] = FIELDS) -> pl.DataFrame:
    return ArrowReader(fields).nothing.vstack(pl.DataFrame(rows, schema=ArrowReader(fields).nothing.schema))


def small(*ids: int, at: datetime = AT) -> bytes:
    return stream(pl.DataFrame({"id": list(ids), "at": [at] * len(ids), "note": ["n"] * len(ids)}))


def stream(rows: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    rows.write_ipc_stream(out)
    return out.getvalue()


def file_of(rows: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    rows.write_ipc(out)
    return out.getvalue()


def of_arrow(**columns: pa.Array) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode(*values: bytes | None, fields: dict[str, str] = SMALL) -> Decoded:
    return Decoder(fields, "arrow", "at").decode(values, [NOW_MS] * len(values))


def reason(value: bytes | None, fields: dict[str, str] = SMALL) -> str:
    """Why it is refused, between two that are not."""
    good = small(1, 2) if fields is SMALL else encode_arrow(frame(fields=fields), fields)[0]
    decoded = decode(good, value, good, fields=fields)
    assert decoded.kept.tolist() == [0, 0, 2, 2]
    ((index, text),) = decoded.refused
    assert index == 1
    return text


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_record_gives_many_rows_each_with_its_record_and_time() -> None:
    decoded = decode(small(1, 2), small(), small(3))
    assert decoded.rows["id"].to_list() == [1, 2, 3]
    assert decoded.kept.tolist() == [0, 0, 2]
    assert decoded.rows[TIME].to_list() == [-1, -1, -1]
    assert decoded.rows.columns == [*SMALL, TIME]


def test_every_value_passes_unchanged_through_a_sink_and_a_source() -> None:
    found = decode(*encode_arrow(frame(), FIELDS), fields=FIELDS).rows.to_dicts()
    assert isnan(found[1].pop("score"))
    assert str(found[0]["score"]) == "-0.0"
    for row, given_row in zip(found, ROWS, strict=True):
        assert {name: row[name] for name in row if name != TIME} == {
            name: given_row[name] for name in given_row if name in row
        }


@pytest.mark.parametrize("write", [stream, file_of])
def test_columns_are_found_by_name_and_others_ignored(write: Callable[[pl.DataFrame], bytes]) -> None:
    given_rows = frame().select(pl.lit(1).alias("more"), *reversed(FIELDS))
    assert decode(write(given_rows), fields=FIELDS).rows.drop(TIME).equals(frame())


def test_lossless_types_are_widened_and_nullable_columns_may_be_missing() -> None:
    value = of_arrow(
        id=pa.array([1, 2], pa.int8()),
        at=pa.array([0, 1], pa.timestamp("s", "America/New_York")),
        score=pa.array([0.5, None], pa.float32()),
        price=pa.array([Decimal("1.5"), None], pa.decimal128(30, 1)),
    )
    (one, two) = decode(value, fields=FIELDS).rows.to_dicts()
    assert (one["id"], one["score"], one["price"], one["name"]) == (1, 0.5, Decimal("1.50"), None)
    assert two["at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


IDS, TIMES = pa.array([1, 2]), pa.array([0, 0], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "the record is empty"),
        (b"", "the record is empty"),
        (b'{"id": 1}', "no Arrow stream: "),
        (b"ARROW1", "no Arrow stream: "),
        (of_arrow(id=IDS), "at: is missing, expected timestamp"),
        (of_arrow(id=pa.array(["1", "2"]), at=TIMES), "id: expected int, found string"),
        (of_arrow(id=pa.array([1, 2], pa.uint64()), at=TIMES), "id: expected int, found uint64"),
        (of_arrow(id=pa.array([1, None]), at=TIMES), "id: expected int, found null in row 1"),
        (of_arrow(id=IDS, at=pa.array([0, 2**62], pa.timestamp("us"))), "at: a time outside the years 1 to 9999"),
        (of_arrow(id=IDS, at=pa.array([0, 2**62], pa.timestamp("s"))), "at: a time outside the years 1 to 9999"),
        (
            of_arrow(id=IDS, at=pa.array([0, NOW_MS + 3_600_001], pa.timestamp("ms"))),
            "at: 2013-01-01T06:00:00.001000Z is more than 1 h ahead of the record's timestamp in row 1",
        ),
        (
            of_arrow(id=IDS, at=TIMES, note=pa.array(["a", "b"]).dictionary_encode()),
            "note: expected string?, found dictionary<values=string, indices=int32, ordered=0>",
        ),
        (of_arrow(id=pa.nulls(arrow_records.MAX_ROWS + 1)), "over 1,000,000 rows in a record"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_whole(value: bytes | None, text: str) -> None:
    assert reason(value).startswith(text)


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("day", pa.array([2**31 - 1], pa.int32()).cast(pa.date32())),
        ("place", pa.array([{"x": 1, "seen": 2**62}], pa.struct({"x": pa.int64(), "seen": pa.timestamp("us", "UTC")}))),
        ("price", pa.array([Decimal("1000.00")], pa.decimal128(6, 2))),
        ("tags", pa.array([[1]], pa.list_(pa.int64()))),
        ("tags", pa.array([[None]], pa.list_(pa.null()))),
    ],
)
def test_nested_fields_are_checked_too(column: str, array: pa.Array) -> None:
    value = of_arrow(id=pa.array([1]), at=pa.array([0], pa.timestamp("us")), **{column: array})
    assert reason(value, FIELDS).startswith(f"{column}: ")


def test_a_name_inside_a_column_that_is_no_utf_8_refuses_the_record() -> None:
    value = of_arrow(tags=pa.array([[{"inner": 1}]], pa.list_(pa.struct({"inner": pa.int64()}))))
    reader = ArrowReader({"tags": "list<struct<inner: int?>>"})
    assert reader.read(value).rows() == [([{"inner": 1}],)]
    with pytest.raises(UnfitRecord, match="no Arrow stream: 'utf-8' codec can't decode"):
        reader.read(value.replace(b"inner", b"inn\xffr"))
    with pytest.raises(UnfitRecord, match="tags: expected"):
        reader.read(value.replace(b"inner", b"inn\0r"))


def test_many_rows_that_share_one_long_text_are_not_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_records, "MAX_TEXT_BYTES", 1000)
    value = stream(pl.DataFrame({"id": range(20), "at": [AT] * 20, "note": ["x" * 100] * 20}))
    assert reason(value) == "note: over 0 MiB of text in a record"


WHOLE = [encode_arrow(frame(), FIELDS)[0], stream(frame()), file_of(frame())]
CHANGE = st.tuples(st.integers(0, max(map(len, WHOLE))), st.binary(max_size=8), st.integers(0, 8))


@given(st.sampled_from(WHOLE), st.lists(CHANGE, min_size=1, max_size=4))
def test_a_record_however_broken_is_rows_or_refused(value: bytes, changes: list[tuple[int, bytes, int]]) -> None:
    for at, put, cut in changes:
        value = value[:at] + put + value[at + cut :]
    decoded = decode(value, fields=FIELDS)
    assert decoded.rows.height <= arrow_records.MAX_ROWS
    assert not (decoded.rows.height and decoded.refused)
    decoded.rows.to_dicts()


def test_no_damaged_byte_leads_outside_the_record() -> None:
    """Arrow's own validation lets a view point anywhere; polars then reads there."""
    fields = {"at": "timestamp", "note": "string", "tags": "list<string>"}
    whole = stream(pl.DataFrame({"at": [AT], "note": ["x" * 20], "tags": [["y" * 20]]}))
    for place in range(len(whole)):
        value = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        decode(value, fields=fields).rows.to_dicts()


@given(st.binary(max_size=200), st.booleans())
def test_bytes_of_any_kind_are_refused(value: bytes, as_file: bool) -> None:
    assert decode(b"ARROW1" + value if as_file else value).refused or not decode(value).rows.height


# -- writing ----------------------------------------------------------------------------------------------------------


def task(fields: dict[str, str], row_key: tuple[str, ...] = (), partitions: int = 4) -> TaskLayout:
    params = {"query": "q", "topic": "t", "format": "arrow", "partitions": partitions}
    sink = OperatorPlan("q", "sink", 1, ("o",), params, fields, row_key)
    return TaskLayout("q-0", 0, sink, (), (), (), None)


def test_records_are_bounded_and_hold_all_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_records, "MAX_RECORD_BYTES", 2_000)
    rows = pl.DataFrame({"id": range(500), "at": [AT] * 500, "note": ["x" * (n % 50) for n in range(500)]})
    rows = ArrowReader(SMALL).read(stream(rows))
    found = encode_arrow(rows, SMALL)
    assert len(found) > 2
    assert max(map(len, found)) <= 2_000
    assert decode(*found).rows.drop(TIME).equals(rows)
    assert encode_arrow(rows.head(0), SMALL) == []
    assert len(encode_arrow(rows.head(1).with_columns(note=pl.lit("x" * 5_000)), SMALL)) == 1


def test_equal_rows_give_equal_bytes() -> None:
    assert encode_arrow(frame(), FIELDS) == encode_arrow(pl.concat([frame(), frame()]).slice(2), FIELDS)


def test_rows_of_a_key_go_to_one_partition_and_others_take_turns() -> None:
    rows = ArrowReader(SMALL).read(small(*range(50), *range(50)))
    found = sink_records(task(SMALL, ("id",)), rows, 3)
    assert found.keys is None
    assert found.partitions is not None
    for value, partition in zip(found.values, found.partitions, strict=True):
        part = ArrowReader(SMALL).read(value)
        assert set(keys.partitions(part, ["id"], 4).tolist()) == {partition}
        assert part["id"].unique().len() * 2 == part.height
    assert sorted(found.partitions) == [0, 1, 2, 3]
    assert sink_records(task(SMALL), rows, 3).partitions == [3]


def test_rows_are_shown_as_json() -> None:
    sink = task(SMALL).operator
    value = small(1)
    assert json_rows(sink)(value) == [b'{"id":1,"at":"1969-12-31T23:59:59.999999Z","note":"n"}']
    with pytest.raises(UnfitRecord):
        json_rows(sink)(b"other")

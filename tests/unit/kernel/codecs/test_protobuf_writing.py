"""Protobuf messages of a sink: the library reads what was written, and so does the reader of a source."""

from __future__ import annotations

import base64
from datetime import date
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import optional, schema
from holdfast.services.kernel.codecs.protobuf_encoder import encode_protobuf
from holdfast.services.kernel.codecs.protobuf_messages import Unlike, extended, message_schema, paths, unlike_names
from holdfast.services.kernel.codecs.protobuf_schemas import message, parse
from holdfast.services.kernel.codecs.registered import WriterSchema
from tests.support.examples import examples
from tests.unit.kernel.codecs.test_avro_writing import _INT, _ROW, _TIME, FIELDS

MORE = FIELDS | {"deep": "list<list<int>?>", "z": "list<float>", "w": "list<timestamp>", "y": "list<bool?>"}
ROWS = st.builds(
    lambda row, more: {**row, **more},
    _ROW,
    st.fixed_dictionaries({
        "deep": st.lists(st.none() | st.lists(_INT, max_size=2), max_size=2),
        "z": st.lists(st.floats(allow_nan=False), max_size=3), "w": st.lists(_TIME, max_size=2),
        "y": st.lists(st.none() | st.booleans(), max_size=3),
    }),
)  # fmt: skip
NUMBERS = {path: 40_000 - place for place, path in enumerate(paths(MORE))}


class _Known:
    def __init__(self, text: str) -> None:
        self._schema = WriterSchema("PROTOBUF", text)

    def find(self, id: int) -> WriterSchema | None:
        return self._schema


def read_back(records: list[bytes], fields: dict[str, str], text: str) -> list[dict[str, Any]]:
    found = Decoder({name: optional(kind) for name, kind in fields.items()}, "protobuf", schemas=_Known(text)).decode(
        records, [0] * len(records)
    )
    assert found.refused == []
    return found.rows.drop("_time").to_dicts()


def without_null_lists(value: Any) -> Any:
    """A repeated field has no null: such a list is an empty one."""
    if isinstance(value, dict):
        return {
            name: [] if name in ("l", "m") and one is None else without_null_lists(one) for name, one in value.items()
        }
    return value


@examples(each_run=20, with_long=100)
@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 5), st.booleans())
def test_both_readers_read_what_was_written_and_batches_change_nothing(
    rows: list[dict[str, Any]], at: int, numbered: bool
) -> None:
    numbers = NUMBERS if numbered else {}
    frame, head, text = (
        pl.DataFrame(rows, schema=schema(MORE)),
        b"\0\0\0\0\1\0",
        message_schema(MORE, "shop.Row", numbers),
    )
    records = encode_protobuf(frame, MORE, head, numbers)
    assert records == encode_protobuf(frame[:at], MORE, head, numbers) + encode_protobuf(
        frame[at:], MORE, head, numbers
    )
    theirs = GetMessageClass(message(parse(text), (0,)))
    assert [head + theirs.FromString(one[len(head) :]).SerializeToString() for one in records] == records
    wanted = [without_null_lists(row) for row in frame.to_dicts()]
    wanted = [{**row, "deep": [one or [] for one in row["deep"]]} for row in wanted]
    assert read_back(records, MORE, text) == wanted


def test_a_decimal_and_a_date_are_texts_and_a_time_outside_the_calendar_is_absent() -> None:
    fields = {"n": "decimal(20,3)", "d": "date", "t": "timestamp", "l": "list<date>"}
    days = pl.Series("d", [5_000_000], dtype=pl.Int32).cast(pl.Date)
    frame = pl.DataFrame(
        {"n": [Decimal("-1.5")], "d": [date(987, 1, 2)], "t": [0], "l": [[date(2026, 1, 2)]]}, schema=schema(fields)
    )
    (record,) = encode_protobuf(frame, fields)
    assert record == b'\n\6-1.500\x12\n0987-01-02\x1a\0"\n2026-01-02'
    outside = frame.with_columns(days, t=pl.Series([2**62]).cast(pl.Datetime("us", "UTC")), l=days.implode())
    assert encode_protobuf(outside, fields) == [b"\n\6-1.500"]
    assert encode_protobuf(frame[:0], fields) == []


def file(*fields: tuple[str, int, int], syntax: str = "proto3", **options: Any) -> str:
    """A schema of one message: name, number and kind of its fields."""
    made = descriptor_pb2.FileDescriptorProto(name="a.proto", package="shop", syntax=syntax)
    order = made.message_type.add(name="Order")
    for name, number, kind in fields:
        order.field.add(name=name, number=number, type=kind, label=options.get("label", 1))
    if options.get("choice"):
        order.oneof_decl.add(name="choice")
        order.field[0].oneof_index = 0
    order.reserved_range.add(start=20, end=21)
    return base64.standard_b64encode(made.SerializeToString()).decode()


def test_a_column_keeps_its_number_and_a_new_one_gets_one_that_nobody_had() -> None:
    first = message_schema({"a": "int", "o": "struct<x: int>?"}, "shop.Order")
    grown = {"b": "string", "o": "struct<y: timestamp?, x: int>", "a": "int?"}
    text, numbers = extended(first, grown, "shop.Order")
    assert numbers == {"b": 3, "o": 2, "o.y": 2, "o.x": 1, "a": 1}
    assert extended(text, {"o": "struct<x: int>", "b": "string?"}, None) == (text, {"o": 2, "o.x": 1, "b": 3})
    row = pl.DataFrame([{"b": "s", "o": {"y": None, "x": 7}, "a": 5}], schema=schema(grown))
    records = encode_protobuf(row, grown, b"\0\0\0\0\1\0", numbers)
    assert read_back(records, grown, text) == row.to_dicts()
    assert read_back(records, {"a": "int", "o": "struct<x: int>"}, first) == [{"a": 5, "o": {"x": 7}}]
    assert extended(file(("a", 4, 3)), {"a": "int", "n": "int"}, None)[1] == {"a": 4, "n": 21}


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (file(("a", 1, 5)), "int", "has a as int32, and the column is int, which is written as int64"),
        (file(("a", 1, 9)), "list<string>", "the column is list<string>, which is written as repeated string"),
        (file(("a", 1, 3), syntax="proto2", label=2), "int", "has a as required"),
        (file(("a", 1, 3), choice=True), "int", "has a as one of the fields choice"),
        (message_schema({"a": "struct<x: int>"}), "struct<x: string>", "has a.x as int64"),
        (message_schema({"a": "list<int?>"}), "list<int>", "has a as repeated Row.AValue"),
    ],
)  # fmt: skip
def test_a_column_of_another_type_than_the_registered_field_is_refused_by_name(text: str, kind: str, says: str) -> None:
    with pytest.raises(Unlike) as error:
        extended(text, {"a": kind}, None)
    assert says in str(error.value)


def test_the_message_must_have_the_name_that_is_asked_for_and_names_are_unlike_in_json() -> None:
    with pytest.raises(Unlike, match=r"begins with the message shop\.Order, and `record` is shop\.Row"):
        extended(file(("a", 1, 3)), {"a": "int"}, "shop.Row")
    assert [*unlike_names({"a_b": "int", "o": "list<struct<xY: int, x_y: int>>", "aB": "int"})] == [
        ("xY", "x_y"), ("a_b", "aB")
    ]  # fmt: skip

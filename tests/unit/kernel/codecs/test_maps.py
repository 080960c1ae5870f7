"""Maps in every format: what goes in comes out, equal maps are equal bytes, and entries are sorted by key."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Mapping
from typing import Any

import fastavro
import polars as pl
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import dicts_of, map_column
from holdfast.services.kernel.codecs import avro_schemas, json_schemas, protobuf_schemas
from holdfast.services.kernel.codecs.avro_encoder import encode_avro
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import dtype, optional, schema, text_of
from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.codecs.maps import KEY, is_map
from holdfast.services.kernel.codecs.protobuf_encoder import encode_protobuf
from holdfast.services.kernel.codecs.protobuf_messages import extended, message_schema, paths
from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.codecs.sink_schemas import schema_of
from tests.support.avro import Known, avro, framed, record
from tests.support.examples import examples

FIELDS = {
    "i": "int", "m": "map<string, int>?", "my_n": "map<string, string?>?", "in_list": "list<map<string, float>>?",
    "deep": "map<string, list<struct<at: timestamp?, n: map<string, decimal(4,2)>>>>?",
    "in_struct": "struct<a: map<string, map<string, bool?>>?>?", "times": "map<string, timestamp>?",
    "of_structs": "map<string, struct<x: int?>?>?",
}  # fmt: skip
KEYS = st.sampled_from(["", "a", "b", "$x", 'q"', "it's", "a.b", "ä", "\U0001f642", "\ue000", "Z", "..."]) | st.text(
    max_size=3
)
TIME = "2024-01-01T00:00:00.000000Z"


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(KEYS, values, max_size=4)


ROWS = st.fixed_dictionaries({
    "i": st.integers(-9, 9), "m": st.none() | maps(st.integers(-(2**63), 2**63 - 1)),
    "my_n": st.none() | maps(st.none() | st.text(max_size=2)),
    "in_list": st.none() | st.lists(maps(st.floats(allow_nan=False, allow_infinity=False)), max_size=2),
    "deep": st.none() | maps(st.lists(st.fixed_dictionaries({
        "at": st.sampled_from([None, TIME]), "n": maps(st.sampled_from(["0.00", "1.50", "-9.99"]))}), max_size=2)),
    "in_struct": st.none() | st.fixed_dictionaries({"a": st.none() | maps(maps(st.none() | st.booleans()))}),
    "times": st.none() | maps(st.just(TIME)),
    "of_structs": st.none() | maps(st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)})),
})  # fmt: skip


def read(values: list[bytes], fields: Mapping[str, str] = FIELDS, format: str = "json", schemas: Any = None) -> Any:
    more = {} if schemas is None else {"schemas": schemas}
    return Decoder(fields, format, **more).decode(values, [0] * len(values))


def rows_of(given: list[dict[str, Any]]) -> pl.DataFrame:
    found = read([json.dumps(row).encode() for row in given])
    assert found.refused == []
    rows: pl.DataFrame = found.rows
    return rows


class _Known:
    def __init__(self, text: str) -> None:
        self._schema = WriterSchema("PROTOBUF", text)

    def find(self, id: int) -> WriterSchema | None:
        return self._schema


def reversed_maps(value: Any) -> Any:
    """The value with each object in the opposite order of its members."""
    if isinstance(value, dict):
        return {name: reversed_maps(one) for name, one in reversed(value.items())}
    return [*map(reversed_maps, value)] if isinstance(value, list) else value


@examples(each_run=40, with_long=200)
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(0, 4))
def test_json_comes_out_as_it_went_in_and_equal_maps_are_equal_bytes(given: list[dict[str, Any]], at: int) -> None:
    rows = rows_of(given)
    written = encode_json(rows, FIELDS)
    assert [json.loads(one) for one in written] == given
    assert written == encode_json(rows[:at], FIELDS) + encode_json(rows[at:], FIELDS)
    again = rows_of([reversed_maps(row) for row in given])
    assert encode_json(again, FIELDS) == written
    codec = RowCodec(rows.schema)
    assert codec.encode(again) == codec.encode(rows)
    for one in written:
        keys = list(json.loads(one)["m"] or {})
        assert keys == sorted(keys, key=str.encode)


@examples(each_run=30, with_long=150)
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(0, 4))
def test_avro_reads_and_writes_maps_and_so_does_its_library(given: list[dict[str, Any]], at: int) -> None:
    rows, head, text = rows_of(given), b"\0\0\0\0\1", schema_of("avro", FIELDS)
    records = encode_avro(rows, FIELDS, head)
    assert records == encode_avro(rows[:at], FIELDS, head) + encode_avro(rows[at:], FIELDS, head)
    own = fastavro.parse_schema(json.loads(text))
    theirs: list[Any] = [fastavro.schemaless_reader(io.BytesIO(one[5:]), own, None) for one in records]
    assert [one["m"] for one in theirs] == [one["m"] for one in given]
    wanted = {name: optional(kind) for name, kind in FIELDS.items()}
    found = read(records, wanted, "avro", Known({1: json.loads(text)}))
    assert found.refused == []
    assert found.rows.equals(rows)


def without_null_maps(row: dict[str, Any]) -> dict[str, Any]:
    """A repeated field has no null: such a map or list is an empty one. Keys of maps may be named as fields are."""
    found = copy.deepcopy(row)
    for name, empty in (("m", {}), ("my_n", {}), ("in_list", []), ("deep", {}), ("times", {}), ("of_structs", {})):
        if found[name] is None:
            found[name] = empty
    if found["in_struct"] and found["in_struct"]["a"] is None:
        found["in_struct"]["a"] = {}
    return found


@examples(each_run=30, with_long=150)
@example([dict.fromkeys(FIELDS) | {"i": 0, "of_structs": {"m": None}}], 0, False)
@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(0, 4), st.booleans())
def test_protobuf_reads_and_writes_maps_and_so_does_its_library(
    given: list[dict[str, Any]], at: int, numbered: bool
) -> None:
    numbers = {path: 40_000 - place for place, path in enumerate(paths(FIELDS))} if numbered else {}
    rows, head, text = rows_of(given), b"\0\0\0\0\1\0", message_schema(FIELDS, "shop.Row", numbers)
    records = encode_protobuf(rows, FIELDS, head, numbers)
    parts = [encode_protobuf(some, FIELDS, head, numbers) for some in (rows[:at], rows[at:])]
    assert records == parts[0] + parts[1]
    theirs: Any = GetMessageClass(protobuf_schemas.message(protobuf_schemas.parse(text), (0,)))
    assert [dict(theirs.FromString(one[6:]).m) for one in records] == [one["m"] or {} for one in given]
    wanted = {name: optional(kind) for name, kind in FIELDS.items()}
    found = read(records, wanted, "protobuf", _Known(text))
    assert found.refused == []
    assert [json.loads(one) for one in encode_json(found.rows, FIELDS)] == [*map(without_null_maps, given)]
    assert extended(text, FIELDS, "shop.Row")[0] == text


def test_a_schema_gives_its_maps_and_the_schema_of_a_sink_gives_them_back() -> None:
    fields = {"m": "map<string, int?>?", "l": "list<map<string, string?>?>?"}
    assert avro_schemas.fields(avro_schemas.parse(schema_of("avro", fields))) == fields
    assert json_schemas.fields(schema_of("json-schema", fields)) == fields
    assert json_schemas.lack(schema_of("json-schema", fields), fields) == ""
    plain = {"m": "map<string, int>", "t": "map<string, timestamp>", "s": "map<string, struct<a: int?>>"}
    assert protobuf_schemas.fields(message_schema(plain)) == plain
    assert json_schemas.fields('{"properties": {"x": {"type": "object", "additionalProperties": false}}}') == {}


def test_the_last_value_of_a_key_that_is_there_twice_counts() -> None:
    rows = read([b'{"i": 1, "m": {"b": 1, "a": 1, "b": 2}}']).rows
    assert encode_json(rows, {"m": FIELDS["m"]}) == [b'{"m":{"a":1,"b":2}}']
    twice = avro({"type": "array", "items": record(("k", "string"), ("v", "long"))}, [
        {"k": "b", "v": 1}, {"k": "a", "v": 1}, {"k": "b", "v": 2}])  # fmt: skip
    known = Known({1: record(("m", {"type": "map", "values": "long"}))})
    found = read([framed(1, twice)], {"m": "map<string, int>"}, "avro", known)
    assert encode_json(found.rows, {"m": "map<string, int>"}) == [b'{"m":{"a":1,"b":2}}']


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"i": 1, "m": {"a": "x"}}', 'm[...]: expected int, found {"a":"x"}'),
        (b'{"i": 1, "m": {"a": null}}', 'm[...]: expected int, found {"a":null}'),
        (b'{"i": 1, "m": [1]}', "m: expected map<string, int>?, found [1]"),
        (
            b'{"i": 1, "deep": {"z": [{"n": {"q": true}}]}}',
            'deep[...][0].n[...]: expected decimal(4,2), found {"z":[{"n":{"q":true}}]}',
        ),
        (
            b'{"i": 1, "times": {"a": "yesterday"}}',
            'times: expected map<string, timestamp>?, found {"a":"yesterday"}',
        ),
    ],
)
def test_a_record_whose_map_does_not_fit_is_refused_and_says_why(value: bytes, reason: str) -> None:
    assert read([value, b'{"i": 2}']).refused == [(0, reason)]


def test_the_maps_of_another_writer_that_do_not_fit_are_refused() -> None:
    known = Known({1: record(("m", {"type": "map", "values": ["null", "long"]}))})
    body = avro({"type": "map", "values": ["null", "long"]}, {"a": None})
    found = read([framed(1, body)], {"m": "map<string, int>"}, "avro", known)
    assert found.refused == [(0, "m[]: expected int, found null")]
    assert "expected list<int>" in read([framed(1, body)], {"m": "list<int>"}, "avro", known).refused[0][1]


def test_csv_holds_a_map_as_json() -> None:
    fields = {"a": "int", "m": "map<string, int>?"}
    found = read([b'1,"{""b"": 2, ""a"": 1}"', b"2,", b'3,"{""a"": 1.5}"'], fields, "csv")
    assert encode_json(found.rows, fields) == [b'{"a":1,"m":{"a":1,"b":2}}', b'{"a":2,"m":null}']
    assert [place for place, _ in found.refused] == [2]


def test_the_type_alone_tells_a_map_from_a_list_of_structs() -> None:
    kind = dtype("map<string, list<map<string, int?>?>?>")
    assert text_of(kind, may_be_null=False) == "map<string, list<map<string, int?>?>?>"
    assert is_map(kind)
    assert not is_map(dtype("list<struct<key: string, value: int>>"))
    with pytest.raises(ValueError, match="unknown type 'key: int'"):
        dtype(f"struct<{KEY}: int>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("map<int, string>", "keys are texts, map<string, string>"),
        ("map<string>", "write map<string, T>"),
        ("map<string, text>", "did you mean"),
        ("Map(String, UInt8)", "did you mean 'map<string, int>'?"),
        ("dict[str, float]", "did you mean 'map<string, float>'?"),
    ],
)
def test_a_mistake_in_the_type_of_a_map_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        dtype(text)


def test_a_time_outside_the_calendar_is_null_in_a_map() -> None:
    fields = {"m": "map<string, timestamp?>"}
    rows = pl.DataFrame(
        {"m": [[{"map:key": "a", "map:value": 2**62}]]},
        schema={"m": pl.List(pl.Struct({"map:key": pl.String(), "map:value": pl.Int64()}))},
    ).cast(schema(fields))
    assert encode_json(rows, fields) == [b'{"m":{"a":null}}']


def test_columns_of_dicts_are_columns_of_maps() -> None:
    given = [{"b": [{"y": 1}], "a": []}, None, {}]
    column = map_column(given, "map<string, list<map<string, int>>>?")
    assert dicts_of(column) == given
    assert [*dicts_of(column)[0]] == ["a", "b"]
    with pytest.raises(ValueError, match="no type of a map"):
        map_column(given, "list<int>")

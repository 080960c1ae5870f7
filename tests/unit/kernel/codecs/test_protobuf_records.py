"""Protobuf records as a Schema Registry's serializer writes them: read to columns as the library reads them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs import protobuf_schemas
from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.protobuf_schemas import message, parse
from holdfast.services.kernel.codecs.registered import WriterSchema
from tests.support.avro import framed
from tests.support.examples import examples

Field = descriptor_pb2.FieldDescriptorProto
NUMBERS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12}
TIME, WRAPPED = ".google.protobuf.Timestamp", ".google.protobuf.StringValue"
FIRST = b"\0"


def field(of: Any, number: int, name: str, kind: str, repeated: bool = False, optional: bool = False) -> None:
    one = of.field.add(name=name, number=number, label=3 if repeated else 1, proto3_optional=optional)
    one.type = NUMBERS.get(kind, 14 if kind == ".shop.Kind" else 11)
    if kind.startswith("."):
        one.type_name = kind
    if optional:
        of.oneof_decl.add(name=f"_{name}")
        one.oneof_index = len(of.oneof_decl) - 1


def schema(*fields: tuple[str, str], syntax: str = "proto3") -> str:
    """A file whose second message has these fields; its first is Item. The form in which a registry compiles it."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax)
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="GOOD", number=1)
    item = file.message_type.add(name="Item")
    field(item, 1, "sku", "string")
    field(item, 2, "at", TIME)
    order = file.message_type.add(name="Order")
    for number, (name, text) in enumerate(fields, 1):
        words = text.split()
        field(order, number, name, words[-1], "repeated" in words, "optional" in words)
    return base64.standard_b64encode(file.SerializeToString()).decode()


ALL = schema(
    ("id", "int64"), ("big", "uint64"), ("price", "double"), ("ok", "bool"), ("name", "string"), ("raw", "bytes"),
    ("kind", ".shop.Kind"), ("at", TIME), ("note", WRAPPED), ("maybe", "optional int32"), ("tags", "repeated string"),
    ("items", "repeated .shop.Item"), ("one", ".shop.Item"), ("ms", "int64"),
)  # fmt: skip
FIELDS = {
    "id": "int", "big": "int", "price": "float", "ok": "bool", "name": "string", "raw": "bytes", "kind": "string",
    "at": "timestamp?", "note": "string?", "maybe": "int?", "tags": "list<string>",
    "items": "list<struct<sku: string, at: timestamp?>>", "one": "struct<sku: string, at: timestamp?>?",
    "ms": "timestamp", "absent": "int?",
}  # fmt: skip
ORDER = (1,)
AT = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)


class Known:
    """A registry of Protobuf schemas, by id from 1."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def find(self, id: int) -> WriterSchema | None:
        return WriterSchema("PROTOBUF", self._texts[id - 1]) if 0 < id <= len(self._texts) else None


def made(text: str, path: tuple[int, ...] = ORDER, **values: Any) -> bytes:
    """A message behind its place among those of the schema."""
    from google.protobuf.message_factory import GetMessageClass

    one = GetMessageClass(message(parse(text), path))(**values)
    head = FIRST if path == (0,) else bytes([2 * len(path), *(2 * index for index in path)])
    return head + bytes(one.SerializeToString())


def decoded(bodies: Sequence[bytes], fields: dict[str, str], *texts: str, ids: Sequence[int] = ()) -> Decoded:
    values = [framed(id, body) for id, body in zip(ids or [1] * len(bodies), bodies, strict=True)]
    return Decoder(fields, "protobuf", unit="ms", schemas=Known(*texts)).decode(values, [0] * len(values))


def test_every_kind_of_field_is_read_and_what_is_not_written_has_its_default_or_is_null() -> None:
    at = {"seconds": 1_767_323_045, "nanos": 678_900_999}
    item = {"sku": "a", "at": at}
    plain: dict[str, Any] = {"id": -7, "big": 8, "price": 1.5, "ok": True, "name": "n", "raw": b"\xff", "kind": 1}
    items = [item, {"sku": "b"}]
    full = made(ALL, **plain, ms=1_000, at=at, note={"value": ""}, maybe=0, tags=["x", "y"], items=items, one=item)
    found = decoded([full, made(ALL)], FIELDS, ALL)
    assert found.refused == []
    rows = found.rows.drop("_time").to_dicts()
    own, none = {"sku": "a", "at": AT}, datetime(1970, 1, 1, tzinfo=UTC)
    assert rows[0] == {
        "id": -7, "big": 8, "price": 1.5, "ok": True, "name": "n", "raw": b"\xff", "kind": "GOOD", "at": AT, "note": "",
        "maybe": 0, "tags": ["x", "y"], "items": [own, {"sku": "b", "at": None}], "one": own,
        "ms": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "absent": None,
    }  # fmt: skip
    assert rows[1] == {
        "id": 0, "big": 0, "price": 0.0, "ok": False, "name": "", "raw": b"", "kind": "NONE", "at": None, "note": None,
        "maybe": None, "tags": [], "items": [], "one": None, "ms": none, "absent": None,
    }  # fmt: skip


def test_a_value_that_does_not_fit_refuses_its_record_alone() -> None:
    fields = {"id": "int", "big": "int", "kind": "string", "at": "timestamp"}
    good = made(ALL, id=1, at={"seconds": 1})
    bodies = [good, made(ALL, big=2**63, at={}), made(ALL, kind=9, at={}), made(ALL), made(ALL, at={"seconds": 2**60}),
              ORDER_HEAD + b"\x0a\xff", b"\x80", b"", good]  # fmt: skip
    found = decoded(bodies, fields, ALL)
    assert found.rows["id"].to_list() == [1, 1]
    reasons = [reason for _, reason in found.refused]
    assert [index for index, _ in found.refused] == [1, 2, 3, 4, 5, 6, 7]
    assert "big: 9223372036854775808 is more than an int holds" in reasons[0]
    assert reasons[1:4] == ["kind: the enum has no number 9", "at: expected timestamp, found null",
                            "at: a time outside the years 1 to 9999"]  # fmt: skip
    assert reasons[4].startswith("no message of its schema")
    assert reasons[5:] == ["ends within the numbers that name its message, or has none"] * 2


ORDER_HEAD = made(ALL)[:2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"nope": "int"}, "schema 1 has no field nope, expected int: a field that may be absent is int?"),
        ({"name": "int"}, "schema 1 has name as string, expected int"),
        ({"tags": "string"}, "schema 1 has tags as repeated string, expected string"),
        ({"id": "string"}, "schema 1 has id as int64, expected string"),
        ({"one": "struct<nope: int>"}, "schema 1 has no field one.nope, expected int"),
    ],
)
def test_a_schema_that_does_not_give_the_fields_says_why(fields: dict[str, str], reason: str) -> None:
    assert reason in decoded([made(ALL)], fields, ALL).refused[0][1]


def test_records_of_several_schemas_and_messages_stay_in_their_order() -> None:
    other = schema(("id", "int32"), ("sku", "string"))
    item, none = made(ALL, (0,), sku="item"), made(ALL, (0,))
    bodies = [made(ALL, id=1), made(other, id=2, sku="x"), item, made(ALL, id=3), none]
    found = decoded(bodies, {"id": "int?", "sku": "string?"}, ALL, other, ids=[1, 2, 1, 1, 1])
    assert found.rows.drop("_time").rows() == [(1, None), (2, "x"), (None, "item"), (3, None), (None, "")]
    assert "no message number 7" in decoded([b"\x02\x0e"], {"id": "int"}, ALL).refused[0][1]


@pytest.mark.parametrize("text", ["syntax = 'proto3';", "", "AAAA", base64.b64encode(b"\x0a\x01a\x1a\x01b").decode()])
def test_a_schema_that_is_no_compiled_file_is_named(text: str) -> None:
    assert "schema 1 " in decoded([FIRST], {"id": "int"}, text).refused[0][1]


def test_the_fields_of_a_schema_are_those_that_have_a_type() -> None:
    holds_itself = schema(("id", "int64"), ("self", "optional .shop.Order"), ("of", "repeated .shop.Item"))
    found = protobuf_schemas.members(message(parse(holds_itself), ORDER), 0)
    assert found == {"id": "int", "of": "list<struct<sku: string, at: timestamp?>>"}
    assert protobuf_schemas.fields(ALL) == {"sku": "string", "at": "timestamp?"}
    whole = protobuf_schemas.members(message(parse(ALL), ORDER), 0)
    assert whole == {name: text for name, text in FIELDS.items() if name != "absent"} | {"ms": "int"}


@examples(each_run=40, with_long=200)
@given(st.lists(st.binary(max_size=12), min_size=1, max_size=6))
def test_a_record_is_read_or_refused_whatever_its_bytes_and_whatever_is_beside_it(bodies: list[bytes]) -> None:
    mixed = [*bodies, *(ORDER_HEAD + one for one in bodies), made(ALL, id=5)]
    found = decoded(mixed, FIELDS, ALL)
    assert len(found.rows) + len(found.refused) == len(mixed)
    together = dict(found.refused)
    for place, body in enumerate(mixed):
        assert [reason for _, reason in decoded([body], FIELDS, ALL).refused] == [
            together[place] for _ in range(place in together)
        ]

"""Avro records: every type, evolution of schemas, broken records, and any records at all."""

from __future__ import annotations

import io
import json
import math
import os
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from holdfast.services.kernel.codecs.avro_schemas import NoSchema, fields, parse
from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.fields import nullable
from holdfast.services.kernel.codecs.maps import entries
from tests.support.avro import Known, avro, framed, record

_LOOSE: Any = {"handle_unicode_errors": "replace"}
INNER = record(("x", "string"), ("y", ["null", "double"]), name="Inner")
WHOLE = record(
    ("i", "int"), ("l", "long"), ("f", "float"), ("b", "boolean"), ("raw", "bytes"),
    ("fixed", {"type": "fixed", "name": "F20", "size": 20}),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("again", ["null", "E"]),
    ("d", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("wide",
     ["null", {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 3}]),
    ("many", {"type": "array", "items": ["null", "long"]}), ("unnamed", {"type": "map", "values": "string"}),
    ("day", {"type": "int", "logicalType": "date"}), ("ms", {"type": "long", "logicalType": "timestamp-millis"}),
    ("local", ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]),
    ("one", ["null", INNER]), ("some", {"type": "array", "items": "Inner"}),
    ("deep", {"type": "array", "items": {"type": "array", "items": "int"}}),
    ("any", ["null", "int", "long", "double"]),
)  # fmt: skip
FIELDS = {
    "i": "int", "l": "int", "f": "float", "b": "bool", "raw": "bytes", "fixed": "bytes", "e": "string",
    "again": "string?", "d": "decimal(10,2)", "wide": "decimal(20,3)?", "many": "list<int?>", "day": "date",
    "ms": "timestamp", "local": "timestamp?", "one": "struct<x: string, y: float?>?",
    "some": "list<struct<x: string, y: float?>>", "deep": "list<list<int>>", "unnamed": "map<string, string>",
}  # fmt: skip


def inner(some: random.Random) -> dict[str, Any]:
    return {"x": "é" * some.randint(0, 30), "y": some.choice([None, 1.25, math.inf])}


def row(some: random.Random) -> dict[str, Any]:
    many = range(some.randint(0, 4))
    return {
        "i": some.randint(-(2**31), 2**31 - 1), "l": some.choice([some.randint(-(2**63), 2**63 - 1), 0, -64, 64]),
        "f": some.choice([0.5, -2.0, 3.25]), "b": some.random() < 0.5, "raw": some.randbytes(some.randint(0, 20)),
        "fixed": some.randbytes(20), "e": some.choice("AB"), "again": some.choice(["A", "B", None]),
        "d": Decimal(some.randint(1 - 10**10, 10**10 - 1)).scaleb(-2),
        "wide": some.choice([None, Decimal(some.randint(-(10**18), 10**18)).scaleb(-3)]),
        "many": [some.choice([None, some.randint(-(2**63), 2**63 - 1)]) for _ in many],
        "unnamed": {str(key): "v" * key for key in many},
        "day": date(2020, 1, 1) + timedelta(days=some.randint(-700_000, 2_000_000)),
        "ms": datetime(2020, 1, 1, tzinfo=UTC) + timedelta(milliseconds=some.randint(-(10**12), 10**12)),
        "local": some.choice([None, datetime(2020, 1, 1, 5, 6, 7, 8)]), "one": some.choice([None, inner(some)]),
        "some": [inner(some) for _ in many], "deep": [[some.randint(-5, 500) for _ in many] for _ in many],
        "any": some.choice([None, 5, 2**40]),
    }  # fmt: skip


def decoded(schemas: dict[int, Any], declared: dict[str, str], *values: bytes, **settings: Any) -> Decoded:
    return Decoder(declared, "avro", schemas=Known(schemas), **settings).decode(values, [0] * len(values))


def reasons(schemas: dict[int, Any], declared: dict[str, str], *values: bytes, **settings: Any) -> list[str]:
    return [reason for _, reason in decoded(schemas, declared, *values, **settings).refused]


def test_a_schema_gives_the_fields_that_stand_for_its_types() -> None:
    assert fields(parse(json.dumps(WHOLE))) == FIELDS


def test_every_value_reads_as_the_reference_wrote_it_whichever_fields_are_wanted() -> None:
    some = random.Random(1)
    rows = [row(some) for _ in range(200)]
    values = [framed(1, avro(WHOLE, one)) for one in rows]
    for wanted in (FIELDS, {"any": "float?"}, dict(some.sample(sorted(FIELDS.items()), 8))):
        found = decoded({1: WHOLE}, wanted, *values)
        assert found.refused == []
        for name in wanted:
            expected = [one[name] for one in rows]
            if name == "unnamed":
                expected = [entries(one) for one in expected]
            if name == "local":
                expected = [one and one.replace(tzinfo=UTC) for one in expected]
            assert found.rows[name].to_list() == expected, name


def test_a_decimal_may_have_all_38_digits() -> None:
    """Python rounds the negative of such a number to 28 digits."""
    schema = record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}))
    most = Decimal((0, (9,) * 38, -10))
    rows = [most, most.copy_negate(), Decimal("-0.0000000001")]
    found = decoded({1: schema}, {"a": "decimal(38,10)"}, *(framed(1, avro(schema, {"a": one})) for one in rows))
    assert (found.refused, found.rows["a"].to_list()) == ([], rows)


def test_records_of_several_schemas_resolve_to_the_fields_of_the_stream_in_their_order() -> None:
    before = record(("id", "int"), ("price", "int"), ("gone", {"type": "map", "values": "long"}))
    after = record(("note", "string"), ("price", ["double", "null"]), ("id", "long"))
    values = [
        framed(1, avro(before, {"id": 1, "price": 10, "gone": {"a": 5}})),
        framed(2, avro(after, {"id": 2, "price": None, "note": "x"})),
        framed(1, avro(before, {"id": 3, "price": 30, "gone": {}})),
    ]
    declared = {"id": "int", "price": "float?", "remark": "string?"}
    found = decoded({1: before, 2: after}, declared, *values, origins={"remark": "note"})
    assert found.rows.drop("_time").to_dicts() == [
        {"id": 1, "price": 10.0, "remark": None},
        {"id": 2, "price": None, "remark": "x"},
        {"id": 3, "price": 30.0, "remark": None},
    ]
    assert found.refused == []


@pytest.mark.parametrize(
    ("schema", "declared", "reason"),
    [
        (record(("b", "int")), {"a": "int"},
         "schema 1 has no field a, expected int: a field that may be absent is int?"),
        (record(("a", "string")), {"a": "int?"}, "schema 1 has a as string, expected int?"),
        (record(("a", ["null", "string"])), {"a": "int"}, "schema 1 has a as string, expected int"),
        (record(("a", "long")), {"a": "timestamp"}, "schema 1 has a as long, expected timestamp; integers need the "
         "source's `unit`"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4})), {"a": "decimal(9,2)"},
         "schema 1 has a as decimal(9,4), expected decimal(9,2)"),
        (record(("a", ["null", "R"])), {"a": "int?"},
         "schema 1 has the type R, which holds itself: no field type stands for it"),
        (record(("a", "Elsewhere")), {"a": "int"},
         "schema 1 names the type Elsewhere, and does not define it; schemas of several parts are not read"),
        ("string", {"a": "string"}, "schema 1 is of type string, no record with fields"),
        (record(("a", {"type": "array", "items": "null"})), {"b": "int?"},
         "schema 1 has an array of items that take no byte, of which a few bytes may claim any number"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_give_the_fields_refuses_its_records_with_the_field_and_both_types(
    schema: Any, declared: dict[str, str], reason: str
) -> None:
    assert reasons({1: schema}, declared, framed(1, b"\2\2")) == [reason]


LIST = record(("a", {"type": "array", "items": "long"}))
TEXT = record(("a", "string"))


@pytest.mark.parametrize(
    ("schema", "declared", "payload", "reason"),
    [
        (TEXT, "string", b"", "a: the record ends within it"),
        (TEXT, "string", b"\x08abc", "a: the record ends within it"),
        (TEXT, "string", b"\x01", "a: a length below 0"),
        (TEXT, "string", b"\x04\xc3\x28", "a: a text is not UTF-8"),
        (TEXT, "string", b"\x02ab", "1 byte too long for its schema"),
        (TEXT, "timestamp", b"\x06now", "a: expected timestamp, found 'now'"),
        (record(("a", "long")), "int", b"\xff" * 9 + b"\x02", "a: a number of more than 64 bits"),
        (record(("a", "int")), "int", b"\x80\x80\x80\x80\x20",
         "a: a number of more than 32 bits, where the schema says int"),
        (record(("a", "boolean")), "bool", b"\x02", "a: a boolean that is neither 0 nor 1"),
        (record(("a", ["null", "long"])), "int", b"\x00", "a: expected int, found null"),
        (record(("a", ["null", "long"])), "int?", b"\x04", "a: the union has no number 2"),
        (record(("a", ["long", "string"])), "int", b"\x02\x02x", "a: expected int, found string"),
        (record(("a", {"type": "enum", "name": "E", "symbols": ["A"]})), "string", b"\x02",
         "a: the enum has no number 1"),
        (record(("a", {"type": "int", "logicalType": "date"})), "date", b"\xfe\xff\xff\xff\x0f",
         "a: a date outside the years 1 to 9999"),
        (record(("a", {"type": "long", "logicalType": "timestamp-millis"})), "timestamp",
         b"\xfe\xff\xff\xff\xff\xff\xff\x7f",
         "a: a time outside the years 1 to 9999"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0})), "decimal(2,0)",
         b"\x02\x64",
         "a: a number with more digits than decimal(2,0) has"),
        (LIST, "list<int>", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", "a: the record ends within it"),
        (LIST, "list<int>", b"\xff" * 9 + b"\x01\x00", "a: a block of 2^63 items"),
        (LIST, "list<int>", b"\x02\x02", "a: the record ends within it"),
        (LIST, "list<int>", b"\xa2\x9c\x01" + b"\x02" * 10_001 + b"\x00", "a: over 10,000 items in a record"),
    ],
)  # fmt: skip
def test_a_broken_record_is_refused_alone_with_its_reason(
    schema: Any, declared: str, payload: bytes, reason: str
) -> None:
    good = {"string": "\x04ok", "timestamp": "\x142020-01-01"}.get(declared, "").encode() if schema == TEXT else b""
    values = [framed(1, good), framed(1, payload), framed(1, good)] if good else [framed(1, payload)]
    found = decoded({1: schema}, {"a": declared}, *values)
    assert found.refused == [(1 if good else 0, reason)]
    assert found.rows.height == len(values) - 1


def test_a_schema_that_is_none_is_refused() -> None:
    for text in ("{", "[]", '{"type":"record","fields":[]}', '"nope"', "5", "[" * 5000):
        with pytest.raises(NoSchema):
            parse(text)


def test_any_bytes_give_a_row_without_a_silent_null_or_a_reason_and_the_same_in_any_batches() -> None:
    """Half of the records are those of the reference, bent at a few bytes."""
    fuzzed(random.Random(int(os.environ.get("FUZZ_SEED", "7"))), int(os.environ.get("FUZZ_RECORDS", "3000")))


def fuzzed(some: random.Random, count: int) -> None:
    whole = [avro(WHOLE, row(some)) for _ in range(50)]
    wanted = {**FIELDS, "any": "float?"}
    reference = fastavro.parse_schema(json.loads(json.dumps(WHOLE)))
    decoder = Decoder(wanted, "avro", schemas=Known({1: WHOLE}))
    for _ in range(count // 500):
        values = [framed(1, bent(some, some.choice(whole))) for _ in range(500)]
        found = decoder.decode(values, [0] * len(values))
        assert len(found.kept) + len(found.refused) == len(values)
        for name, text in wanted.items():
            assert nullable(text) or not found.rows[name].null_count()
        cut = some.randrange(len(values))
        parts = [decoder.decode(part, [0] * len(part)) for part in (values[:cut], values[cut:])]
        assert parts[0].rows.vstack(parts[1].rows).equals(found.rows)
        assert [reason for part in parts for _, reason in part.refused] == [reason for _, reason in found.refused]
        for place, index in list(enumerate(found.kept.tolist()))[::10]:
            said: Any = fastavro.schemaless_reader(io.BytesIO(values[index][5:]), reference, **_LOOSE)
            for name, text in wanted.items():
                assert (said[name] is None) == (found.rows[name][place] is None), (name, text)


def bent(some: random.Random, value: bytes) -> bytes:
    kind, changed = some.random(), bytearray(value)
    if kind < 0.2:
        return value[: some.randrange(len(value))]
    if kind < 0.7:
        for _ in range(some.randint(1, 3)):
            changed[some.randrange(len(changed))] = some.choice([0, 1, 2, 3, 127, 128, 255, some.randrange(256)])
    elif kind < 0.8:
        at, other = some.randrange(len(changed)), some.randbytes(some.randint(1, 12))
        changed[at:at] = other
    elif kind < 0.85:
        return some.randbytes(some.randint(0, 80))
    return bytes(changed)

"""Records that name their schema: what names none, what the registry does not know, and what a cut decides of it."""

from __future__ import annotations

import pytest

from holdfast.services.kernel.codecs import json_schemas
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.errors import StateCorrupted
from tests.support.avro import Known, avro, framed, record

SCHEMA = record(("a", "long"))
GOOD = framed(1, avro(SCHEMA, {"a": 5}))
FIELDS = {"a": "int"}


def test_records_without_a_known_schema_are_dead_letters_with_the_reason() -> None:
    schemas = Known({1: SCHEMA})
    decoder = Decoder(FIELDS, "avro", schemas=schemas)
    values = [None, b"", b'{"a":5}', b"\0\0\0", framed(7, b"\2"), GOOD]
    found = decoder.decode(values, [0] * len(values))
    assert found.refused == [
        (0, "the record is empty"),
        (1, "the record is empty"),
        (2, "begins with the byte 0x7b, not with 0 and the id of a schema of a registry"),
        (3, "ends within the 5 bytes that name its schema"),
        (4, "the registry does not know schema 7"),
    ]
    assert found.rows["a"].to_list() == [5]
    assert found.unknown == (7,)


def test_a_schema_of_another_kind_or_in_parts_is_named() -> None:
    reasons = [
        Decoder(FIELDS, "avro", schemas=schemas).decode([GOOD], [0]).refused[0][1]
        for schemas in (Known({1: SCHEMA}, kind="PROTOBUF"), Known({1: SCHEMA}, parts=True))
    ]
    assert reasons == [
        "schema 1 is one of Protobuf, and the source's format is Avro",
        "schema 1 refers to other schemas, which are not read",
    ]


def test_ids_that_a_cut_calls_unknown_stay_so_and_all_others_must_be_known() -> None:
    """PROTOCOL 0.2: a batch is the same whenever it is decoded."""
    values = [framed(7, avro(SCHEMA, {"a": 5}))]
    later = Decoder(FIELDS, "avro", schemas=Known({7: SCHEMA}))
    assert later.decode(values, [0], unknown=(7,)).refused == [(0, "the registry does not know schema 7")]
    assert later.decode(values, [0], unknown=()).rows["a"].to_list() == [5]
    with pytest.raises(StateCorrupted, match="does not know schema 7"):
        Decoder(FIELDS, "avro", schemas=Known({})).decode(values, [0], unknown=())


def test_a_schema_is_asked_for_once() -> None:
    schemas = Known({1: SCHEMA})
    decoder = Decoder(FIELDS, "avro", schemas=schemas)
    for _ in range(3):
        decoder.decode([GOOD, GOOD], [0, 0])
    assert schemas.asked == [1]


def test_json_behind_the_id_of_a_schema_is_read_as_json_is() -> None:
    decoder = Decoder({"a": "int"}, "json-schema", schemas=Known({1: {}, 2: {}}, kind="JSON"))
    assert decoder.decode([framed(1, b'{"a":5}'), framed(2, b'{"a":6}')], [0, 0]).rows["a"].to_list() == [5, 6]
    values = [framed(1, b'{"a":5}'), framed(9, b"{}"), framed(1, b'{"a":"x"}'), b'{"a":1}', framed(2, b'{"a":7}')]
    found = decoder.decode(values, [0] * 5)
    assert found.rows["a"].to_list() == [5, 7]
    assert found.kept.tolist() == [0, 4]
    assert found.refused == [
        (1, "the registry does not know schema 9"),
        (2, 'a: expected int, found "x"'),
        (3, "begins with the byte 0x7b, not with 0 and the id of a schema of a registry"),
    ]


def test_a_json_schema_gives_the_fields_that_stand_for_its_properties() -> None:
    text = """{"type": "object", "required": ["id", "tags", "at", "inner"], "properties": {
      "id": {"type": "integer"}, "price": {"type": "number"}, "note": {"type": ["null", "string"]},
      "at": {"type": "string", "format": "date-time"}, "day": {"oneOf": [{"type": "null"}, {"type": "string",
      "format": "date"}]}, "tags": {"type": "array", "items": {"type": "string"}}, "any": {}, "either":
      {"type": ["string", "integer"]}, "inner": {"type": "object", "properties": {"x": {"type": "boolean"}}}}}"""
    assert json_schemas.fields(text) == {
        "id": "int", "price": "float?", "note": "string?", "at": "timestamp", "day": "date?", "tags": "list<string>",
        "inner": "struct<x: bool?>",
    }  # fmt: skip
    assert [json_schemas.fields(one) for one in ("{", "[]", '{"type":"string"}', "[" * 9999)] == [{}] * 4

"""A record without a value deletes the row that its key names, however the key is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.deletions import Deletions
from holdfast.services.kernel.codecs.fields import DELETED, TIME
from holdfast.services.kernel.dataflow.source_records import SourceDecoder

FIELDS = {"name": "string", "n": "int?", "at": "timestamp", "d": "decimal(30,2)", "city": "string"}


def read(key: list[str], *given: bytes | None, unit: str | None = None) -> Decoded:
    return Deletions(FIELDS, key, unit).decode(given, [1] * len(given))


def one(key: list[str], given: bytes, unit: str | None = None) -> tuple[Any, ...]:
    decoded = read(key, given, unit=unit)
    assert decoded.refused == []
    return decoded.rows.drop(TIME).row(0)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"anna", "anna"),
        (b"", ""),
        ("ä b".encode(), "ä b"),
        (b"12", "12"),
        (b"null", "null"),
        (b'"anna"', "anna"),
        (b'["anna"]', "anna"),
        (b'{"name": "anna", "more": 1}', "anna"),
        (b'"half', '"half'),
        (b"[x]", "[x]"),
        (b"[" * 5_000, "[" * 5_000),
    ],
)
def test_a_key_of_one_text_is_its_json_or_itself(given: bytes, name: str) -> None:
    assert one(["name"], given) == (name,)


@pytest.mark.parametrize("given", [b"7", b" 7", b"[7]", b'{"n": 7}'])
def test_a_key_of_one_number_is_its_json(given: bytes) -> None:
    assert one(["n"], given) == (7,)


def test_times_and_decimals_are_read_as_in_records() -> None:
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    assert one(["at"], b"2024-01-02T00:00:00Z") == one(["at"], b'"2024-01-02T00:00:00Z"') == (moment,)
    assert one(["at"], b"1704153600", unit="s") == (moment,)
    assert str(one(["d"], b"1234567890123456789012.34")[0]) == "1234567890123456789012.34"


@pytest.mark.parametrize("given", [b'{"n": 1, "name": "a"}', b'["a", 1]'])
def test_a_key_of_several_columns_is_an_object_or_an_array_in_the_tables_order(given: bytes) -> None:
    assert one(["name", "n"], given) == ("a", 1)


@pytest.mark.parametrize(
    ("key", "given", "reason"),
    [
        (["name"], None, "a deletion: it has no key"),
        (["name"], b'["a", "b"]', "a deletion: its key is a JSON array that does not hold one text for 'name'"),
        (["name"], b'{"city": "x"}', "a deletion: its key is a JSON object without 'name': city"),
        (["name"], b"\xff", "a deletion: its key is not UTF-8: invalid start byte"),
        (["n"], b"anna", 'a deletion: of its key, n: expected int?, found "anna"'),
        (["n"], b'{"m": 1, "n": "x"}', 'a deletion: of its key, n: expected int?, found "x"'),
        (["name", "n"], b"anna", "a deletion: its key is no JSON"),
        (["name", "n"], b"[1]", "a deletion: its key holds 1 of 2 values: name, n"),
        (["name", "n"], b"7", "a deletion: its key holds 1 of 2 values: name, n"),
        (["name", "n"], b'{"n": 1}', "a deletion: of its key, name: is missing, expected string"),
    ],
)
def test_a_key_that_cannot_be_read_is_refused_with_the_reason(key: list[str], given: bytes | None, reason: str) -> None:
    assert read(key, given).refused == [(0, reason)]


def decoder(**params: Any) -> SourceDecoder:
    fields = {"name": "string", "n": "int", **({DELETED: "bool?"} if params.get("table") else {})}
    return SourceDecoder(OperatorPlan("s", "source", 1, (), params, fields))


def test_rows_and_deletions_come_in_the_order_of_their_records() -> None:
    values = [None, b'{"name":"a","n":1}', b"bad", None, b'{"name":"b","n":2}', None]
    decoded = decoder(table=["name"]).decode(values, [5, 6, 7, 8, 9, -1], {0: b"x", 3: None, 5: b"a"})
    assert decoded.rows.rows() == [
        ("x", None, True, 5_000),
        ("a", 1, None, 6_000),
        ("b", 2, None, 9_000),
        ("a", None, True, 0),
    ]
    assert decoded.kept.tolist() == [0, 1, 4, 5]
    assert [index for index, _ in decoded.refused] == [2, 3]
    assert decoder(table=["name"]).decode([None], [5], {0: b"x"}).rows.rows() == [("x", None, True, 5_000)]
    assert decoder(table=["name"]).decode([], [], {}).rows.columns == ["name", "n", DELETED, TIME]


def test_an_empty_value_is_no_deletion_and_a_stream_has_none() -> None:
    assert decoder(table=["name"]).decode([b""], [5], {}).refused == [(0, "no JSON object: the record is empty")]
    assert decoder().decode([None], [5], {0: b"x"}).refused == [(0, "no JSON object: the record is empty")]
    assert decoder().decode([b'{"name":"a","n":1}'], [5], {}).rows.columns == ["name", "n", TIME]


def test_the_time_of_a_tables_row_is_that_of_its_record() -> None:
    at = decoder(table=["name"], event_time="n").decode([b'{"name":"a","n":1}'], [5], {}).rows[TIME]
    assert at.to_list() == [5_000]

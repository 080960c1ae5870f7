"""Forms in which programs write records: each is read, or refused once with a reason that names it."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.deletions import Deletions

FIELDS = {
    "id": "int",
    "s": "string?",
    "f": "float?",
    "d": "decimal(10,2)?",
    "b": "bool?",
    "t": "timestamp?",
    "y": "bytes?",
    "xs": "list<struct<a:int,b:string?,q:list<int>?>>?",
}
PLAIN = {"id": "int", "s": "string?", "f": "float?"}
MARK = b"\xef\xbb\xbf"
RECORDS = 3_000
"""Of each format; tests marked slow_long take LONG of them."""


def of(value: bytes | None, format: str = "json") -> Any:
    """The row, or the reason why it is none."""
    found = Decoder(FIELDS if format == "json" else PLAIN, format).decode(
        [b'{"id":7}' if format == "json" else b"7,,", value], [1, 1]
    )
    assert found.rows["id"][0] == 7, "its neighbour is what it would be alone"
    if found.refused:
        ((at, reason),) = found.refused
        assert (at, found.rows.height) == (1, 1), "named once"
        return reason
    return found.rows.row(1, named=True)


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_byte_order_mark_is_no_content(format: str) -> None:
    assert of(MARK + (b'{"id":5}' if format == "json" else b"5,,"), format)["id"] == 5


@pytest.mark.parametrize("format", ["json", "csv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_another_encoding_is_named(format: str, encoding: str) -> None:
    text = '{"id": 5, "s": "abc"}' if format == "json" else "5,abc,1.5"
    assert f"is {encoding[:6].upper()}, and is to be UTF-8" in of(text.encode(encoding), format)


@pytest.mark.parametrize("text", [r"\ud800", r"a\udfff", r"\ud83dx", r"\\\ud800"])
def test_half_of_a_surrogate_pair_is_named(text: str) -> None:
    assert "is half of a surrogate pair" in of(f'{{"id":1,"s":"{text}"}}'.encode())


def test_whole_pairs_and_escaped_backslashes_are_text() -> None:
    assert of(rb'{"id":1,"s":"\ud83d\ude00 \\ud800"}')["s"] == "\U0001f600 \\ud800"


@pytest.mark.parametrize(
    ("xs", "reason"),
    [
        ([{"a": 1}, {"a": "x"}], 'xs[1].a: expected int, found "x"'),
        ([{}], "xs[0].a: is missing, expected int"),
        ([{"a": 1}, 5], "xs[1]: expected struct<a:int,b:string?,q:list<int>?>, found 5"),
        ([{"a": 1, "q": [1, True]}], "xs[0].q[1]: expected int, found true"),
        ([{"a": 1, "q": 3}], "xs[0].q: expected list<int>?, found 3"),
        ({}, "xs: expected list<struct<a:int,b:string?,q:list<int>?>>?, found {}"),
    ],
)
def test_inside_lists_and_structs_the_inner_type_is_named(xs: Any, reason: str) -> None:
    assert of(json.dumps({"id": 1, "xs": xs}).encode()) == reason


def test_a_value_of_null_says_how_a_row_is_deleted() -> None:
    assert of(b"null") == "expected a JSON object, found null; a record that deletes a row of a table has no value"


# -- keys of deletions ------------------------------------------------------------------------------------------------

CONNECT = b'{"schema":{"type":"struct"},"payload":%s}'


@pytest.mark.parametrize(
    "key",
    [
        b"k",
        b'"k"',
        b'["k"]',
        b'{"id":"k"}',
        CONNECT % b'{"id":"k"}',
        CONNECT % b'"k"',
        b"Struct{id=k}",
        b'\0\0\0\0\7{"id":"k"}',
        b"\xef\xbb\xbfk",
    ],
)
def test_a_key_of_connect_or_a_registry_deletes_its_row(key: bytes) -> None:
    found = Deletions({"id": "string"}, ["id"], None).decode([key], [1])
    assert (found.rows["id"].to_list(), found.refused) == (["k"], [])


@pytest.mark.parametrize(
    ("key", "form"),
    [
        (CONNECT % b'{"ID":"k"}', "a JSON object without 'id'"),
        (b"Struct{ID=k}", "a Connect struct"),
        (b"Struct{id=k,x=1}", "a Connect struct"),
        (CONNECT % b"null", "its payload is null"),
        (b"\0\0\0\0\7\2k", "schema registry (schema 7)"),
        (b"\0\0\0\0\7", "schema registry (schema 7)"),
        (b'{"x":"k"}', "a JSON object without 'id'"),
        (b'["k","l"]', "a JSON array"),
        (b'{"id":1}', "a JSON object that does not hold one text"),
    ],
)
def test_a_key_that_would_delete_nothing_is_refused_with_its_form(key: bytes, form: str) -> None:
    found = Deletions({"id": "string"}, ["id"], None).decode([key], [1])
    ((_, reason),) = found.refused
    assert form in reason
    assert found.rows.height == 0


def test_keys_of_several_columns_and_other_types_have_these_forms_too() -> None:
    fields = {"n": "int", "s": "string"}
    for key in (b"Struct{n=5,s=a b}", CONNECT % b'{"n":5,"s":"a b"}', b'\0\0\0\0\1[5,"a b"]'):
        found = Deletions(fields, ["n", "s"], None).decode([key], [1])
        assert found.rows.select("n", "s").rows() == [(5, "a b")]


# -- any bytes --------------------------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None,
    True,
    -1,
    2**63,
    1.5,
    1e308,
    "",
    "x",
    "\ud83d\ude00",
    "2020-01-01T00:00:00Z",
    "9999-12-31",
    [],
    {},
    [1],
    [{"a": 1}],
]
TEXTS = [
    b"",
    b"1",
    b"x",
    b'"',
    b'5" pipe',
    b'"a,b"',
    b'""',
    b"\n",
    b"\r",
    b"\0",
    b"NaN",
    b"1e999",
    MARK,
    b"\xff",
    b"\xed\xa0\x80",
]


def json_record(chance: random.Random) -> bytes | None:
    names = chance.sample([*FIELDS, "more"], chance.randint(0, 6))
    record = json.dumps({name: chance.choice(VALUES) for name in ["id", *names]}, ensure_ascii=chance.random() < 0.5)
    return broken(record.encode("utf-8", "surrogatepass"), chance)


def csv_record(chance: random.Random) -> bytes | None:
    return broken(b",".join(chance.choice(TEXTS) for _ in range(chance.choice([1, 3, 3, 3, 4]))), chance)


def broken(value: bytes, chance: random.Random) -> bytes | None:
    """Now and then cut, doubled, in another encoding, or with other bytes in it."""
    kind = chance.randrange(16)
    at = chance.randrange(len(value) + 1)
    if kind == 0:
        return None
    if kind == 1:
        return value[:at]
    if kind == 2:
        return value[:at] + bytes([chance.randrange(256)]) + value[at:]
    if kind == 3:
        return value + value
    if kind == 4:
        return MARK + value
    if kind == 5:
        return value.decode("utf-8", "replace").encode(chance.choice(["utf-16", "utf-16-le", "utf-32"]))
    if kind == 6:
        return value[:at] + chance.choice([rb"\ud800", b"[[[[", b"{", b"]", b"\0\0\0\0\5"]) + value[at:]
    return value


FORMATS: dict[str, Callable[[random.Random], bytes | None]] = {
    "json": json_record,
    "csv": csv_record,
    "arrow": json_record,
}


def each_record_has_one_fate(format: str, count: int, seed: int) -> None:
    """Nothing raises, each record is a row or is named once, and alone it fares as it does among others."""
    chance = random.Random(seed)
    decoder = Decoder(FIELDS if format == "json" else PLAIN, format)
    keys = Deletions({"s": "string", "id": "int"}, chance.choice([["s"], ["id"], ["s", "id"]]), None)
    for _ in range(count // 100):
        records = [FORMATS[format](chance) for _ in range(100)]
        for reader in (decoder, keys):
            found = reader.decode(records, [1] * 100)
            fates = [*found.kept.tolist(), *(at for at, _ in found.refused)]
            assert sorted(fates) == list(range(100)), f"seed {seed}"
            assert all(reason for _, reason in found.refused)
            at = chance.randrange(100)
            alone = reader.decode([records[at]], [1])
            reasons = dict(found.refused)
            assert [reason for _, reason in alone.refused] == ([reasons[at]] if at in reasons else []), records[at]


@pytest.mark.parametrize("format", FORMATS)
def test_each_record_has_one_fate_whatever_it_holds(format: str) -> None:
    each_record_has_one_fate(format, RECORDS, seed=7)


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_each_of_a_million_records_has_one_fate(format: str) -> None:
    each_record_has_one_fate(format, 1_000_000, seed=random.randrange(2**32))


def test_csv_as_python_writes_it_is_read_as_python_reads_it() -> None:
    for texts in (["1", '5" pipe', "2"], ["2", 'a "b" c', ""], ["3", "x,\ny", "4"]):
        written = io.StringIO()
        csv.writer(written, lineterminator="").writerow(texts)
        assert of(written.getvalue().encode(), "csv")["s"] == texts[1]
    assert of(b'1,5" pipe,2', "csv")["s"] == '5" pipe'


def test_a_day_before_the_calendar_begins_is_no_date_in_any_format() -> None:
    for format, before, first in (
        ("csv", b"0000-01-01", b"0001-01-01"),
        ("json", b'{"d":"0000-01-01"}', b'{"d":"0001-01-01"}'),
    ):
        found = Decoder({"d": "date?"}, format).decode([before, first], [1, 1])
        assert [index for index, _ in found.refused] == [0]
        assert found.rows["d"].to_list() == [date(1, 1, 1)]

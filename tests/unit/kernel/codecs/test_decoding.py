"""Decoding: strict, exact, and each record on its own."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.csv_form import CsvForm
from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.fields import TIME, schema, with_time

FIELDS = {
    "id": "int",
    "name": "string",
    "at": "timestamp",
    "score": "float?",
    "price": "decimal(5,2)?",
    "day": "date?",
    "raw": "bytes?",
    "ok": "bool?",
    "tags": "list<string>?",
    "place": "struct<x: int, seen: timestamp?>?",
}
GOOD = {"id": 1, "name": "a", "at": "2013-01-01T05:00:00Z"}
NOW_MS = 1_357_016_400_000
FIVE = datetime(2013, 1, 1, 5, tzinfo=UTC)


def decode(*values: bytes | dict[str, Any] | None, **settings: Any) -> Decoded:
    decoder = Decoder(FIELDS, **{"event_time": "at", **settings})
    raw = [json.dumps(value).encode() if isinstance(value, dict) else value for value in values]
    return decoder.decode(raw, [NOW_MS] * len(raw))


def row(**fields: Any) -> dict[str, Any]:
    (found,) = decode({**GOOD, **fields}).rows.to_dicts()
    return found


def reason(value: bytes | dict[str, Any] | None, **settings: Any) -> str:
    decoded = decode(GOOD, value, GOOD, **settings)
    assert decoded.kept.tolist() == [0, 2]
    assert decoded.rows.height == 2
    ((index, text),) = decoded.refused
    assert index == 1
    return text


def test_every_type_is_decoded_exactly() -> None:
    found = row(
        id=-(2**63),
        score=0.1,
        price="12.30",
        day="2013-02-28",
        raw="aGk=",
        ok=False,
        tags=["ä", "\u0000"],
        place={"x": 1, "seen": "2013-01-01", "more": 1},
        unknown={"ignored": [1]},
    )
    assert found == {
        "id": -(2**63),
        "name": "a",
        "at": FIVE,
        "score": 0.1,
        "price": Decimal("12.30"),
        "day": date(2013, 2, 28),
        "raw": b"hi",
        "ok": False,
        "tags": ["ä", "\u0000"],
        "place": {"x": 1, "seen": datetime(2013, 1, 1, tzinfo=UTC)},
        TIME: NOW_MS * 1000,
    }


def test_rows_have_the_schema_of_the_stream_also_without_records() -> None:
    wanted = with_time(schema(FIELDS))
    for values in ([], [GOOD], [b"bad"]):
        assert decode(*values).rows.schema == wanted


def test_nullable_fields_may_be_missing() -> None:
    assert row()["score"] is None
    assert row(score=None)["score"] is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"id": "1"}, 'id: expected int, found "1"'),
        ({"id": 1.5}, "id: expected int, found 1.5"),
        ({"id": True}, "id: expected int, found true"),
        ({"id": 2**63}, f"id: expected int, found {2**63}"),
        ({"id": None}, "id: expected int, found null"),
        ({"name": 5}, "name: expected string, found 5"),
        ({"name": "x", "score": "1"}, 'score: expected float?, found "1"'),
        ({"score": "y" * 100}, f'score: expected float?, found "{"y" * 56}...'),
        ({"price": "1.234"}, 'price: expected decimal(5,2)?, found "1.234"'),
        ({"price": 1000}, 'price: expected decimal(5,2)?, found "1000"'),
        ({"price": "NaN"}, 'price: expected decimal(5,2)?, found "NaN"'),
        ({"day": "2013-02-29"}, 'day: expected date?, found "2013-02-29"'),
        ({"raw": "a"}, 'raw: expected bytes?, found "a"'),
        ({"tags": ["a", 1]}, "tags[1]: expected string, found 1"),
        ({"place": {}}, "place.x: is missing, expected int"),
        ({"at": "5 o'clock"}, 'at: expected timestamp, found "5 o\'clock"'),
        ({"at": 5}, "at: expected timestamp, found 5; integers need the source's `unit`"),
        ({"at": "2013-01-01T06:00:01Z"}, "at: 2013-01-01T06:00:01Z is more than 1 h ahead of the record's timestamp"),
    ],
)
def test_a_value_that_does_not_fit_is_named(change: dict[str, Any], text: str) -> None:
    assert reason({**GOOD, **change}) == text


def test_a_bad_time_inside_a_struct_refuses_the_record() -> None:
    assert reason({**GOOD, "place": {"x": 1, "seen": "never"}}).startswith("place: expected struct<")


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (None, "no JSON object: the record is empty"),
        (b"", "no JSON object: the record is empty"),
        (b"{", "no JSON object: "),
        (b"[]", "expected a JSON object, found []"),
        (b"null", "expected a JSON object, found null; a record that deletes a row of a table has no value"),
        (b'{"id": 1}', "name: is missing, expected string"),
        (b'{"id":1,"name":"a","at":"2013-01-01"}\n{"id":1,"name":"a","at":"2013-01-01"}', "no JSON object: "),
        (b'{"id":1,"name":"a","at":"2013-01-01"},{"id":1,"name":"a","at":"2013-01-01"}', "no JSON object: "),
        (b'{"id":1,"name":"\xff","at":"2013-01-01"}', "a text is not UTF-8"),
        (b'{"id":1,"name":"\\ud800","at":"2013-01-01"}', "no JSON object: "),
        (b'{"id":1,"score":NaN}', "no JSON object: "),
        (b'{"z":' + b"[" * 100_000, "nested too deeply"),
        (b"[" * 100_000, "expected a JSON object, in [[["),
        (b"[1", "expected a JSON object, in [1"),
        (b'{"id":"x"', 'id: expected int, in {"id":"x"'),
        (b'{"id":"x","z":"\xff"}', "a text is not UTF-8"),
        (b'{"id":1,"name":"a","at":"2013-01-01","x\xff":1.5}', "a text is not UTF-8"),
        (b'{"id":"x","z":' + b"9" * 5000 + b"}", 'id: expected int, in {"id":"x","z":999'),
    ],
)
def test_a_record_that_is_no_object_is_refused(value: bytes | None, start: str) -> None:
    assert reason(value).startswith(start)


def test_a_record_may_span_lines() -> None:
    assert decode(b'\n{"id": 1,\n "name": "a",\r\n "at": "2013-01-01"}\n').kept.tolist() == [0]


def test_without_an_event_time_the_record_tells_it() -> None:
    decoded = decode({**GOOD, "at": "2040-01-01"}, event_time=None)
    assert decoded.rows[TIME].to_list() == [NOW_MS * 1000]
    refused = Decoder({"a": "int"}).decode([b'{"a":1}', b'{"a":2}'], [-1, 0])
    assert refused.refused == [(0, "the record has no timestamp")]
    assert refused.kept.tolist() == [1]


def test_an_event_time_may_be_a_date_and_never_null() -> None:
    decoder = Decoder({"day": "date?"}, event_time="day")
    decoded = decoder.decode([b'{"day":"1970-01-02"}', b"{}"], [NOW_MS, NOW_MS])
    assert decoded.rows[TIME].to_list() == [86_400_000_000]
    assert decoded.refused == [(1, "day: the event time is null")]


@pytest.mark.parametrize(("unit", "number"), [("s", 5), ("ms", 5_000), ("us", 5_000_000), ("ns", 5_000_000_999)])
def test_integers_are_times_in_the_source_s_unit(unit: str, number: int) -> None:
    decoded = decode({**GOOD, "at": number}, {**GOOD, "at": "1970-01-01T00:00:05Z"}, unit=unit)
    assert decoded.rows[TIME].to_list() == [5_000_000, 5_000_000]


def test_a_number_that_is_no_time_of_this_calendar_is_refused() -> None:
    assert reason({**GOOD, "at": 2**62}, unit="s") == f"at: expected timestamp, found {2**62}"


any_value: st.SearchStrategy[Any] = st.sampled_from(
    [None, 1, 2**70, 1.5, "x", "2013-01-01", "2013-01-01T00:00:00.5+01:00", "9.99", [], {}, True]
)
record: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, b"", b"{}", b"}{", b'"', b'{"id":1,', b"],[", GOOD]),
    st.fixed_dictionaries({}, optional={name: any_value for name in FIELDS}).map(lambda some: {**GOOD, **some}),
)


@given(st.lists(record, max_size=12), st.sampled_from([None, "ms"]))
def test_the_fate_of_a_record_does_not_depend_on_its_companions(records: list[Any], unit: str | None) -> None:
    together = decode(*records, unit=unit)
    rows, refused = [], []
    for index, value in enumerate(records):
        alone = decode(value, unit=unit)
        rows += alone.rows.to_dicts()
        refused += [(index, text) for _, text in alone.refused]
    assert together.rows.to_dicts() == rows
    assert together.refused == refused
    assert sorted([*together.kept.tolist(), *(index for index, _ in refused)]) == list(range(len(records)))


whole = json.dumps({**GOOD, "tags": ["a", "b"], "place": {"x": 1, "seen": "2013-01-01"}}).encode()


@given(st.integers(0, len(whole)), st.binary(max_size=3), st.integers(0, 3))
def test_a_record_however_broken_is_a_row_or_refused(at: int, put: bytes, cut: int) -> None:
    decoded = decode(whole[:at] + put + whole[at + cut :])
    assert decoded.rows.height + len(decoded.refused) == 1


# -- CSV --------------------------------------------------------------------------------------------------------------

CSV = {"id": "int", "name": "string?", "at": "timestamp", "x": "float?", "d": "decimal(4,1)?", "ok": "bool?"}


def decode_csv(*lines: bytes | None, fields: dict[str, str] = CSV, unit: str | None = None) -> Decoded:
    return Decoder(fields, "csv", "at", unit).decode(list(lines), [NOW_MS] * len(lines))


def test_csv_is_read_in_the_order_of_the_fields() -> None:
    decoded = decode_csv(b"1,a,2013-01-01,1.5,10.5,true", b'2,"b,""c""\n",2013-01-01,,,', b"3,,2013-01-01,1e3,,FALSE")
    assert decoded.rows.drop(TIME, "at").rows() == [
        (1, "a", 1.5, Decimal("10.5"), True),
        (2, 'b,"c"\n', None, None, None),
        (3, None, 1000.0, None, False),
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (None, "the record is empty"),
        (b"1,a", "expected 6 columns (id, name, at, x, d, ok), found 2"),
        (b"1,a,2013-01-01,,,\n1,a,2013-01-01,,,", "expected one line, found 2"),
        (b'1,"a,2013-01-01,,,', "no CSV: unexpected end of data"),
        (b"id,name,at,x,d,ok", "id: expected int, found 'id'"),
        (b",a,2013-01-01,,,", "id: expected int, found null"),
        (b"1.5,a,2013-01-01,,,", "id: expected int, found '1.5'"),
        (b"1,a,2013-01-01,NA,,", "x: expected float?, found 'NA'"),
        (b"1,a,2013-01-01,nan,,", "x: expected float?, found 'nan'"),
        (b"1,a,2013-01-01,,1.25,", "d: expected decimal(4,1)?, found '1.25'"),
        (b"1,a,2013-01-01,,,yes", "ok: expected bool?, found 'yes'"),
        (b"1,a,,,,", "at: expected timestamp, found null"),
        (b"1,\xff,2013-01-01,,,", "not UTF-8 at byte 2"),
    ],
)
def test_a_csv_record_that_does_not_fit_is_refused(line: bytes | None, text: str) -> None:
    assert decode_csv(b"1,a,2013-01-01,,,", line).refused == [(1, text)]


def test_csv_holds_bytes_dates_nested_values_and_numbers_for_times() -> None:
    fields = {"at": "timestamp", "raw": "bytes", "day": "date", "tags": "list<int>"}
    decoded = decode_csv(b'1000,aGk=,2013-01-01,"[1,2]"', b"1970-01-01,aGk=,2013-01-01,[]", fields=fields, unit="ms")
    assert decoded.rows[TIME].to_list() == [1_000_000, 0]
    assert decoded.rows.row(0)[1:4] == (b"hi", date(2013, 1, 1), [1, 2])


def test_a_long_text_is_a_text() -> None:
    assert decode_csv(b"1," + b"x" * 500_000 + b",2013-01-01,,,").rows["name"].str.len_bytes().to_list() == [500_000]


def test_a_record_of_csv_ends_at_line_feed_and_carriage_return_and_at_no_other_sign() -> None:
    text = "x\u2028y\x85z\x0b\x0c\x1c"
    alone = decode_csv(f'1,"{text}",2013-01-01,,,'.encode(), f"2,{text},2013-01-01,,,".encode())
    assert alone.refused == []
    assert alone.rows["name"].to_list() == [text, text]


csv_cell = st.sampled_from(
    [
        b"",
        "x\u2028y".encode(),
        b"x\x0by",
        b"1",
        b"x",
        b"2013-01-01",
        b"1.5",
        b"true",
        b'"',
        b'"a"',
        b'"a\nb"',
        b"\n",
        b"\xff",
    ]
)


@given(st.lists(st.one_of(st.just(b""), st.lists(csv_cell, min_size=5, max_size=7).map(b",".join)), max_size=8))
def test_csv_records_do_not_depend_on_their_companions(lines: list[bytes]) -> None:
    together = decode_csv(*lines)
    alone = [decode_csv(line) for line in lines]
    assert together.rows.to_dicts() == [one for each in alone for one in each.rows.to_dicts()]
    assert together.refused == [(index, text) for index, each in enumerate(alone) for _, text in each.refused]


# -- decimals ---------------------------------------------------------------------------------------------------------

LOOSE = ["1_000", "1.5\n", " 1.5", "1.5 ", "\u0661", "1__0", "\t2", "NaN", "1,5", "", "0x10", "1.5e", "\u2212" + "1"]
EXTREME = [
    "9999999999999999999999999999.99900461948",
    "-1E-103",
    "1E-38",
    "1E99",
    "1E-99999",
    "1E+99999",
    "0.00000000001",
]


@pytest.mark.parametrize("text", EXTREME)
def test_a_decimal_that_its_type_does_not_hold_is_refused_whatever_arrow_does_with_it(text: str) -> None:
    """At some of them pyarrow ends the process, or takes another number."""
    fields = {"d": "decimal(38,10)", "l": "list<decimal(38,10)>?"}
    for record in ({"d": text}, {"d": "1", "l": [text]}):
        found = Decoder(fields, "json").decode([json.dumps(record).encode()], [0])
        assert [at for at, _ in found.refused] == [0], found
    assert Decoder({"d": "decimal(38,10)"}, "csv").decode([text.encode()], [0]).refused


def test_a_zero_of_any_exponent_is_zero_also_beside_what_does_not_fit() -> None:
    reader = Decoder({"d": "decimal(10,2)", "l": "list<decimal(10,2)>?"}, "json")
    found = reader.decode([b'{"d": "0E+310", "l": ["0E+310", "0E-400"]}', b'{"d": "1E-9"}', b'{"d": "NaN"}'], [0] * 3)
    assert found.rows.select("d", "l").rows() == [(Decimal("0.00"), [Decimal("0.00"), Decimal("0.00")])]
    assert [at for at, _ in found.refused] == [1, 2]


EXACT = ["1.5", "-1.50", "+2", ".5", "5.", "1e2", "007", "12345678.25"]


@pytest.mark.parametrize("text", LOOSE)
def test_a_text_that_is_a_decimal_for_python_alone_is_refused(text: str) -> None:
    fields = {"d": "decimal(10,2)", "l": "list<decimal(10,2)>?", "s": "string?"}
    reader = Decoder(fields, "json")
    assert reader.decode([json.dumps({"d": text}).encode()], [0]).refused, "with escapes"
    for record in ({"d": text}, {"d": "1.5", "l": ["2", text]}):
        alone = reader.decode([json.dumps(record, ensure_ascii=False).encode()], [0])
        among = reader.decode(
            [b'{"d": "1.5", "s": "a_b"}', json.dumps(record, ensure_ascii=False).encode(), b'{"d": 2, "s": " 3 "}'],
            [0] * 3,
        )
        assert [index for index, _ in alone.refused] == [0], (text, alone)
        assert [index for index, _ in among.refused] == [1]
        assert among.refused[0][1] == alone.refused[0][1]
        assert "decimal(10,2)" in alone.refused[0][1]
    if text and "," not in text and "\n" not in text:  # a line may end so
        assert Decoder({"d": "decimal(10,2)"}, "csv").decode([text.encode()], [0]).refused
        nested = Decoder({"l": "list<decimal(10,2)>?"}, "csv", form=CsvForm(";", "'"))
        assert nested.decode([json.dumps([text], ensure_ascii=False).encode()], [0]).refused


@pytest.mark.parametrize("text", EXACT)
def test_a_decimal_as_a_text_or_a_number_is_itself(text: str) -> None:
    found = Decoder({"d": "decimal(10,2)", "s": "string?"}, "json").decode(
        [json.dumps({"d": text, "s": "1_000"}).encode(), b'{"d": "1"}'], [0, 0]
    )
    assert (found.refused, found.rows["d"].to_list()) == ([], [Decimal(text).quantize(Decimal("0.01")), Decimal(1)])
    assert Decoder({"d": "decimal(10,2)"}, "csv").decode([text.encode()], [0]).rows["d"].to_list() == [Decimal(text)]

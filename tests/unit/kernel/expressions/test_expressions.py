"""Expressions: a row in, a value out, and nothing that depends on the clock, on other rows, or on bad luck."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.expressions.parsing import (
    ExpressionError,
    compile_expression,
    is_bare,
    may_fail,
    name_of,
    result_type,
    source_of,
)

SCHEMA = schema(
    {
        "a": "int?",
        "b": "int?",
        "x": "float?",
        "s": "string?",
        "t": "timestamp?",
        "d": "date?",
        "ok": "bool?",
        "m": "decimal(10,2)?",
        "l": "list<int>?",
        "o": "struct<p: int>?",
        "dep_delay": "float?",
    }
)
NIGHT = datetime(2013, 1, 1, 23, tzinfo=UTC)


def value(text: str, **row: Any) -> Any:
    expression = compile_expression(text, SCHEMA)
    frame = pl.DataFrame([row], schema=SCHEMA).select(_value=expression)
    assert frame.schema["_value"] == result_type(expression, SCHEMA)
    return frame["_value"][0]


def wrong(text: str, **more: pl.DataType) -> str:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, {**SCHEMA, **more})
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("dep_delay > 15", {"dep_delay": 16.0}, True),
        ("dep_delay / 60", {"dep_delay": 90.0}, 1.5),
        ("dep_delay > 15 AND ok", {"dep_delay": 16.0}, None),
        ("a % b", {"a": 7, "b": 4}, 3),
        ("s LIKE 'x%' OR a IN (1, 2)", {"s": "y", "a": 2}, True),
        ("COALESCE(a, 0)", {}, 0),
        ("0 + 7 / 4", {}, 1.75),
        ("0 * x", {"x": 2.5}, 0.0),
        ("o.p + l[1]", {"o": {"p": 1}, "l": [5]}, 6),
        ("l[9]", {"l": [5]}, None),
        ("CASE WHEN a > 1 THEN 'many' ELSE 'few' END", {"a": 2}, "many"),
        ("s = 'now()'", {"s": "now()"}, True),
    ],
)
def test_sql_is_understood(text: str, row: dict[str, Any], expected: object) -> None:
    assert value(text, **row) == expected


@pytest.mark.parametrize("zero", ["b", "0", "b * x", "NULLIF(b, 1)"])
@pytest.mark.parametrize(
    "text", ["a / {}", "a % {}", "x / {}", "x % {}", "a // {}", "MOD(x, {})", "DIV(a, {})", "m / {}"]
)
def test_division_by_zero_gives_null(text: str, zero: str) -> None:
    assert value(text.format(zero), a=1, b=0, x=1.0, m=Decimal("1")) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 + x", [0.0, 0.0, -2.5, None]),
        ("x + 0.0", [0.0, 0.0, -2.5, None]),
        ("x + (1 - 1)", [0.0, 0.0, -2.5, None]),
        ("0 * x", [-0.0, 0.0, -0.0, None]),
        ("0.0 - a", [0.0, 1.0, -2.0, None]),
        ("x - 0", [-0.0, 0.0, -2.5, None]),
        ("-x", [0.0, -0.0, 2.5, None]),
    ],
)
def test_a_single_zero_beside_a_column_gives_the_same_in_every_batch(text: str, expected: list[float | None]) -> None:
    expression = compile_expression(text, SCHEMA)
    rows = pl.DataFrame([{"x": x, "a": a} for x, a in ((-0.0, 0), (0.0, -1), (-2.5, 2), (None, None))], schema=SCHEMA)
    whole = rows.select(_value=expression)["_value"].to_list()
    assert repr(whole) == repr(expected)
    assert repr([rows[at : at + 1].select(_value=expression)["_value"][0] for at in range(4)]) == repr(expected)


@pytest.mark.parametrize("item", ["a, b", "a AS c, b", "a + b, COALESCE(a, b)"])
def test_several_items_in_one_are_named(item: str) -> None:
    with pytest.raises(ExpressionError, match="is 2 items: write each by itself"):
        name_of(item, list(SCHEMA))


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("a IS DISTINCT FROM b OR ok", {"a": 1, "b": 1, "ok": False}, False),
        ("a IS DISTINCT FROM b AND ok", {"a": 1, "b": 2, "ok": False}, False),
        ("ok IS NOT DISTINCT FROM (x > 1) AND (a = 1)", {"ok": False, "x": 2.0, "a": 0}, False),
        ("NOT (ok IS DISTINCT FROM FALSE AND a = 1)", {"ok": True, "a": 0}, True),
        ("a IS DISTINCT FROM CASE WHEN ok THEN 1 ELSE 2 END OR x = 1", {"a": 1, "ok": True, "x": 2.0}, False),
        ("(a IS DISTINCT FROM b) IS DISTINCT FROM ok", {"a": 1, "b": 1, "ok": False}, False),
        ("COALESCE(a IS DISTINCT FROM b, ok)", {"a": 1}, True),
        ("s IS DISTINCT FROM 'a OR (b' AND ok", {"s": "a OR (b", "ok": True}, False),
        ("l[1] IS DISTINCT FROM 1 AND ok", {"l": [1], "ok": True}, False),
    ],
)
def test_is_distinct_from_takes_no_more_than_a_comparison(text: str, row: dict[str, Any], expected: object) -> None:
    assert value(text, **row) is expected


numbers = st.none() | st.integers(-5, 5)


@given(numbers, numbers, st.sampled_from(["a / b", "a % b", "x / (a - b)", "a / (b / a)", "x / x", "-a / b % (a + b)"]))
def test_no_division_makes_nan_or_infinity(a: int | None, b: int | None, text: str) -> None:
    found = value(text, a=a, b=b, x=None if a is None else float(a))
    assert found is None or abs(found) < 100


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("EXTRACT(hour FROM t) * 100", {"t": NIGHT}, 2300),
        ("DATE_PART('hour', t) * DATE_PART('hour', t)", {"t": NIGHT}, 529),
        ("LENGTH(s) - 5", {"s": "ab"}, -3),
        ("CAST(s AS INT) * 1000", {"s": "3000000000"}, 3_000_000_000_000),
        ("CAST(x AS REAL)", {"x": 0.5}, 0.5),
    ],
)
def test_numbers_have_64_bits(text: str, row: dict[str, Any], expected: object) -> None:
    assert value(text, **row) == expected
    assert result_type(compile_expression(text, SCHEMA), SCHEMA) in (pl.Int64, pl.Float64)


LEAST, MOST = -(2**63), 2**63 - 1
wide = st.integers(LEAST, MOST) | st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, 2, MOST - 1, MOST])
EXACT: dict[str, Callable[[int, int], int | None]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "-a": lambda a, _: -a,
    "ABS(a)": lambda a, _: abs(a),
    "a // b": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None,
    "POWER(a, b)": lambda a, b: None if b < 0 else a**b if abs(a) < 2 or b < 64 else 2**64,
    "a * 2 + b * 3": lambda a, b: a * 2 + b * 3 if all(LEAST <= n <= MOST for n in (a * 2, b * 3)) else None,
}


@given(wide, wide, st.sampled_from(sorted(EXACT)))
def test_an_integer_of_more_than_64_bits_is_null(a: int, b: int, text: str) -> None:
    exact = EXACT[text](a, b)
    assert value(text, a=a, b=b) == (exact if exact is not None and LEAST <= exact <= MOST else None)
    assert value(text, a=a, b=None) is None or "b" not in text


@pytest.mark.parametrize(("a", "power"), [(0, (0, 0)), (1, (1, 1)), (-1, (1, -1)), (2, (None, None))])
def test_an_exponent_of_more_than_32_bits(a: int, power: tuple[int | None, int | None]) -> None:
    """Polars raises at one: a record could have ended its unit."""
    assert (value("POWER(a, b)", a=a, b=2**32), value("POWER(a, b)", a=a, b=MOST)) == power


def test_values_that_cannot_be_cast_or_parsed_are_null() -> None:
    assert value("CAST(s AS INT)", s="x") is None
    assert value("STRPTIME(s, '%Y-%m-%d')", s="x") is None
    assert value("STRPTIME(s, '%Y-%m-%d')", s="2013-01-01") == datetime(2013, 1, 1, tzinfo=UTC)


def test_a_fraction_is_a_float_unless_decimals_are_about() -> None:
    assert value("a * 1.5", a=1) == 1.5
    assert result_type(compile_expression("a * 1.5", SCHEMA), SCHEMA) == pl.Float64
    assert value("m * 1.5", m=Decimal("0.10")) == Decimal("0.15")


@pytest.mark.parametrize(
    "text",
    [
        "t > '2013-01-01'",
        "'2013-01-01T23:30:00+01:00' < t",
        "t BETWEEN '2013-01-01' AND '2013-01-02'",
        "t = TIMESTAMP '2013-01-01 23:00:00'",
        "d = '2013-01-01'",
        "t - INTERVAL '1 hour' < t",
        "t::timestamp = t",
    ],
)
def test_times_compare_with_texts(text: str) -> None:
    assert value(text, t=NIGHT, d=date(2013, 1, 1)) is True


@pytest.mark.parametrize(
    "text", ["NOW() > t", "RANDOM()", "CURRENT_TIMESTAMP", "current_date = d", "LOCALTIME", "uuid()"]
)
def test_functions_that_change_between_replays_are_refused(text: str) -> None:
    assert "results must depend on the data alone" in wrong(text)


@pytest.mark.parametrize(
    "text",
    [
        "MAX(a)",
        "a > AVG(a)",
        "COUNT(*)",
        "SUM(a) OVER (PARTITION BY s)",
        "LAG(a) OVER (ORDER BY a)",
        "STRING_AGG(s)",
        "CORR(a, b)",
        "QUANTILE_CONT(a, 0.5)",
        "FIRST(a)",
        "ARRAY_AGG(a)",
    ],
)
def test_functions_that_look_at_other_rows_are_refused(text: str) -> None:
    assert "use an aggregate" in wrong(text)


def test_a_mistake_is_explained() -> None:
    assert wrong("dep_dely > 1") == "there is no column 'dep_dely' (did you mean 'dep_delay'?)"
    assert wrong("s > 1") == (
        "s is text and 1 is a whole number, which cannot be compared: "
        "write `CAST(s AS DOUBLE)` for the text as a number"
    )
    assert wrong("t > 'noon'") == "'t > 'noon'' compares a time with 'noon', which is none"
    assert "cannot be read as an expression" in wrong("a +")
    assert "STRPTIME" in wrong("DATE(s)")
    assert "join" in wrong("a IN (SELECT 1)")
    assert "no column '_time'" in wrong("_time")
    assert wrong("CAST(user AS INT)", user=pl.String()).endswith('write the column in double quotes, "user"')
    assert wrong("order > 1", order=pl.Int64()).endswith('"order"')
    assert "there is no function USER" in wrong("user > 1")
    assert compile_expression('CAST("user" AS INT)', {"user": pl.String()}).meta.root_names() == ["user"]


def test_a_select_item_has_a_name() -> None:
    assert name_of("origin") == "origin"
    assert name_of("dep_delay / 60 AS delay_h") == "delay_h"
    assert name_of('CAST(a AS INT) as "b"') == "b"
    assert source_of("dep_delay / 60 AS delay_h") == "dep_delay / 60"
    assert is_bare(" origin ")
    assert not is_bare("a + 1")
    with pytest.raises(ExpressionError, match="has no name: write 'a \\+ 1 AS name'"):
        name_of("a + 1")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("a, count(*) FROM s GROUP BY a", "GROUP BY is not there"),
        ("count(*)", "use an aggregate operator"),
        ("NOW()", "another value at each replay"),
        ("a -- the first", "a comment is no expression"),
    ],
)
def test_no_name_is_asked_for_what_is_refused_under_any_name(item: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        name_of(item, ["a"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dep_delay", False),
        ("a > 1 AND NOT ok OR s IS NOT NULL", False),
        ("a / b + CAST(s AS INT) BETWEEN 1 AND 2", False),
        ("CASE WHEN a IN (1, 2) THEN COALESCE(a, b) ELSE ABS(-a) END", False),
        ("REGEXP_LIKE('x', s)", True),
        ("a > 1 AND LEFT(s, a) = 'x'", True),
    ],
)
def test_an_expression_that_calls_a_function_may_fail_at_a_row(text: str, expected: bool) -> None:
    assert may_fail(text) == expected


UNKNOWN: dict[str, bool] = {"ok IS TRUE": False, "ok IS NOT TRUE": True, "ok IS FALSE": False, "ok IS NOT FALSE": True}


@pytest.mark.parametrize(("text", "expected"), UNKNOWN.items())
def test_is_true_and_its_kin_are_never_null(text: str, expected: bool) -> None:
    assert value(text) is expected
    assert value(f"a > b {text.removeprefix('ok ')}") is expected, "IS binds weaker than >"
    assert value(f"NOT ok {text.removeprefix('ok ')}") is not expected, "NOT binds weaker than IS"
    assert value(text, ok=True) is ("TRUE" in text) ^ ("NOT" in text)
    assert value(text, ok=False) is ("FALSE" in text) ^ ("NOT" in text)


@pytest.mark.parametrize(
    ("text", "ok", "expected"),
    [
        ("ok = TRUE", None, None),
        ("ok <> FALSE", True, True),
        ("TRUE", None, True),
        ("COALESCE(ok, FALSE)", None, False),
        ("ok IN (TRUE)", None, None),
        ("CASE ok WHEN TRUE THEN 'y' WHEN FALSE THEN 'n' ELSE '?' END", None, "?"),
        ("s IS NULL AND 'is true' = 'is true'", None, True),
    ],
)
def test_a_truth_value_elsewhere_is_one(text: str, ok: bool | None, expected: object) -> None:
    assert value(text, ok=ok) == expected


@pytest.mark.parametrize(
    ("host", "expected"), [("a.example", 2), ("ä.example", 2), ("localhost", 0), (None, None), ("\U0001f642ä.b", 3)]
)
def test_a_position_counts_letters_and_takes_no_pattern(host: str | None, expected: int | None) -> None:
    assert value("STRPOS(s, '.')", s=host) == expected
    assert value("POSITION('.' IN s)", s=host) == expected


def test_a_text_that_is_cut_at_null_is_null() -> None:
    for text in ("LEFT(s, 0)", "RIGHT(s, 0)", "LEFT(UPPER(s), 00)", "SUBSTR(s, 1, 0)"):
        assert value(text) is None, text
        assert value(text, s="abc") == "", text
    for text in ("LEFT(s, a)", "RIGHT(s, a)", "SUBSTR(s, a)", "SUBSTR(s, 1, a)", "SUBSTR(s, a, 1)"):
        assert value(text, s="abc") is None, text


@pytest.mark.parametrize("cut", [LEAST, -4, -3, -2, 0, 1, 2, 3, 4, 7, MOST])
def test_texts_are_cut_as_python_cuts_them(cut: int) -> None:
    for text in ("", "a", "äb", "abc"):
        n = min(max(cut, -9), 9)
        left = text[:n] if n >= 0 else text[: max(len(text) + n, 0)]
        right = text[max(len(text) - n, 0) :] if n >= 0 else text[min(-n, len(text)) :]
        assert value("LEFT(s, a)", s=text, a=cut) == left
        assert value("RIGHT(s, a)", s=text, a=cut) == right
        assert value("SUBSTR(s, a)", s=text, a=cut) == text[max(n - 1, 0) :]
        assert value("SUBSTR(s, a, b)", s=text, a=cut, b=2) == text[max(n - 1, 0) : max(n + 1, 0)]
    if abs(cut) < 9:
        assert value(f"RIGHT(s, {cut})", s="äb") == value("RIGHT(s, a)", s="äb", a=cut)


@pytest.mark.parametrize(
    "text",
    [
        "LN(x)",
        "LOG10(x)",
        "SQRT(x)",
        "ACOS(x - 1)",
        "ASIN(x - 1)",
        "POWER(x, 0.5)",
        "x % 0",
        "LOG1P(x)",
        "x * 1e308 * 1e308",
    ],
)
def test_outside_its_domain_a_function_gives_null_to_what_looks_at_it(text: str) -> None:
    row = {"x": -2.0}
    assert value(text, **row) is None
    assert value(f"COALESCE({text}, -1)", **row) == -1
    assert value(f"{text} IS NULL", **row) is True
    assert value(f"{text} > 0", **row) is None
    assert value(f"GREATEST({text}, 0.5)", **row) == 0.5


def test_nan_is_no_number_and_infinity_is_one() -> None:
    nan, infinite = float("nan"), float("inf")
    assert [value(text, x=nan) for text in ("x > 1", "x + 1", "COALESCE(x, 7)", "x IS NULL")] == [None, None, 7.0, True]
    assert [value(text, x=infinite) for text in ("x > 1", "x + 1", "COALESCE(x, 7)")] == [True, None, infinite]


def test_the_least_integer_is_one() -> None:
    assert value("a = -9223372036854775808", a=LEAST) is True
    assert value("a > -9223372036854775808", a=LEAST + 1) is True
    assert value("a <= -9223372036854775808", a=LEAST + 1) is False, "as a float the two are the same"
    assert value("a IN (-9223372036854775808)", a=LEAST + 1) is False
    assert value("a < 9223372036854775808", a=MOST) is True
    assert value("-9223372036854775808") == LEAST
    assert value("9223372036854775808") is None
    assert "larger than any float" in wrong("x < 1e400")


moments = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@given(moments)
def test_the_epoch_of_a_time_is_its_seconds_in_every_year(us: int) -> None:
    assert value("EXTRACT(EPOCH FROM t)", t=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)) == us / 1e6


@pytest.mark.parametrize(
    "text", ["t + INTERVAL '1 day'", "t - INTERVAL '9998 years'", "CAST(a AS TIMESTAMP)", "CAST(a AS DATE)"]
)
def test_a_time_outside_the_calendar_is_null(text: str) -> None:
    row = {"t": datetime(9999, 12, 31, 23, tzinfo=UTC), "a": MOST}
    if "9998" in text:
        row["t"] = datetime(5000, 1, 1, tzinfo=UTC)
    assert value(text, **row) is None
    assert value(f"{text} IS NULL", **row) is True


TEXTS: dict[str, list[tuple[str, object]]] = {
    "TIMESTAMP": [
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        (" 2024-02-29 10:11 ", datetime(2024, 2, 29, 10, 11, tzinfo=UTC)),
        ("2024-02-29T10:11:12.5Z", datetime(2024, 2, 29, 10, 11, 12, 500_000, tzinfo=UTC)),
        ("2024-02-29 10:11:12.123456789+02:30", datetime(2024, 2, 29, 7, 41, 12, 123_456, tzinfo=UTC)),
        ("2024-02-29T23:00:00-0100", datetime(2024, 3, 1, tzinfo=UTC)),
        *[(text, None) for text in ("2023-02-29", "2024-02-29T24:00", "0000-01-01", "0001-01-01T00:00+01", "noon", "")],
    ],
    "DATE": [("2024-02-29", date(2024, 2, 29)), ("2024-02-29T23:00-05", date(2024, 2, 29)), ("29.2.2024", None)],
    "BOOLEAN": [("true", True), ("T", True), ("1", True), ("no", False), ("F", False), ("0", False), ("on", None)],
    "DECIMAL(10,2)": [
        ("1.025", Decimal("1.03")),
        ("-1.025", Decimal("-1.03")),
        ("1.0249999", Decimal("1.02")),
        ("1_000", None),
        (" 1.5 ", None),
        ("NaN", None),
        ("99999999.999", None),
    ],
}


@pytest.mark.parametrize(("kind", "text", "expected"), [(k, *one) for k, some in TEXTS.items() for one in some])
def test_a_text_becomes_what_it_says_or_null(kind: str, text: str, expected: object) -> None:
    assert value(f"CAST(s AS {kind})", s=text) == expected
    assert value(f"CAST(s AS {kind})") is None


@given(st.decimals(-1000, 1000, places=3))
def test_cast_and_round_agree_half_away_from_zero(number: Decimal) -> None:
    rounded = number.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert value("CAST(s AS DECIMAL(10,2))", s=f"{number:f}") == rounded
    assert (
        value(f"CAST({number:f} AS DECIMAL(10,2))" if number >= 0 else f"CAST(({number:f}) AS DECIMAL(10,2))")
        == rounded
    )
    assert value("CAST(CAST(s AS DECIMAL(20,3)) AS DECIMAL(10,2))", s=f"{number:f}") == rounded
    assert value("ROUND(CAST(s AS DECIMAL(20,3)), 2)", s=f"{number:f}") == rounded
    assert value("CAST(x AS DECIMAL(10,2))", x=float(number)) == Decimal(f"{value('ROUND(x, 2)', x=float(number)):.2f}")


def test_a_list_of_texts_beside_a_time_holds_times() -> None:
    leap = {"d": date(2024, 2, 29), "t": datetime(2024, 2, 29, tzinfo=UTC)}
    assert value("d IN ('2024-02-29')", **leap) is True
    assert value("t IN ('2023-01-01', '2024-02-29T00:00:00Z')", **leap) is True
    assert value("d NOT IN ('2024-02-29')", **leap) is False
    assert value("d IN ('2024-02-29T10:00')", **leap) is False, "a time of day is in no date"
    assert value("d IN ('2023-01-01', NULL)", **leap) is None
    assert "compares a time with 'noon', which is none" in wrong("t IN ('noon')")


def test_lists_of_numbers_have_the_type_of_what_is_looked_for() -> None:
    assert [value("x IN (0.1, 2)", x=x) for x in (0.1, 2.0, 0.2)] == [True, True, False]
    assert [value("a IN (1, 2.5)", a=a) for a in (1, 2)] == [True, False]
    assert value("m IN (1.50)", m=Decimal("1.5")) is True


def test_a_pattern_that_is_none_is_refused_at_once() -> None:
    assert "no regular expression" in wrong("s ~ '('")


def test_a_column_that_is_no_word_is_to_be_quoted() -> None:
    columns = {"PM2.5": pl.Float64(), "v": pl.Int64()}
    for text in ("PM2.5 > 3", "AVG(PM2.5)"):
        with pytest.raises(ExpressionError, match=r'write the column in double quotes, "PM2\.5"'):
            compile_expression(text, columns)
    compile_expression('"PM2.5" > 3', columns)

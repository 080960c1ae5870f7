"""SQL of other systems: each answer names what is not there and what does the same, and code in it is accepted."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions import advice, function_advice
from holdfast.services.kernel.expressions.parsing import (
    ExpressionError,
    compile_expression,
    name_of,
    result_type,
    source_of,
)
from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME
from holdfast.services.kernel.operators import aggregate_texts
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from tests.support.mistakes import mistake

FIELDS = {
    "v": "int", "w": "float?", "s": "string", "t": "timestamp", "d": "date", "b": "bool", "tags": "list<string>",
    "p": "struct<a: int>", "m": "decimal(10,2)", "later": "timestamp", "earlier": "timestamp", "moment": "timestamp",
}  # fmt: skip
SCHEMA = schema(FIELDS)
INTERNAL = ("Span(", "Ident", "i64", "f64", "dtype", "Datetime(", "could not", "token", "currently supported",
    "sql_", "Series")  # fmt: skip
"""Words of polars that no user knows."""

EXPRESSIONS = {
    "TIMESTAMP_TRUNC(t, day)": ("TIMESTAMP_TRUNC is not there", "`DATE_TRUNC('hour', t)`"),
    "DATE_TRUNC('hours', s)": ("gives DATE_TRUNC text where it takes a time", "CAST(... AS TIMESTAMP)"),
    "DATE_TRUNC('fortnight', t)": ("the unit 'fortnight', which is none", "known: microsecond"),
    "DATE_TRUNC(s, t)": ("needs a text in single quotes written out for 'unit'", "DATE_TRUNC('unit', moment: time)"),
    "REPEAT(s)": ("gives REPEAT 1 arguments", "REPEAT(text: text, count: int)"),
    "REGEXP_EXTRACT(s, 'a(b)', 2)": ("asks for group 2", "which has 1"),
    "JSON_EXTRACT_STRING(s, 'a b')": ("has the path 'a b'", "'$.user.tags[0]'"),
    "t AT TIME ZONE 'Wien'": ("the time zone 'Wien', which is none", "Europe/Vienna"),
    "MD5(v)": ("gives MD5 a whole number where it takes a text", "CAST(... AS VARCHAR)"),
    "v NOT IN ('a', 'b')": ("'v IN (...)' looks for a whole number", "of which each is text"),
    "v > 1_000": ("has a number with '_' in it", "write the digits alone"),
    "v s": ("ends in 's', which belongs to nothing", "an operator is missing before it"),
    "v > 0 AS more": ("ends in 'more', which belongs to nothing", "or it is a name to leave out"),
    "GREATEST()": ("GREATEST is given other arguments than it takes", "GREATEST("),
    "MAX(v, w)": ("MAX takes many rows", "of several columns of a row it is `GREATEST(v, w)`"),
    "s->>'a'": ("-> is not there", "`JSON_EXTRACT_STRING(s, '$.a')`"),
    "s.a": ("s is text, which has no members", "`JSON_EXTRACT_STRING(s, '$.a')`"),
    "CAST(s AS JSON)": ("JSON is no type", "JSON_EXTRACT_STRING takes a value out of a text"),
    "CAST(v AS UNSIGNED)": ("UNSIGNED is no type", "BIGINT"),
    "~v": ("~ is not there in front of a value", "`BIT_NOT(v)`"),
    "CASE WHEN v THEN 1 END": ("v is a whole number, not true or false", "`v IS NOT NULL`"),
    "REGEXP_LIKE(s, '[')": (
        "'REGEXP_LIKE(s, '[')' has '[', which is no regular expression",
        "unclosed character class",
    ),
    "DATE(s)": ("'DATE(s)' guesses a format from other rows", "use CAST"),
    "TO_HEX(v)": ("'TO_HEX(v)' gives TO_HEX a whole number where it takes a text", "CAST(... AS VARCHAR)"),
    "b IS UNKNOWN": ("IS UNKNOWN is not there", "`b IS NULL`"),
    "CAST(s AS TIME)": ("TIME is no type: a time of day is", "STRFTIME(moment, '%H:%M:%S')"),
    "w > 1e400": ("1e400 is larger than any float", "`1.7e308`"),
    "UNNEST(tags)": ("UNNEST is not there", "`tags[1]`"),
    "EXPLODE(tags)": ("EXPLODE is not there", "unnest operator"),
    "LATERAL FLATTEN(tags)": ("LATERAL is not there", "`tags[1]`"),
    "ROW_NUMBER() OVER (PARTITION BY s ORDER BY v)": ("OVER is not there", "`top`"),
    "SUM(v) OVER (PARTITION BY s)": ("OVER is not there", "`emit: each`"),
    "LAG(v) OVER (ORDER BY t)": ("OVER is not there", "aggregate"),
    "LAG(v)": ("LAG is not there", "Python operator"),
    "RANK()": ("RANK is not there", "`top: {k: 5, by: n}`"),
    "COUNT(*) FILTER (WHERE b)": ("FILTER (WHERE ...) is not there", "`count(CASE WHEN b THEN 1 END)`"),
    "SUM(v)": ("SUM takes many rows", "`sum(v)`"),
    "AVG(v)": ("AVG takes many rows", "`avg(v)`"),
    "COUNT(DISTINCT v)": ("DISTINCT is not there", "`count_distinct(v)`"),
    "STDDEV(v)": ("STDDEV takes many rows", "`stddev(v)`"),
    "COLLECT_LIST(v)": ("COLLECT_LIST takes many rows", "`collect_list(v)`"),
    "LATEST_BY_OFFSET(v)": ("LATEST_BY_OFFSET takes many rows", "`latest_by_offset(v)`"),
    "(SELECT MAX(v) FROM x)": ("a subquery is not there", "join"),
    "v IN (SELECT v FROM x)": ("a subquery is not there", "join"),
    "EXISTS (SELECT 1)": ("a subquery is not there", "join"),
    "SELECT v FROM x WHERE v > 1": ("SELECT is not there", "`select: [v]`"),
    "v UNION ALL v": ("UNION is not there", "`union: [a, b]`"),
    "s GROUP BY 1": ("GROUP BY is not there", "`key: [s]`"),
    "v HAVING v > 1": ("HAVING is not there", "filter"),
    "v ORDER BY v": ("ORDER BY is not there", "top"),
    "v LIMIT 5": ("LIMIT is not there", "top"),
    "v WHERE v > 1": ("WHERE is not there", "filter"),
    "a JOIN b": ("JOIN is not there", "join operator"),
    "v BETWEEN SYMMETRIC 5 AND 1": ("BETWEEN SYMMETRIC is not there", "LEAST(1, 5)"),
    "s SIMILAR TO 'a'": ("SIMILAR TO is not there", "REGEXP_LIKE"),
    "s LIKE 'a!%' ESCAPE '!'": ("ESCAPE is not there", "REGEXP_LIKE"),
    "s COLLATE 'x'": ("COLLATE is not there", "LOWER"),
    "s MEMBER OF tags": ("MEMBER OF is not there", "`ARRAY_CONTAINS(tags, s)`"),
    "s LIKE s": ("a pattern of LIKE is a text", "STRPOS"),
    "DISTINCT v": ("DISTINCT is not there", "dedup"),
    "CONVERT(INT, v)": ("CONVERT is not there", "`CAST(v AS BIGINT)`"),
    "CASE WHEN b THEN 1": ("CASE has no END", "CASE WHEN"),
    "CASE b THEN 1 END": ("CASE has no WHEN", "CASE WHEN"),
    "v IN ()": ("IN () has no value", "at least one"),
    "STRUCT(v, s)": ("STRUCT is not there", "NAMED_STRUCT"),
    "MAP['a', 1]": ("MAP is not there", "column"),
    "b && b": ("&& is not there", "AND"),
    "!b": ("! is not there", "NOT"),
    "v ** 2": ("** is not there", "`POWER(v, 2)`"),
    "v ^ 2": ("^ is not there", "`POWER(v, 2)`"),
    "v << 3": ("<< is not there", "POWER"),
    "v DIV 2": ("DIV is not there", "`v // 2`"),
    "*": ("* is not there", "each column"),
    "v.*": ("* is not there", "`select: [v]`"),
    "-- v": ("a comment is no expression", "#"),
    "v; DROP TABLE x": ("; is not there", "semicolon"),
    "v = NULL": ("compares with NULL, which is true for no row", "IS NULL"),
    "NULL <> s": ("compares with NULL, which is true for no row", "IS NOT NULL"),
    "v = $1": ("is a parameter", "value itself"),
    "v = :limit": ("is a parameter", "value itself"),
    "[v]": ("square brackets", "`ARRAY[v, v]`"),
    "TUMBLE(t, INTERVAL '1' HOUR)": ("TUMBLE is not there", "`window: {size_s: 3600}`"),
    "WINDOW TUMBLING (SIZE 1 HOUR)": ("TUMBLING is not there", "window_start"),
    "HOP_START(t, 1, 2)": ("HOP_START is not there", "window_start"),
    "p['a'] + 1": ("p is a struct", "`p.a`, not p['a']"),
    "p['b'] = 'x'": ("p has no member 'b'", "`p.a`, not p['b']"),
    "s['a'] = 'x'": ("s['a']: square brackets", "by its number"),
    "p.a || 'x' > 5": ("'x'", "p.a"),
    "ISNULL(v)": ("ISNULL is not there", "`v IS NULL`"),
    "DECODE(v, 1, 2)": ("DECODE is not there", "CASE WHEN"),
    "EXTRACTJSONFIELD(s, '$.a')": ("EXTRACTJSONFIELD is not there", "JSON_EXTRACT_STRING"),
    "TO_TIMESTAMP(s)": ("gives TO_TIMESTAMP text where it takes a number", "DOUBLE"),
    "STRINGTOTIMESTAMP(s, 'yyyy')": ("STRINGTOTIMESTAMP is not there", "STRPTIME"),
    "TIMESTAMPTOSTRING(t, 'yyyy')": ("TIMESTAMPTOSTRING is not there", "STRFTIME"),
    "DATE_FORMAT(t, 'yyyy')": ("DATE_FORMAT is not there", "STRFTIME"),
    "TIMESTAMPDIFF(SECOND, t, t)": ("no column 'SECOND'", "single quotes, 'second'"),
    "DATEADD(day, 1, t)": ("no column 'day'", "single quotes, 'day'"),
    "PROCTIME()": ("PROCTIME is not there", "replay"),
    "NOW()": ("NOW gives another value at each replay", "data alone"),
    "GEN_RANDOM_UUID()": ("GEN_RANDOM_UUID is not there", "replay"),
    "CAST(v AS DECIMAL(50, 2))": ("a decimal has 1 to 38 digits", "`CAST(v AS DECIMAL(38, 2))`"),
    "CAST(v AS FOO)": ("FOO is no type", "BIGINT"),
    "CAST(t AS TIME)": ("a time of day is", "STRFTIME"),
    "t - t": ("is a span of time", "EPOCH"),
    "NULL": ("is null in every row", "`CAST(NULL AS BIGINT)`"),
    "FLOR(w)": ("there is no function FLOR", "did you mean 'FLOOR'"),
    "UPPER(s, s)": ("UPPER is given other arguments", "UPPER(text: text) -> text"),
    "ABS(s)": ("s is text", "`CAST(s AS DOUBLE)`"),
    "UPPER(v)": ("v is a whole number", "`CAST(v AS VARCHAR)`"),
    "s + v": ("s is text and v is a whole number", "`CAST(s AS DOUBLE)`"),
    "s > 5": ("s is text and 5 is a whole number", "`CAST(s AS DOUBLE)`"),
    "v > '5'": ("'5' is text", "`5` without quotes"),
    "v = 'x'": ("'x' is text", "`CAST(v AS VARCHAR)`"),
    "t + 5": ("t is a time", "`t + INTERVAL '5 seconds'`"),
    "v AND b": ("v is a whole number, not true or false", "`v IS NOT NULL`"),
    "s[1]": ("square brackets take an item of a list, and s is text", "`SUBSTR(s, 1, 1)`"),
    "tags[s]": ("square brackets take the number of an item, and s is text", "tags[s]"),
    "p[1]": ("p is a struct", "`p.a`, not p[1]"),
    "p.aa": ("p has no member 'aa'", "did you mean 'a'"),
    "p = s": ("p is a struct and s is text, which cannot be compared", "take a member of the struct, `p.a`"),
    "GREATEST(v, s)": ("chooses between a whole number and text", "CAST(... AS VARCHAR)"),
    "COALESCE(v, s)": ("chooses between a whole number and text", "CAST(... AS VARCHAR)"),
    "IF(b, v, s)": ("chooses between a whole number and text", "CAST(... AS VARCHAR)"),
    "CASE WHEN b THEN 1 ELSE 'a' END": ("chooses between a whole number and text", "CAST(... AS VARCHAR)"),
    "IFNULL(t, v)": ("chooses between a time and a whole number", "CAST for one of them"),
    "EXTRACT(YEAR FROM s)": ("EXTRACT takes a time for 'moment', and s is text", "`CAST(s AS TIMESTAMP)`"),
    "EXTRACT(HOUR FROM v)": ("EXTRACT takes a time for 'moment'", "`TO_TIMESTAMP(v)`"),
    "DATE_PART('foo', t)": ("DATE_PART has no part 'foo'", "known: year"),
    "DATE_PART(year, t)": ("DATE_PART needs a text in single quotes written out for 'part'", "DATE_PART('part', "),
    "LEFT(s, s)": ("LEFT takes a whole number for 'count', and s is text", "`CAST(s AS BIGINT)`"),
    "TRIM(BOTH 'a' FROM v)": ("TRIM takes a text for 'text'", "`CAST(v AS VARCHAR)`"),
    "UPPER(v) = 'a' AND s > 6": ("UPPER takes a text for 'text'", "s is text and 6 is a whole number"),
    "POWER(v, 2) > 'x'": ("POWER(v, 2) is a whole number and 'x' is text", "`CAST(POWER(v, 2) AS VARCHAR)`"),
    "s AT TIME ZONE 'UTC'": ("gives AT TIME ZONE text", "moment AT TIME ZONE 'zone' -> timestamp"),
    "ARRAY[v, s] = v": ("'ARRAY[v, s]' makes a list of values of several types", "cast them"),
    "-s": ("s is text, not a number", "`CAST(s AS DOUBLE)`"),
    "s + INTERVAL '1 day'": ("a span is added to a time", "`CAST(s AS TIMESTAMP)`"),
    "t + INTERVAL '1 fortnight'": ("INTERVAL has no unit 'fortnight'", "known: microsecond"),
    "DATE '2024-13-01'": ("'2024-13-01' is no date", "`DATE '2024-12-31'`"),
    "s ~ s": ("a pattern of ~ is a text in single quotes", "`REGEXP_LIKE(s, s)`"),
    "s LIKE '%' || s": ("a pattern of LIKE is a text in single quotes", "STRPOS"),
    "E'a'": ("E'...' is not there", "without escapes"),
    "{a: v}": ("{...} is not there", "`NAMED_STRUCT('a', v)`"),
    "ISNAN(w)": ("ISNAN is not there", "`w IS NULL`"),
    "CAST(s AS UUID)": ("UUID is no type", "VARCHAR"),
    "CAST(s AS JSON) IS NULL": ("JSON is no type", "JSON_EXTRACT_STRING"),
    "s::time IS NULL": ("TIME is no type", "EXTRACT(HOUR FROM moment)"),
    "CAST(v AS INTERVAL) IS NULL": ("INTERVAL is no type", "DATEADD('day', 2, moment)"),
    "CAST(s AS NVARCHAR)": ("NVARCHAR is no type", "write VARCHAR"),
    "t + INTERVAL '-1 day'": ("no minus sign", "moment - INTERVAL '1 day'"),
    "ROUND(v, -2)": ("0 or more digits", "ROUND(v / 100.0) * 100"),
    "LPAD(s, 5, 'ab')": ("one letter", "not with 'ab'"),
    "TRIM(s, 'ab')": ("another form", "TRIM(BOTH 'ab' FROM s)"),
    "REPLACE(s, s, 'x')": ("written out", "for 'found'"),
    "REGEXP_REPLACE(s, '[', 'x')": ("no regular expression", "unclosed character class"),
    "LENGTH(tags)": ("LENGTH takes a text for 'text', and tags is a list", "`ARRAY_LENGTH(tags)`"),
    "d + 1": ("d is a date and 1 is a whole number", "`d + INTERVAL '1 day'`"),
    "(v, w)": ("several values in brackets are no value", "CONCAT_WS"),
    "tags[1].name": ("a member of an item is not there", "`tags[1]`"),
    "CHOOSE(1, v)": ("there is no function CHOOSE", "a Python operator can compute it"),
    "(v + 1": ("')' missing", "(v + 1"),
    "v + 1)": ("')' too many", "v + 1)"),
    "s = 'a": ("a text is not closed", "single quote"),
    "v +": ("cannot be read", "missing"),
    "V + 1": ("there is no column 'V'", "did you mean 'v'"),
}
"""Cause and fix by expression."""

AGGREGATES = {
    "sum(DISTINCT v)": ("sum(DISTINCT ...) is not there", "dedup operator"),
    "sum(v) / w": ("'w' stands outside of an aggregate", "`max(w)`"),
    "string_agg(s, ',' ORDER BY v)": ("string_agg(... ORDER BY ...) is not there", "the order of event time"),
    "first(v ORDER BY w)": ("first(... ORDER BY ...) is not there", "min_by and max_by"),
    "stddev(s)": ("stddev needs a number, and s is text", "`stddev(CAST(s AS DOUBLE))`"),
    "max_by(v)": ("max_by needs two columns", "max_by(value: any, by: any)"),
    "string_agg(v)": ("string_agg needs a text", "`string_agg(CAST(v AS VARCHAR), ',')`"),
    "collect_list(m)": ("collect_list cannot hold m", "`collect_list(CAST(m AS VARCHAR))`"),
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)": ("PERCENTILE_CONT is not there", "quantile"),
    "topk(v, 5)": ("TOPK is not there", "top operator"),
    "sum(v) OVER ()": ("OVER is not there", "key"),
    "max(v) OVER w": ("OVER is not there", "key"),
    "v": ("is no aggregate", "sum(...)"),
    "sum(v": ("brackets", "sum(v"),
    "sum(s)": ("s is text", "`sum(CAST(s AS DOUBLE))`"),
    "sum(b)": ("b is true or false", "`sum(CAST(b AS BIGINT))`"),
    "mean(t)": ("t is a time", "`mean(EXTRACT(EPOCH FROM t))`"),
    "min(tags)": ("tags is a list", "`tags[1]`"),
    "count_distinct(p)": ("a struct", "`p.a`"),
    "avg()": ("avg() needs a column", "avg(value: number) -> float"),
    "median(s)": ("median needs a number, and s is text", "`median(CAST(s AS DOUBLE))`"),
    "count(v, w)": ("count takes one column, and is given 2", "count([value: any]) -> int"),
    "count(DISTINCT v, w)": ("count_distinct takes one column", "`count_distinct(CONCAT_WS(',', v, w))`"),
    "sum(sum(v))": ("sum stands inside of sum(...)", "second aggregate operator"),
    "UNNEST(tags)": ("UNNEST is not there", "an unnest operator"),
    "DATE_TRUNC('day', t)": ("DATE_TRUNC computes a value of one row", "aggregate around it"),
    "list_sum(tags)": ("LIST_SUM computes a value of one row", "a select operator before the aggregate"),
    "1e400": ("'1e400' is no aggregate", "sum(...)"),
    "grouping(v)": ("there is no aggregate 'grouping'", "known: count"),
    "smu(v)": ("there is no aggregate 'smu'", "did you mean 'sum'"),
}
"""Cause and fix by aggregate."""


def answer(text: str) -> str:
    try:
        text_of(result_type(compile_expression(text, SCHEMA), SCHEMA))
    except (ExpressionError, ValueError) as error:
        return str(error)
    raise AssertionError(f"{text} is accepted")


def answer_of_aggregate(text: str) -> str:
    with pytest.raises(ExpressionError) as error:
        aggregate_texts.parse("x", text, SCHEMA)
    return str(error.value)


def accepted(code: str) -> None:
    """As an expression, a select item, an aggregate, or a piece of a job file."""
    if code.startswith("struct<"):
        schema({"x": code})
        return
    if code in ("key", "top") or ": " in code.replace("'", ""):
        piece: Any = yaml.safe_load("{" + code + "}") if ": " in code else code
        assert piece, code
        if isinstance(piece, dict) and "emit" not in piece and "union" not in piece:
            _accepted_piece(piece)
        return
    if (called := re.match(r"(\w+)\(", code)) and called[1] in AGGREGATE_BY_NAME:
        aggregate_texts.parse("x", code.replace("column", "v"), SCHEMA)
        return
    item = re.sub(r"\bcolumn\b", "v", code)
    text_of(result_type(compile_expression(source_of(item), SCHEMA), SCHEMA))


def _accepted_piece(piece: dict[str, Any]) -> None:
    """As part of an operator over these fields."""
    operator: dict[str, Any] = {"input": "given"}
    if "select" in piece:
        operator |= {"select": ["v" if one == "column" else one for one in piece["select"]]}
    elif "top" in piece:
        operator |= {"top": {**piece["top"], "by": "v"}}
    else:
        operator |= {"aggregate": {"n": "count()"}, **piece}
    raw = {
        "name": "job",
        "sources": {"given": {"topic": "given", "fields": FIELDS}},
        "operators": {"o": operator},
        "queries": {"q": {"input": "o", "sink": {"topic": "out"}}},
    }
    assert check(interpret(raw), []).problems == []


def code_of(said: str) -> list[str]:
    return re.findall(r"`([^`]+)`", said)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_answer_names_cause_and_fix(text: str) -> None:
    said = answer(text)
    cause, fix = EXPRESSIONS[text]
    assert cause in said
    assert fix in said
    assert not [word for word in INTERNAL if word in said]
    for code in code_of(said):
        accepted(code)


@pytest.mark.parametrize("text", AGGREGATES)
def test_an_answer_to_an_aggregate_names_cause_and_fix(text: str) -> None:
    said = answer_of_aggregate(text)
    cause, fix = AGGREGATES[text]
    assert cause in said
    assert fix in said
    assert not [word for word in INTERNAL if word in said]
    for code in code_of(said):
        accepted(code)


ARGUMENTS = ("v", "2", "3")


@pytest.mark.parametrize("name", function_advice.AGGREGATES)
def test_code_in_the_advice_for_every_aggregate_is_accepted(name: str) -> None:
    for code in code_of(
        function_advice.AGGREGATES[name](
            ("b",) if name.startswith("count") else ("v", "b") if "if" in name else ARGUMENTS
        )
    ):
        accepted(code)


@pytest.mark.parametrize("name", function_advice.FUNCTIONS)
def test_code_in_the_advice_for_every_function_is_accepted(name: str) -> None:
    """With arguments of the types that the function is called with elsewhere; one set of them is enough."""
    columns: tuple[tuple[str, ...], ...] = (
        ("t", "t", "t"), ("v", "2", "3"), ("s", "'a'", "'b'"), ("tags", "s", "s"), ("'hour'", "t", "t"),
        ("s", "s", "s"), ("b", "1", "2"),
    )  # fmt: skip
    refused = []
    for arguments in columns:
        try:
            for code in code_of(function_advice.FUNCTIONS[name](arguments)):
                accepted(code)
        except (ExpressionError, ValueError) as error:
            refused.append(str(error))
        else:
            return
    raise AssertionError(refused)


@pytest.mark.parametrize("name", sorted(set(advice.KNOWN) - {"CAST", "TRY_CAST", "EXTRACT", "CASE", "POSITION"}))
def test_functions_that_are_suggested_are_there(name: str) -> None:
    said = mistake(f"{name}(s)", SCHEMA)
    assert "there is no function" not in said
    assert "is not there" not in said


@pytest.mark.parametrize("column", ["@timestamp", "event-time", "geo.lat", "user:id", "$set", "9lives", "größe", "a b"])
def test_the_hint_for_a_column_that_is_no_name_is_accepted(column: str) -> None:
    """It is written in double quotes, and gets a name of letters."""
    fields = schema({column: "string", "v": "int"})
    for written in (column, f'"{column}"'):
        item = hinted(written, fields)
        assert name_of(item, fields) == column or re.fullmatch(r"\w+", name_of(item))
        compile_expression(source_of(item), fields)


def hinted(written: str, fields: Any) -> str:
    """The item as it is, or as the answer to it writes it."""
    try:
        name_of(written, fields)
    except ExpressionError as error:
        return str(re.findall(r"write '(.*)'$", str(error))[0])
    return written

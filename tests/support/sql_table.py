"""Every function, operator, predicate and cast of expressions, as SQL of ours and of DuckDB, and values to try them on.

An entry is the text of an expression, or a pair of ours and DuckDB's, or three: the last is the reason why the two
differ, a key of DIFFERENCES. Names of columns say the type: a, b int; x, y float; m, n decimal; s, u text; t time;
d date; ok, no bool; l list of int;
q map of int.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl

from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.codecs.maps import entries
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

FIELDS = {
    "a": "int?", "b": "int?", "x": "float?", "y": "float?", "m": "decimal(10,2)?", "n": "decimal(10,2)?",
    "s": "string?", "u": "string?", "t": "timestamp?", "d": "date?", "ok": "bool?", "no": "bool?", "l": "list<int?>?",
    "q": "map<string, int?>?",
}  # fmt: skip
SCHEMA = schema(FIELDS)
LEAST, MOST = -(2**63), 2**63 - 1
_OLDEST_DAY, _NEWEST_DAY = -719_162, 2_932_896
_INTS = [None, 0, 1, -1, 2, 3, -3, 7, 100, 2**31, 2**32, 2**53, 2**53 + 1, MOST, MOST - 1, LEAST, LEAST + 1]
_FLOATS = [
    None, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1e-300, 1e300, -1e300, 2.0**53, 9.3e18, math.nan, math.inf,
    -math.inf, 1.005, 2.675,
]  # fmt: skip
_DECIMALS = [
    None, *map(Decimal, ("0.00", "0.01", "-0.01", "1.00", "1.25", "-1.25", "2.50", "99999999.99", "-99999999.99"))
]  # fmt: skip
_TEXTS = [
    None, "", "a", "A", "abc", "äb", "ß", "a.b", " a ", "1", "-7", "1.5", " 15 ", "1e3", "1_000", "true", "F", "no",
    "2024-02-29", "2024-02-29 10:11:12", "2024-02-29T10:11:12.5Z", "2023-02-29", "x%y", "a_b", "9223372036854775807",
    "9223372036854775808", "nan", "inf", "1.025", "-1.025", "a,b,,c", "straße", "éx",
]  # fmt: skip
_TIMES = [
    None, OLDEST_US, OLDEST_US + 1, -1, 0, 1, NEWEST_US, NEWEST_US - 1, 1_709_208_671_500_000, 1_388_534_399_999_999,
    -2_208_988_800_000_000, 951_782_400_000_000, 4_102_444_800_000_000, 16_725_225_600_000_001,
]  # fmt: skip
_MAPS: list[dict[str, Any]] = [{}, {"a": 1}, {"a": None, "b": MOST}, {"": 1, "$x": 2, "\"'": 3, "a.b": 4, "ä": 5}]
EDGES: dict[str, list[Any]] = {
    "a": _INTS, "b": _INTS, "x": _FLOATS, "y": _FLOATS, "m": _DECIMALS, "n": _DECIMALS, "s": _TEXTS,
    "u": ["", None, "a", "b", ".", "ab", "ß", "%"], "t": _TIMES,
    "d": [None, _OLDEST_DAY, 0, -1, 1, 19_782, _NEWEST_DAY, 11_016, -25_509],
    "ok": [None, True, False], "no": [None, True, False],
    "l": [None, [], [1], [1, None], [3, 1, 2], [MOST, 1], [None]],
    "q": [None, *[entries(one) for one in _MAPS]],
}  # fmt: skip
_DRAWS: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda chance: chance.choice((-1, 1)) * chance.getrandbits(chance.randint(0, 62)),
    "float": lambda chance: chance.choice((-1, 1)) * chance.random() * 10.0 ** chance.randint(-12, 12),
    "decimal(10,2)": lambda chance: Decimal(chance.randint(-(10**10) + 1, 10**10 - 1)).scaleb(-2),
    "string": lambda chance: "".join(chance.choices("aAbäß. %_,1-\U0001f642", k=chance.randint(0, 8))),
    "timestamp": lambda chance: chance.randint(OLDEST_US, NEWEST_US),
    "date": lambda chance: chance.randint(_OLDEST_DAY, _NEWEST_DAY),
    "bool": lambda chance: chance.random() < 0.5,
    "list<int?>": lambda chance: [chance.choice((None, chance.randint(-9, 9))) for _ in range(chance.randint(0, 4))],
    "map<string, int?>": lambda chance: entries(
        {key: chance.choice((None, chance.randint(-9, 9))) for key in chance.choices("abß. %", k=chance.randint(0, 4))}
    ),
}
PHYSICAL = {"t": pl.Int64(), "d": pl.Int32()}


def columns_of(text: str) -> list[str]:
    """The columns of an expression, in the order of FIELDS."""
    bare = re.sub(r"'[^']*'", "", text)
    return [name for name in FIELDS if re.search(rf"\b{name}\b", bare)] or ["a"]


def rows(names: list[str], seed: int, most: int) -> pl.DataFrame:
    """Seed 0: edge values with each other, as many as `most`; another seed: values of its own among the edges."""
    chance = random.Random(seed)
    if seed == 0:
        some = list(itertools.product(*(EDGES[name] for name in names)))
        some = some if len(some) <= most else chance.sample(some, most)
    else:
        some = [tuple(_drawn(name, chance) for name in names) for _ in range(most)]
    columns = {name: [row[index] for row in some] for index, name in enumerate(names)}
    return pl.DataFrame(
        [pl.Series(n, values, dtype=PHYSICAL.get(n, SCHEMA[n])).cast(SCHEMA[n]) for n, values in columns.items()]
    )


def _drawn(name: str, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return chance.choice(EDGES[name])
    return _DRAWS[FIELDS[name].removesuffix("?")](chance)


Row = Mapping[str, Any]


class Difference(NamedTuple):
    """Why ours and DuckDB's values differ. said: words of docs/jobs.md; where: rows of which nothing is asked."""

    said: str
    where: Callable[[Row], bool] = lambda row: True


def _any(row: Row, names: str, is_one: Callable[[Any], bool]) -> bool:
    return any(row.get(name) is not None and is_one(row[name]) for name in names.split())


def _small_power(base: int | None, exponent: int | None) -> bool:
    if base is None or exponent is None:
        return True
    return 0 <= exponent < 2**52 and (abs(base) < 2 or exponent * math.log2(abs(base)) < 53)


DIFFERENCES = {
    "cut": Difference("cuts the fraction off", lambda row: _any(row, "x m", lambda v: v != v // 1)),
    "digits": Difference("digits alone", lambda row: _any(row, "s", lambda v: re.fullmatch(r"-?\d+", v) is None)),
    "number": Difference("no spaces and no `_`", lambda row: _any(row, "s", lambda v: bool(re.search(r"[\s_]", v)))),
    "texts of times": Difference("ISO 8601 as a sink writes it"),
    "integer power": Difference("a negative exponent", lambda row: not _small_power(row["a"], row["b"])),
    "integer power of two": Difference("64 bits", lambda row: abs(row["a"] or 0) > 2**20),
    "decimal quotient": Difference("a quotient of decimals"),
    "decimal product": Difference("more than 38 digits", lambda row: _any(row, "m n", lambda v: abs(v) > 10**7)),
    "float quotient": Difference("is whole"),
    "from the end": Difference("counts from the end", lambda row: not 0 < (row.get("a") or 0) < 2**31),
    "always from the end": Difference("counts from the end"),
    "far lengths": Difference("64 bits", lambda row: _any(row, "a b", lambda v: abs(v) >= 2**31)),
    "sharp s": Difference("ß", lambda row: _any(row, "s", lambda v: "ß" in v)),
    "stays a date": Difference("a date stays a date"),
    "fractions of seconds": Difference("MILLISECOND and MICROSECOND have fractions"),
    "numbers as times": Difference("microseconds since 1970"),
    "empty lists": Difference("leaves nulls out"),
    "rounding": Difference("binary digits", lambda row: _any(row, "x", lambda v: v * 1000 % 10 not in (0, 1))),
    "not there": Difference("DuckDB does not have"),
    "large angles": Difference("DuckDB does not have", lambda row: _any(row, "x", lambda v: abs(v) > 1e3)),
    "turns": Difference("DuckDB does not have", lambda row: _any(row, "x", lambda v: v * 10 % 5 == 0 or abs(v) > 1e3)),
    "order of lists": Difference("order"),
    "empty texts": Difference("an x at each end"),
    "nulls of lists": Difference("null where an argument is null", lambda row: row.get("u") is None),
    "32 bits": Difference("DuckDB: 32, 32", lambda row: _any(row, "a", lambda v: abs(v) >= 2**31)),
    "bytes of texts": Difference("the bytes of UTF-8"),
    "nine digits": Difference("nine digits"),
    "far": Difference("1,000,000 bytes", lambda row: _any(row, "a", lambda v: abs(v) > 2**20)),
    "many units": Difference("10,000 years", lambda row: _any(row, "a", lambda v: abs(v) >= 10_000 * 12)),
    "numbers of JSON": Difference("a number of JSON"),
    "far summers": Difference("no summer time after 2099", lambda row: _any(row, "t", lambda v: v.year > 2099)),
}  # fmt: skip

Entry = str | tuple[str, str] | tuple[str, str, str]
NUMBERS: list[Entry] = [
    "a + b", "a - b", "a * b", "-a", "a / b", "a // b", "a % b", "MOD(a, b)", ("DIV(a, b)", "a // b"), "ABS(a)",
    ("POWER(a, b)", "POWER(a, b)", "integer power"), ("POW(a, 2)", "a::hugeint * a", "integer power of two"),
    "SIGN(a)", "a & b", "a | b", ("BIT_AND(a, b)", "a & b"), ("BIT_OR(a, b)", "a | b"),
    ("BIT_XOR(a, b)", "xor(a, b)"),
    "XOR(a, b)", ("BIT_NOT(a)", "~a"), "BIT_COUNT(a)", "GREATEST(a, b)", "LEAST(a, b)", "NULLIF(a, b)",
    "COALESCE(a, b)", "IFNULL(a, b)", "x + y", "x - y", "x * y", "x / y", "x % y",
    ("x // y", "x // y", "float quotient"), "-x", "ABS(x)", "SIGN(x)", "LN(x)", ("LOG(x, 2)", "log(2, x)"),
    "LOG10(x)",
    "LOG2(x)",
    ("LOG1P(x)", "CASE WHEN abs(x) < 1e-4 THEN x - x * x / 2 + x * x * x / 3 ELSE ln(1 + x) END"),
    "EXP(x)", "SQRT(x)", "CBRT(x)",
    "POWER(x, y)", "SIN(x)", "COS(x)", "TAN(x)", "COT(x)", "ASIN(x)", "ACOS(x)", "ATAN(x)", "ATAN2(x, y)",
    ("SIND(x)", "sin(radians(x))", "large angles"), ("COSD(x)", "cos(radians(x))", "large angles"),
    ("TAND(x)", "tan(radians(x))", "large angles"), ("COTD(x)", "cot(radians(x))", "turns"),
    ("ASIND(x)", "degrees(asin(x))"), ("ACOSD(x)", "degrees(acos(x))"), ("ATAND(x)", "degrees(atan(x))"),
    ("ATAN2D(x, y)", "degrees(atan2(x, y))"), "DEGREES(x)", "RADIANS(x)", "CEIL(x)", "CEILING(x)", "FLOOR(x)",
    "ROUND(x)", ("ROUND(x, 2)", "ROUND(x, 2)", "rounding"), "TRUNC(x)",
    ("TRUNCATE(x, 1)", "trunc(x * 10) / 10", "rounding"), "PI()", "GREATEST(x, y)", "LEAST(x, y)", "NULLIF(x, y)",
    "COALESCE(x, y)", "IF(ok, x, y)", "a + x", "a * x", "a / x", "a + m", "a * m", "m + n", "m - n",
    ("m * n", "m * n", "decimal product"), ("m / n", "m / n", "decimal quotient"), "m % n", "-m", "ABS(m)", "SIGN(m)",
    "ROUND(m)", "ROUND(m, 1)", "CEIL(m)", "FLOOR(m)", "TRUNC(m)", "SQRT(m)", "LN(m)", "POWER(m, 2)", "GREATEST(m, n)",
    ("COALESCE(LN(x), -1)", "CASE WHEN x > 0 AND isfinite(x) THEN ln(x) ELSE -1 END"),
    ("COALESCE(SQRT(x), -1)", "CASE WHEN x >= 0 AND isfinite(x) THEN sqrt(x) ELSE -1 END"),
    ("COALESCE(x / y, -1)", "CASE WHEN isfinite(x / y) THEN x / y ELSE -1 END"),
    ("ROUND(x * 2 + y, 1) IS NULL", "NOT coalesce(isfinite(x * 2 + y), false)"),
]  # fmt: skip
PREDICATES: list[Entry] = [
    "ok AND no", "ok OR no", "NOT ok", "ok = no", "ok <> no", "ok IS TRUE", "ok IS NOT TRUE", "ok IS FALSE",
    "ok IS NOT FALSE", "ok IS NULL", "ok IS NOT NULL", "ok = TRUE", "ok <> TRUE", "TRUE", "ok IN (TRUE)",
    "ok NOT IN (TRUE, FALSE)", "ok IS DISTINCT FROM no", "ok IS NOT DISTINCT FROM no",
    "CASE ok WHEN TRUE THEN 1 WHEN FALSE THEN 2 ELSE 3 END", "CASE WHEN ok THEN a ELSE b END", "IF(ok, a, b)",
    "a > b IS TRUE", "x > y IS NOT TRUE", "NOT ok IS TRUE", "NOT ok IS NOT FALSE", "ok AND no IS NOT TRUE",
    "a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b", "a IS NULL", "a IS DISTINCT FROM b",
    "a BETWEEN -1 AND 3",
    "a NOT BETWEEN -1 AND 3", "a IN (1, 2, 3)", "a NOT IN (1, 2)", "a IN (1, NULL)", "a NOT IN (1, NULL)",
    "a IN (1, 2.5)", "a = -9223372036854775808", "a > -9223372036854775808", "a IN (-9223372036854775808)",
    "a < 9223372036854775808", "a = 9223372036854775807", "a IN (9223372036854775807)", "-9223372036854775808",
    "9223372036854775808", "a - 9223372036854775808", "a = 1.0", "a > 0.5", "a = x", "a < x", "x = y", "x < y",
    "x <= y", "x > y", "x >= y", "x <> y", "x IS NULL", "x IN (0.5, 1)", "x NOT IN (0.5)", "x BETWEEN 0 AND 1",
    "x IS DISTINCT FROM y", "x = 0.1", "x > 1", "m = a", "m < a", "m = x", "m = 1.25", "m > 1.2", "m IN (1.25, 2.5)",
    "s = u", "s < u", "s >= u", "s IN ('a', '')", "s NOT IN ('a')", "s IN ('a', NULL)", "s IS NULL",
    "s IS DISTINCT FROM u", "s BETWEEN 'a' AND 'b'", "CASE s WHEN 'a' THEN 1 WHEN '' THEN 2 END", "s LIKE 'a%'",
    "s LIKE '%b'", "s LIKE '%a%'", "s LIKE 'a_b'", "s NOT LIKE 'a%'", "s ILIKE 'A%'", "s LIKE ''",
    ("s ~ '^a'", "regexp_matches(s, '^a')"), ("s !~ '^a'", "NOT regexp_matches(s, '^a')"), "l IS NULL",
    "ARRAY_CONTAINS(l, 1)", "ARRAY_CONTAINS(l, b)", "ARRAY_CONTAINS(STRING_SPLIT(s, ','), u)", "t > '2014-01-01'",
    "t = '1970-01-01'", "t IN ('1970-01-01')",
    "t NOT IN ('1970-01-01', '2014-01-01')", "d = '1970-01-01'", "d IN ('1970-01-01')", "d IN (DATE '1970-01-01')",
    "d IN ('1970-01-01', NULL)", "t BETWEEN '1970-01-01' AND '2020-01-01'", "t < d", "t = d", "d > DATE '2000-01-01'",
    "t = TIMESTAMP '1970-01-01 00:00:00'", "t IS DISTINCT FROM TIMESTAMP '1970-01-01 00:00:00'", "t IS NULL",
]  # fmt: skip
WORDS: list[Entry] = [
    "s || u", "CONCAT(s, u)", "CONCAT(s, a)", "CONCAT_WS('-', s, u)", "LENGTH(s)", "CHAR_LENGTH(s)",
    "CHARACTER_LENGTH(s)", ("OCTET_LENGTH(s)", "octet_length(encode(s))"), "BIT_LENGTH(s)",
    ("UPPER(s)", "UPPER(s)", "sharp s"), "LOWER(s)", ("INITCAP(s)", "s", "not there"), "TRIM(s)", "LTRIM(s)",
    "RTRIM(s)", "LTRIM(s, 'a')", "RTRIM(s, 'b')", "TRIM(BOTH 'a' FROM s)", "LEFT(s, 2)", "LEFT(s, 0)", "LEFT(s, -1)",
    ("LEFT(s, a)", "LEFT(s, a)", "far lengths"), "RIGHT(s, 2)", "RIGHT(s, 3)", "RIGHT(s, 0)", "RIGHT(s, -1)",
    ("RIGHT(s, a)", "RIGHT(s, a)", "far lengths"), "SUBSTR(s, 2)", "SUBSTR(s, 2, 1)", "SUBSTR(s, 0)",
    "SUBSTR(s, 1, 0)", ("SUBSTR(s, -1)", "SUBSTR(s, -1)", "always from the end"),
    ("SUBSTR(s, -2, 1)", "SUBSTR(s, -2, 1)", "always from the end"), ("SUBSTR(s, a)", "SUBSTR(s, a)", "from the end"),
    ("SUBSTR(s, a, 2)", "SUBSTR(s, a, 2)", "from the end"), "SUBSTRING(s, 2, 1)", "SUBSTRING(s FROM 2 FOR 1)",
    "REVERSE(s)", "REPLACE(s, 'a', 'b')", ("REPLACE(s, '', 'x')", "s", "empty texts"), "STRPOS(s, u)",
    "STRPOS(s, '.')", "POSITION('.' IN s)", "POSITION(u IN s)",
    "STARTS_WITH(s, u)", "ENDS_WITH(s, u)", ("REGEXP_LIKE(s, '^a')", "regexp_matches(s, '^a')"),
    "REGEXP_REPLACE(s, 'a', 'b')", "SPLIT_PART(s, ',', 1)", "SPLIT_PART(s, ',', 2)", "SPLIT_PART(s, ',', -1)",
    "SPLIT_PART(s, ',', 9)", "SPLIT_PART(s, ',', 0)", "SPLIT_PART(s, u, 1)", "SPLIT_PART(s, u, a)", "LTRIM(s, u)",
    "RTRIM(s, u)", ("LPAD(s, a, '*')", "CASE WHEN a <= 1000000 THEN lpad(s, a::int, '*') END", "far"),
    ("RPAD(s, a)", "CASE WHEN a <= 1000000 THEN rpad(s, a::int, ' ') END", "far"), "LPAD(s, -1, '*')",
    "LPAD(s, 5, '*')", "RPAD(s, 5, '*')", "LPAD(s, 2, '*')", ("LPAD(s, 5)", "lpad(s, 5, ' ')"),
    ("NORMALIZE(s)", "nfc_normalize(s)"), "STRING_TO_ARRAY(s, ',')",
    ("STRING_TO_ARRAY(s, u)", "string_split(s, u)", "nulls of lists"), "COALESCE(s, '-')", "NULLIF(s, 'a')",
    "GREATEST(s, u)", "LEAST(s, u)", "l[1]", "l[9]", "l[-1]", "l[a]", "ARRAY_LENGTH(l)", ("ARRAY_GET(l, 1)", "l[1]"),
    ("ARRAY_SUM(l)", "list_sum(l)", "empty lists"), ("ARRAY_MEAN(l)", "list_avg(l)"),
    ("ARRAY_REVERSE(l)", "list_reverse(l)"), ("ARRAY_UNIQUE(l)", "list_distinct(l)", "order of lists"),
    ("ARRAY_LOWER(l)", "list_min(l)"), ("ARRAY_UPPER(l)", "list_max(l)"),
    ("ARRAY_TO_STRING(l, ',')", "array_to_string(l, ',')", "empty lists"),
    ("ARRAY_JOIN(l, ',')", "array_to_string(l, ',')", "empty lists"), ("MID(s, 2, 1)", "substring(s, 2, 1)"),
    ("STARTSWITH(s, u)", "starts_with(s, u)"), ("ENDSWITH(s, u)", "ends_with(s, u)"),
]  # fmt: skip
CASTS: list[Entry] = [
    ("CAST(s AS INT)", "CAST(s AS BIGINT)", "digits"), ("CAST(s AS BIGINT)", "CAST(s AS BIGINT)", "digits"),
    ("TRY_CAST(s AS BIGINT)", "TRY_CAST(s AS BIGINT)", "digits"),
    ("CAST(s AS DOUBLE)", "CAST(s AS DOUBLE)", "number"),
    ("CAST(s AS DECIMAL(10,2))", "CAST(s AS DECIMAL(10,2))", "number"), "CAST(s AS DATE)", "CAST(s AS TIMESTAMP)",
    "s::timestamp", "CAST(s AS BOOLEAN)", "CAST(a AS DOUBLE)", "CAST(a AS VARCHAR)", "CAST(a AS BOOLEAN)",
    "CAST(a AS DECIMAL(10,2))", "CAST(a AS SMALLINT)", ("CAST(a AS INTEGER)", "CAST(a AS INTEGER)", "32 bits"),
    ("CAST(x AS FLOAT)", "x"), ("CAST(a AS DECIMAL)", "CAST(a AS DECIMAL(38,9))"), "CAST(x AS REAL)",
    ("CAST(s AS BLOB)", "s", "bytes of texts"), ("CAST(x AS INT)", "CAST(x AS BIGINT)", "cut"),
    ("CAST(x AS BIGINT)", "CAST(x AS BIGINT)", "cut"), "CAST(x AS BOOLEAN)",
    ("CAST(x AS DECIMAL(10,2))", "CAST(x AS DECIMAL(10,2))", "rounding"),
    ("CAST(m AS INT)", "CAST(m AS BIGINT)", "cut"), "CAST(m AS DOUBLE)", "CAST(m AS VARCHAR)",
    "CAST(m AS DECIMAL(10,1))", "CAST(m AS DECIMAL(4,2))", "CAST(ok AS INT)", "CAST(ok AS VARCHAR)",
    "CAST(t AS DATE)",
    ("CAST(t AS VARCHAR)", "CAST(t AS VARCHAR)", "texts of times"), "CAST(d AS TIMESTAMP)", "CAST(d AS VARCHAR)",
    "CAST('1.025' AS DECIMAL(10,2))", "CAST(1.025 AS DECIMAL(10,2))", ("CAST(t AS BIGINT)", "epoch_us(t)"),
    ("CAST(a AS TIMESTAMP)", "make_timestamp(a)"), ("CAST(a AS DATE)", "a", "numbers as times"),
    ("DATE(t)", "t::date"),
    ("STRPTIME(s, '%Y-%m-%d')", "try_strptime(s, '%Y-%m-%d')"),
]  # fmt: skip
TIMES: list[Entry] = [
    *(f"EXTRACT({part} FROM t)" for part in (
        "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY", "HOUR", "MINUTE", "SECOND", "EPOCH", 
        "DECADE", "CENTURY", "MILLENNIUM", "ISOYEAR",
    )),
    ("EXTRACT(MILLISECOND FROM t)", "t", "fractions of seconds"),
    ("EXTRACT(MICROSECOND FROM t)", "t", "fractions of seconds"), ("EXTRACT(NANOSECOND FROM t)", "t", "not there"),
    "DATE_PART('year', d)", "EXTRACT(EPOCH FROM d)", "YEAR(t)", "MONTH(t)", "DAY(t)", "HOUR(t)", "MINUTE(t)",
    "SECOND(t)", "WEEK(t)", "QUARTER(t)", "DAYOFWEEK(t)", "DAYOFYEAR(t)", "DAYOFMONTH(t)", "YEAR(d)",
    "t + INTERVAL '1 day'", "t - INTERVAL '1 day'", "t + INTERVAL '1 month'", "t - INTERVAL '1 month'",
    "t + INTERVAL '1 hour 30 minutes'",
    ("d + INTERVAL '1 day'", "CAST(d + INTERVAL '1 day' AS DATE)", "stays a date"),
    ("d - INTERVAL '1 month'", "CAST(d - INTERVAL '1 month' AS DATE)", "stays a date"),
    "STRFTIME(t, '%Y-%m-%d %H:%M:%S')", "STRFTIME(d, '%Y')", ("STRFTIME(t, '%f')", "t", "nine digits"),
    ("STRFTIME(t, '%6f')", "STRFTIME(t, '%f')"), "GREATEST(t, TIMESTAMP '1970-01-01 00:00:00')",
    "COALESCE(t, TIMESTAMP '1970-01-01 00:00:00')",
]  # fmt: skip
_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
_MILLIS = "(epoch_us(t) - (epoch_us(t) % 1000 + 1000) % 1000) // 1000"
"""DuckDB's own epoch_ms rounds."""
OWN: list[Entry] = [
    "REPEAT(s, 3)", ("REPEAT(s, a)", "CASE WHEN octet_length(encode(s)) * a <= 1000000 THEN repeat(s, a) END", "far"),
    "CONTAINS(s, u)", ("REGEXP_MATCHES(s, '^a')", "regexp_matches(s, '^a')"),
    ("REGEXP_EXTRACT(s, 'a(.)', 1)", "CASE WHEN regexp_matches(s, 'a(.)') THEN regexp_extract(s, 'a(.)', 1) END"),
    ("REGEXP_EXTRACT(s, '[a-b]+')", "CASE WHEN regexp_matches(s, '[a-b]') THEN regexp_extract(s, '[a-b]+') END"),
    "REGEXP_EXTRACT_ALL(s, '[a-b]')", ("REGEXP_COUNT(s, '[a-b]')", "len(regexp_extract_all(s, '[a-b]'))"),
    "MD5(s)", "SHA1(s)", "SHA256(s)", ("HASH64(s)", "s", "not there"), "UPPER(MD5(LOWER(s))) || u",
    ("TO_HEX(s)", "hex(s)"), "HEX(s)", ("TO_BASE64(s)", "to_base64(encode(s))"), "LEN(s)",
    ("UCASE(s)", "upper(s)", "sharp s"), "LCASE(s)",
    ("JSON_EXTRACT_STRING(s, '$.a')", "s", "numbers of JSON"),
    ("JSON_EXTRACT_STRING('{\"a\": \"' || u || '\"}', '$.a')",
     "json_extract_string('{\"a\": \"' || u || '\"}', '$.a')"),
    ("JSON_VALUE(s, '$[0]')", "CASE WHEN json_valid(s) THEN json_extract_string(s, '$[0]') END"),
    "INSTR(s, u)", "STRING_SPLIT(s, ',')", ("SPLIT(s, ',')", "string_split(s, ',')"),
    ("NVL(a, b)", "ifnull(a, b)"), ("IIF(ok, a, b)", "IF(ok, a, b)"),
    ("LIST_VALUE(a, b)", "list_value(a, b)"), ("ARRAY[a, 1]", "[a, 1]"), ("MAKE_ARRAY(a, b)", "[a, b]"),
    ("NAMED_STRUCT('p', a, 'q', b)", "{'p': a, 'q': b}"), ("CARDINALITY(l)", "len(l)"), ("LIST_LENGTH(l)", "len(l)"),
    ("ELEMENT_AT(l, 1)", "l[1]"), "LIST_EXTRACT(l, 1)", "LIST_EXTRACT(l, a)", "LIST_CONTAINS(l, 1)",
    ("LIST_SUM(l)", "l", "empty lists"),
    "LIST_AVG(l)", "LIST_MIN(l)", "LIST_MAX(l)", "LIST_REVERSE(l)", ("LIST_DISTINCT(l)", "l", "order of lists"),
    ("ARRAY_MIN(l)", "list_min(l)"), ("ARRAY_MAX(l)", "list_max(l)"), ("ARRAY_DISTINCT(l)", "l", "order of lists"),
    "q['a']", "q[u]", ("MAP_GET(q, 'a.b')", "q['a.b']"), ("MAP_GET(q, u)", "q[u]"), ("MAP_VALUE(q, '')", "q['']"),
    ("ELEMENT_AT(q, 'b')", "q['b']"), ("ELEMENT_AT(q, u)", "q[u]"), ("MAP_GET(q, NULL)", "NULL::bigint"),
    ("MAP_ENTRIES(ARRAY[q, q][2])", "map_entries(q)"),
    "MAP_KEYS(q)", "MAP_VALUES(q)", "MAP_ENTRIES(q)", "CARDINALITY(q)", ("ARRAY_LENGTH(q)", "cardinality(q)"),
    "MAP_CONTAINS(q, 'a')", ("MAP_CONTAINS(q, u)", "CASE WHEN u IS NOT NULL THEN map_contains(q, u) END"),
    ("MAP_CONTAINS_KEY(q, 'ä')", "map_contains(q, 'ä')"), "q = q", "q <> q",
    ("MAP_ENTRIES(MAP_FROM_LISTS(ARRAY[s, u], ARRAY[a, 7]))", "list_sort(map_entries(map([s, u], [a, 7])))"),
    ("MAP_ENTRIES(MAP(STRING_SPLIT(s, ','), l))", "list_sort(map_entries(map(string_split(s, ','), l)))"),
    ("MAP_FROM_ARRAYS(ARRAY[s], ARRAY[x])[u]", "map([s], [x])[u]"),
    ("MAP_ENTRIES(MAP_FROM_ENTRIES(MAP_ENTRIES(q)))", "map_entries(q)"),
    "LIST_SORT(l)", ("SORT_ARRAY(l)", "list_sort(l)"), ("ARRAY_SORT(l)", "list_sort(l)"),
    ("LIST_CONCAT(l, l)", "CASE WHEN l IS NOT NULL THEN list_concat(l, l) END"),
    ("ARRAY_CONCAT(l, l)", "CASE WHEN l IS NOT NULL THEN list_concat(l, l) END"), "LIST_SLICE(l, 1, 2)",
    ("LIST_SLICE(l, a, b)", "list_slice(l, a, b)", "far lengths"), "ARRAY_SLICE(l, -2, -1)",
    ("GEOHASH(x, y)", "x", "not there"),
    *((f"DATE_TRUNC('{unit}', {time})", f"date_trunc('{unit}', {time}){cast}") for unit in _UNITS
      for time, cast in (("t", ""), ("d", "::date"))),
    ("DATETRUNC('day', t)", "date_trunc('day', t)"), *(f"DATE_DIFF('{unit}', t, t::date)" for unit in _UNITS),
    ("DATE_DIFF('month', d, t)", "date_diff('month', d::timestamp, t)"), "DATEDIFF('day', d, d)",
    ("TIMESTAMPDIFF('day', t, t)", "date_diff('day', t, t)"), "DATE_ADD(t, INTERVAL '1 month')",
    ("DATE_SUB(t, INTERVAL '1 month')", "t - INTERVAL '1 month'"),
    *((f"DATEADD('{unit}', a, t)", f"CASE WHEN abs(a::hugeint) < 10000 * 12 THEN t + to_{unit}s(a::int) END",
       "many units") for unit in ("day", "month", "year", "hour", "second")),
    ("TIMESTAMPADD('week', 2, d)", "(d + INTERVAL '14 days')::date"),
    ("MAKE_DATE(a, b, 29)", "CASE WHEN a BETWEEN 1 AND 9999 AND b BETWEEN 1 AND 12 THEN make_date(a, b, 29) END"),
    ("MAKE_TIMESTAMP(2024, a, b, 10, 11, 12.5)",
     "CASE WHEN a BETWEEN 1 AND 12 AND b BETWEEN 1 AND 31 THEN make_timestamp(2024, a, b, 10, 11, 12.5) END"),
    ("TO_TIMESTAMP(x)", "CASE WHEN abs(x) < 1e12 THEN to_timestamp(x) END"),
    ("FROM_UNIXTIME(a)", "CASE WHEN abs(a::hugeint) < 1000000000000 THEN to_timestamp(a) END"), "EPOCH(t)",
    "EPOCH(d)",
    ("UNIX_TIMESTAMP(t)", "epoch(t)"), ("EPOCH_MS(t)", _MILLIS), ("UNIX_MILLIS(t)", _MILLIS), "EPOCH_US(t)",
    "LAST_DAY(d)", "LAST_DAY(t)", "DAYNAME(t)", "MONTHNAME(d)", ("DATEPART('year', t)", "date_part('year', t)"),
    ("t AT TIME ZONE 'Europe/Vienna'", "t::timestamptz AT TIME ZONE 'Europe/Vienna'", "far summers"),
    ("FROM_UTC_TIMESTAMP(t, 'Asia/Kolkata')", "t::timestamptz AT TIME ZONE 'Asia/Kolkata'"),
    ("TO_UTC_TIMESTAMP(t, 'Asia/Kolkata')", "t AT TIME ZONE 'Asia/Kolkata'"),
]  # fmt: skip
TABLE: list[Entry] = [*NUMBERS, *PREDICATES, *WORDS, *CASTS, *TIMES, *OWN]

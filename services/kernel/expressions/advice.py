"""Advice for SQL that an expression or an aggregate cannot contain: the missing construct, and its replacement here.

The constructs come from ksqlDB, Flink, Spark and other SQL. A text in backticks is code that is accepted in place of
the given one; a test compiles each. Source: JOBS "each with its path and a hint".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from holdfast.services.kernel.functions.catalogue import BY_NAME
from holdfast.services.kernel.suggestions import misspelt

Arguments = Sequence[str]
Advise = Callable[[Arguments], str]

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_WINDOW = "window: {size_s: 3600}"


class Rule(NamedTuple):
    """A construct: its pattern in the text without quoted texts, and its advice, filled with the groups of the
    match.
    """

    pattern: re.Pattern[str]
    answer: str


def _rule(pattern: str, answer: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.DOTALL), answer)


_ONE_ROW = "an expression sees one row"
SYNTAX = (
    _rule(
        r"\$\d|\?\s*$|^\s*\?|(?<!:):[A-Za-z]\w*",
        "{match} is a parameter, and an expression has none: write the value itself",
    ),
    _rule(
        r"\bOVER\s*(?:\(|\w+\s*$)",
        f"OVER is not there, because {_ONE_ROW}: use an aggregate operator by `key`, with "
        "`emit: each` for a value after each record, or `top` for a rank",
    ),
    _rule(
        r"\bFILTER\s*\(\s*WHERE\b",
        "FILTER (WHERE ...) is not there: put the condition into the argument of an "
        "aggregate, such as `count(CASE WHEN {condition} THEN 1 END)`, or a filter operator before it",
    ),
    _rule(r"\bWITHIN\s+GROUP\b", "WITHIN GROUP is not there: an aggregate `quantile({column}, 0.5)` is the median"),
    _rule(r"\(\s*SELECT\b", f"a subquery is not there, because {_ONE_ROW}: use a join operator"),
    _rule(r"\bEXISTS\s*\(", f"EXISTS is not there, because {_ONE_ROW}: use a join operator"),
    _rule(
        r"^\s*(?:SELECT|WITH)\b",
        "SELECT is not there: write each column or expression as an item of its own, such "
        "as `select: [{column}]`, and conditions as a filter operator",
    ),
    _rule(
        r"\b(?:UNION|INTERSECT|EXCEPT)\b",
        "{match} is not there inside an expression: a union operator takes several inputs, `union: [a, b]`",
    ),
    _rule(r"\bGROUP\s+BY\b", "GROUP BY is not there: name the columns as `key: [{column}]` of an aggregate operator"),
    _rule(
        r"\bGROUPING\s+SETS\b|\bCUBE\s*\(|\bROLLUP\s*\(",
        "{match} is not there: write one aggregate operator for each set of columns",
    ),
    _rule(r"\bHAVING\b", "HAVING is not there: put a filter operator behind the aggregate"),
    _rule(
        r"\bORDER\s+BY\b",
        "ORDER BY is not there, because a stream has no end at which it could be sorted: the "
        "largest rows are those of a top operator, `top: {{k: 5, by: {column}}}`",
    ),
    _rule(
        r"\b(?:LIMIT|OFFSET|FETCH)\b",
        "{match} is not there: the largest rows are those of a top operator, `top: {{k: 5, by: {column}}}`",
    ),
    _rule(
        r"\b(?:INNER|LEFT|RIGHT|FULL|CROSS)\s+(?:OUTER\s+)?JOIN\b|\bJOIN\b",
        "JOIN is not there inside an expression: use a join operator",
    ),
    _rule(r"\bWHERE\b", "WHERE is not there: use a filter operator"),
    _rule(
        r"\b(?:LATERAL|UNNEST|EXPLODE|FLATTEN|POSEXPLODE)\b",
        "{match} is not there, because an expression gives one "
        "value for a row: take elements by place, `{column}[1]`, join them, `ARRAY_TO_STRING({column}, ',')`, or make "
        "several rows of one with an unnest operator",
    ),
    _rule(
        r"\b(?:NOT\s+)?BETWEEN\s+(?:A?SYMMETRIC)\b",
        "BETWEEN SYMMETRIC is not there: write the smaller limit first, "
        "or `{column} BETWEEN LEAST(1, 5) AND GREATEST(1, 5)`",
    ),
    _rule(r"\bSIMILAR\s+TO\b", "SIMILAR TO is not there: use a regular expression, `REGEXP_LIKE({column}, '^a')`"),
    _rule(r"\bIS\s+(?:NOT\s+)?NAN\b", "IS NAN is not there, because NaN is null here: write `{column} IS NULL`"),
    _rule(r"\bIS\s+(?:NOT\s+)?UNKNOWN\b", "IS UNKNOWN is not there: write `{column} IS NULL`"),
    _rule(r"\bESCAPE\b", "ESCAPE is not there: use a regular expression, `REGEXP_LIKE({column}, '50%')`"),
    _rule(
        r"\bCOLLATE\b",
        "COLLATE is not there: texts are compared by their code points; `LOWER({column})` makes "
        "letter case count for nothing",
    ),
    _rule(r"\bMEMBER\s+OF\b", "MEMBER OF is not there: write `ARRAY_CONTAINS({last}, {column})`"),
    _rule(
        r"\bI?LIKE\s+(?:(?!')\S|''\s*\|\|)",
        "a pattern of LIKE is a text in single quotes, such as `{column} LIKE 'a%'`; a pattern "
        "from a column is not there: `STRPOS({column}, {column}) > 0` finds one text in another",
    ),
    _rule(r"^\s*ALL\s", "ALL is not there: leave it out"),
    _rule(r"\bPIVOT\b", "PIVOT is not there: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END` for each column"),
    _rule(r"^\s*\[", "a list in square brackets alone is not there: write `ARRAY[{column}, {column}]`"),
    _rule(
        r"\bDISTINCT\b(?!\s+FROM)",
        "DISTINCT is not there: distinct values are counted by an aggregate, "
        "`count_distinct({column})`, and rows that repeat are dropped by a dedup operator",
    ),
    _rule(r"\bCONVERT\s*\(", "CONVERT is not there: write `CAST({last} AS BIGINT)`"),
    _rule(r"\bCASE\b(?!.*\bEND\b)", "CASE has no END: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END`"),
    _rule(r"\bCASE\b(?!.*\bWHEN\b)", "CASE has no WHEN: write `CASE WHEN {column} IS NULL THEN 0 ELSE 1 END`"),
    _rule(r"\bIN\s*\(\s*\)", "IN () has no value: name at least one, such as `{column} IN ({column})`"),
    _rule(
        r"\bMAP\s*\[|\bSTRUCT\s*\(|\bROW\s*\(",
        "{match} is not there: make a column of each value, or a struct, `NAMED_STRUCT('a', {column})`",
    ),
    _rule(r"&&", "&& is not there: write AND"),
    _rule(r"(?<![<>=!])!(?![=~])", "! is not there: write NOT"),
    _rule(r"\*\*", "** is not there: write `POWER({column}, 2)`"),
    _rule(r"\^", "^ is not there: write `POWER({column}, 2)` for a power, `XOR({column}, 1)` for bits"),
    _rule(
        r"->>?",
        "-> is not there: a member of a struct is written with a dot, and a text is read by "
        "`JSON_EXTRACT_STRING({column}, '$.a')`",
    ),
    _rule(r"(?:^|[(,+*/=<>-])\s*~", "~ is not there in front of a value: write `BIT_NOT({column})`"),
    _rule(
        r"!?~\*?\s*(?![\s*'])\S",
        "a pattern of ~ is a text in single quotes, such as `{column} ~ '^a'`; a pattern from a column is taken by "
        "`REGEXP_LIKE({column}, {column})`",
    ),
    _rule(r"<<|>>", "{match} is not there: write `{column} * POWER(2, 3)` or `{column} // POWER(2, 3)`"),
    _rule(r"\bDIV\b(?!\s*\()", "DIV is not there: write `{column} // 2`"),
    _rule(
        r"^\s*\*\s*$|\.\s*\*",
        "* is not there: name each column, such as `select: [{column}]`; a filter operator keeps them all",
    ),
    _rule(r"--", "a comment is no expression: comments of a job file begin with #"),
    _rule(r"\bE''", "E'...' is not there: a text in single quotes is taken as it is, without escapes"),
    _rule(r"\{", "{{...}} is not there: a struct is `NAMED_STRUCT('a', {column})`"),
    _rule(r";", "; is not there: an expression is one value, without a semicolon"),
)
"""Patterns of unsupported constructs and their advice, in the order of the tests; the first match counts."""


def _same(template: str) -> Advise:
    """A function that fills arguments as written into the template: {0}, {1}; `column` for missing ones."""
    return lambda arguments: template.format(*(*(one.strip() for one in arguments), *["column"] * 4))


_windows: Advise = lambda _: (  # noqa: E731
    f"windows belong to an aggregate operator, `{_WINDOW}`; its rows carry window_start and window_end"
)
_sessions = _same(
    "sessions belong to an aggregate operator, `window: {{gap_s: 300}}`; its rows carry window_start and window_end"
)
_of_rows = _same("it takes many rows: use an aggregate operator")
_clock = _same("it would give another value at each replay; results must depend on the data alone")
_json = _same("declare the field as a struct, `struct<a: int>`, and write field.a, or read it with a Python operator")
_json_path = _same("write `JSON_EXTRACT_STRING({0}, '$.a')`: a text without quotes, anything else as JSON")
_format = _same("write `STRFTIME({0}, '%Y-%m-%d')`, with the letters of strftime")
_parsed = _same("write `STRPTIME({0}, '%Y-%m-%d %H:%M:%S')`, with the letters of strftime")
_seconds = _same("write `EPOCH({0})`, seconds since 1970")
_no_map = _same("there are no maps: make a struct, `NAMED_STRUCT('a', {0})`, or read one from JSON with a struct<...>")
_python = _same("a Python operator can compute it")
_host = _same("write `REGEXP_EXTRACT({0}, '^[a-z]+://([^/:?#]+)', 1)`, the host")
_hash = _same("write `HASH64({0})`, a hash of 64 bits, or `SHA256({0})`")

FUNCTIONS: Mapping[str, Advise] = {
    "timestamp_trunc": _same("write `DATE_TRUNC('hour', {0})`, with the unit in quotes"),
    "trunc_time": _same("write `DATE_TRUNC('hour', {0})`, with the unit in quotes"),
    "tumble": _windows,
    "hop": _windows,
    "session": _sessions,
    "cumulate": _windows,
    "tumbling": _windows,
    "hopping": _windows,
    "window": _windows,
    "tumble_start": _windows,
    "tumble_end": _windows,
    "hop_start": _windows,
    "hop_end": _windows,
    "session_start": _sessions,
    "session_end": _sessions,
    "time_bucket": _windows,
    "date_bin": _windows,
    "row_number": _same("it looks at other rows: ranks are given by a top operator, `top: {{k: 5, by: n}}`"),
    "rank": _same("it looks at other rows: ranks are given by a top operator, `top: {{k: 5, by: n}}`"),
    "dense_rank": _same("it looks at other rows: ranks are given by a top operator, `top: {{k: 5, by: n}}`"),
    "ntile": _of_rows,
    "lag": _same("it looks at other rows: keep the row before in the state of a Python operator"),
    "lead": _same("it looks at other rows: keep the row before in the state of a Python operator"),
    "isnull": _same("write `{0} IS NULL`"),
    "nvl2": _same("write `CASE WHEN {0} IS NULL THEN {2} ELSE {1} END`"),
    "zeroifnull": _same("write `COALESCE({0}, 0)`"),
    "nullifzero": _same("write `NULLIF({0}, 0)`"),
    "decode": _same("write `CASE WHEN {0} = {1} THEN {2} END`"),
    "size": _same("write `ARRAY_LENGTH({0})`"),
    "extractjsonfield": _json_path,
    "get_json_object": _json_path,
    "json_extract": _json_path,
    "parse_json": _json,
    "json_query": _json_path,
    "from_json": _json,
    "to_json": _json,
    "json_object": _json,
    "stringtotimestamp": _parsed,
    "parse_timestamp": _parsed,
    "to_date": _parsed,
    "stringtodate": _parsed,
    "parse_date": _parsed,
    "str_to_date": _parsed,
    "to_timestamp_ltz": _parsed,
    "timestamptostring": _format,
    "format_timestamp": _format,
    "date_format": _format,
    "to_char": _format,
    "datetostring": _format,
    "format_date": _format,
    "to_unixtime": _seconds,
    "unix_seconds": _seconds,
    "unix_date": _same("write `DATE_DIFF('day', DATE '1970-01-01', {0})`"),
    "timestamp_diff": _same("write `DATE_DIFF('second', {1}, {0})`"),
    "add_months": _same("write `{0} + INTERVAL '1 month'`"),
    "proctime": _clock,
    "systimestamp": _clock,
    "sysdate": _clock,
    "getdate": _clock,
    "gen_random_uuid": _clock,
    "uuid_string": _clock,
    "newid": _clock,
    "localtimestamp": _clock,
    "today": _clock,
    "curdate": _clock,
    "rowtime": _same("name the field that is the source's event_time"),
    "locate": _same("write `STRPOS({1}, {0})`"),
    "charindex": _same("write `STRPOS({1}, {0})`"),
    "regexp_substr": _same("write `REGEXP_EXTRACT({0}, '[a-z]+')`"),
    "rlike": _same("write `REGEXP_LIKE({0}, {1})`"),
    "isnan": _same("a number that is none is null here: write `{0} IS NULL`"),
    "isfinite": _same("a number that is not finite is null here: write `{0} IS NOT NULL`"),
    "isinf": _same("a number that is not finite is null here: write `{0} IS NULL`"),
    "sha": _same("write `SHA1({0})`"),
    "sha2": _same("write `SHA256({0})`"),
    "hash": _hash,
    "murmur_hash": _hash,
    "mask": _same("write `LEFT(SHA256({0}), 16)`"),
    "farm_fingerprint": _hash,
    "crc32": _hash,
    "xxhash64": _hash,
    "safe_cast": _same("write `TRY_CAST(column AS BIGINT)`: also CAST gives null where a value does not fit"),
    "split_index": _same("write `SPLIT_PART({0}, {1}, 1)`, whose first part is 1"),
    "slice": _same("write `LIST_SLICE({0}, 1, 2)`, from a place to another, both included"),
    "regexp": _same("write `REGEXP_LIKE({0}, {1})`"),
    "btrim": _same("write `TRIM({0})`"),
    "array": _same("write `ARRAY[{0}]`, in square brackets"),
    "struct_pack": _same("write `NAMED_STRUCT('a', 1)`, a name and a value by turns"),
    "map": _no_map,
    "map_from_arrays": _no_map,
    "map_keys": _no_map,
    "map_values": _no_map,
    "sha512": _same("write `SHA256({0})`, a hash of 256 bits"),
    "fnv": _hash,
    "encode": _same("write `TO_BASE64({0})` or `TO_HEX({0})`"),
    "from_base64": _python,
    "unbase64": _python,
    "unhex": _python,
    "json_exists": _same("write `JSON_EXTRACT_STRING({0}, '$.a') IS NOT NULL`"),
    "json_array_length": _same("declare the field as a list and write ARRAY_LENGTH(field)"),
    "parse_url": _host,
    "url_extract_host": _host,
    "url_extract_path": _same("write `REGEXP_EXTRACT({0}, '^[a-z]+://[^/]+([^?#]*)', 1)`"),
    "to_number": _same("write `CAST({0} AS DOUBLE)`"),
    "typeof": _same("a column has one type in all rows, which the command check prints"),
    "bitwise_and": _same("write `{0} & {1}`"),
    "bitwise_or": _same("write `{0} | {1}`"),
    "translate": _same("write `REPLACE({0}, 'a', 'b')` for each letter"),
    "format": _same("write `CONCAT({1}, ' of ', {1})`"),
    "printf": _same("write `CONCAT({1}, ' of ', {1})`"),
    "is_nan": _same("a number that is none is null here: write `{0} IS NULL`"),
    "dow": _same("write `EXTRACT(DOW FROM {0})`"),
    "as_value": _same("name the column as it is"),
}
"""The advice for unsupported functions, by lower-case name."""

KNOWN = tuple(BY_NAME)
"""The known functions, for "did you mean"."""

_first_of = _same("write `first({0})`, the value of the earliest event time")
_share = _same("write `quantile({0}, 0.5)`, with the share that you want")
_top = _same("write `max({0})`, or use a top operator")

AGGREGATES: Mapping[str, Advise] = {
    "percentile_cont": _same("write `quantile(column, 0.5)`, with the share that you want"),
    "percentile_disc": _same("write `quantile(column, 0.5)`, with the share that you want"),
    "corr": _same("compute it from sums in a select behind the aggregate: `sum({0} * {1})`"),
    "uniq": _same("write `count_distinct({0})`"),
    "hll": _same("write `count_distinct({0})`"),
    "any": _first_of,
    "histogram": _share,
    "mode": _top,
    "topk": _top,
    "topkdistinct": _top,
    "nth_value": _first_of,
    "sum_if": _same("write `sum(CASE WHEN {1} THEN {0} END)`"),
    "sumif": _same("write `sum(CASE WHEN {1} THEN {0} END)`"),
    "product": _same("write `sum(LN({0}))`, the logarithm of the product"),
}
"""The advice for unsupported aggregates, by lower-case name."""


def without_texts(text: str) -> str:
    """The text with emptied quoted texts, so that words in them do not count as SQL."""
    return _QUOTED.sub("''", text)


def of_syntax(text: str, columns: Sequence[str], *, aggregate: bool = False) -> str:
    """The advice for an unsupported construct in the text; empty if the text has none."""
    bare = without_texts(text)
    for pattern, answer in SYNTAX:
        if match := pattern.search(bare):
            named = _columns_of(bare, columns)
            condition = re.search(r"\bWHERE\s+(.*?)\)\s*$", text, re.IGNORECASE | re.DOTALL)
            return answer.format(
                match=re.sub(r"\s*[\[(]$", "", match[0].strip()).upper(),
                column=named[0] if named else "column",
                last=named[-1] if named else "column",
                condition=condition[1].strip() if condition else "column > 0",
            )
    return ""


def of_function(text: str, known: Mapping[str, Advise] = FUNCTIONS) -> str:
    """The advice for the first call of a function that is known to be unsupported; empty if there is none."""
    for match in _CALL.finditer(without_texts(text)):
        if advise := known.get(match[1].lower()):
            return f"{match[1].upper()} is not there: {advise(arguments_of(text, match[1]))}"
    return ""


def of_unknown_function(name: str) -> str:
    """The advice for an unknown function."""
    if known := BY_NAME.get(name.upper()):
        signature = re.sub(rf"^{known.name}\b", name.upper(), known.signature)
        return f"{name.upper()} is given other arguments than it takes: it is {signature}"
    near = misspelt(name, KNOWN)
    return f"there is no function {name.upper()}" + (f" ({near})" if near else ": a Python operator can compute it")


def calls_of(text: str) -> list[tuple[str, list[str]]]:
    """Yields each call in the text, outermost first: the name and the arguments."""
    blank = _QUOTED.sub(lambda found: "'" + "_" * (len(found[0]) - 2) + "'", text)
    return [(match[1], _arguments(text, blank, match.end())) for match in _CALL.finditer(blank)]


def arguments_of(text: str, function: str) -> list[str]:
    """The arguments in the brackets of the first call of the function."""
    return next((given for name, given in calls_of(text) if name.lower() == function.lower()), [])


def _arguments(text: str, blank: str, start: int) -> list[str]:
    """The arguments of a call.

    blank: the text with blanked quoted texts, of equal length.
    """
    found, depth = [], 0
    for place in range(start, len(blank)):
        letter = blank[place]
        if letter in ",)" and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
            if letter == ")":
                break
        depth += (letter in "([") - (letter in ")]")
    return [one for one in found if one]


def _columns_of(bare: str, columns: Sequence[str]) -> list[str]:
    words = re.findall(r"[A-Za-z_]\w*", bare)
    return [word for word in words if word in columns]


# -- types in words ---------------------------------------------------------------------------------------------------


def item_of(kind: pl.List) -> pl.DataType:
    """The type of a list's items."""
    return kind.inner if isinstance(kind.inner, pl.DataType) else kind.inner()


def in_words(kind: pl.DataType) -> str:
    """A type in everyday words."""
    if kind.is_integer():
        return "a whole number"
    if kind.is_numeric():
        return "a number"
    for some, words in ((pl.String, "text"), (pl.Boolean, "true or false"), (pl.Date, "a date"), (pl.Binary, "bytes")):
        if kind == some:
            return words
    for nested, words in ((pl.Datetime, "a time"), (pl.Duration, "a span of time"), (pl.List, "a list")):
        if isinstance(kind, nested) or kind == nested:
            return words
    return "a struct" if isinstance(kind, pl.Struct) else f"of type {kind}"


def as_number(text: str, kind: pl.DataType) -> str:
    """The expression as a number; empty if there is no such expression."""
    if kind == pl.String:
        return f"CAST({text} AS DOUBLE)"
    if kind == pl.Boolean:
        return f"CAST({text} AS BIGINT)"
    return f"EXTRACT(EPOCH FROM {text})" if isinstance(kind, pl.Datetime) else ""


_NAMES = (
    (r"\bdatetime\[μs, UTC\]|\bDatetime\([^)]*\)|\bdatetime\[μs\]", "timestamp"),
    (r"\b(?:dyn int|[iu](?:8|16|32|64|128)|U?[Ii]nt(?:8|16|32|64|128))\b", "int"),
    (r"\b(?:dyn float|f32|f64|Float32|Float64)\b", "float"),
    (r"\bdyn str\b|`str`|\bstr\b|\bString\b|`String`", "string"),
    (r"\bBoolean\b", "bool"),
    (r"\bBinary\b|\bbinary\b", "bytes"),
    (r"\bduration\[[^\]]*\]|\bDuration\([^)]*\)", "span of time"),
)


def plain_types(message: str) -> str:
    """A message of polars with the types of a job file."""
    for pattern, name in _NAMES:
        message = re.sub(pattern, name, message)
    return message

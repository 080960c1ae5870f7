"""Functions and aggregates of other SQL that are not there, and their replacements; see advice.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Arguments = Sequence[str]
Advise = Callable[[Arguments], str]

_WINDOW = "window: {size_s: 3600}"


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
_map_of = _same("write `MAP_FROM_LISTS(ARRAY['a'], ARRAY[{0}])`, a list of keys and one of values")
_map_part = _same(
    "maps have MAP_GET, MAP_KEYS, MAP_VALUES, MAP_ENTRIES and MAP_CONTAINS; a Python operator can do more"
)
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
    "create_map": _map_of,
    "object_construct": _map_of,
    "map_concat": _map_part,
    "map_filter": _map_part,
    "transform_keys": _map_part,
    "transform_values": _map_part,
    "map_zip_with": _map_part,
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

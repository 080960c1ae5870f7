"""Rows of random values, edges among them, and what stands for no value of a type."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

FIELDS = {
    "id": "int", "n": "int?", "f": "float?", "s": "string?", "b": "bool?", "t": "timestamp?", "d": "date?",
    "m": "decimal(10,2)?", "w": "decimal(38,10)?", "y": "bytes?", "l": "list<int?>?", "x": "list<string?>?",
    "r": "struct<a: int?, b: string?>?", "q": "list<struct<a: int?, v: decimal(5,1)?>?>?",
}  # fmt: skip
Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST, _NEWEST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
_TEXTS = (
    "", "a", "(", "ä", "ß", "\U0001f600", "null", "NaN", "2024-02-29", "-1", " a ", '5" pipe', "a,b", "'", "\\", "\t",
    "\x00", "\x1b[31m", "\ufeff", "\u2028", "e\u0301", "x" * 2_000, "1_000", "{}", "[", "\r", "true", "\ud7ff",
)  # fmt: skip
_INTS = (0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, 0.1, 1e16, 1e308, -1e308, 5e-324, 2.0**63, -1.5)
_TIMES = (_EPOCH, _OLDEST, _NEWEST, datetime(1677, 9, 21, tzinfo=UTC), datetime(2262, 4, 12, tzinfo=UTC))
_DATES = (date(1970, 1, 1), date.min, date.max, date(2024, 2, 29), date(1900, 3, 1))


def row(some: Random, id: int) -> Row:
    """A value of each field, null where it may be."""
    return {"id": id} | {
        name: None if some.random() < 0.15 else value(some, kind.removesuffix("?"))
        for name, kind in FIELDS.items()
        if name != "id"
    }


def value(some: Random, kind: str) -> Any:
    """A value of a field type, as Python has it."""
    edge = some.random() < 0.4
    match kind:
        case "int":
            return some.choice(_INTS) if edge else some.randint(-1000, 1000)
        case "float":
            return some.choice(_FLOATS) if edge else some.uniform(-1e6, 1e6)
        case "string":
            return some.choice(_TEXTS) if edge else "".join(some.choices("abcä (", k=some.randint(0, 6)))
        case "bool":
            return some.random() < 0.5
        case "timestamp":
            return some.choice(_TIMES) if edge else _EPOCH + timedelta(microseconds=some.randint(0, 2 * 10**15))
        case "date":
            return some.choice(_DATES) if edge else date(1970, 1, 1) + timedelta(days=some.randint(0, 30_000))
        case "bytes":
            return some.randbytes(some.choice((0, 1, 2, 5)))
        case _ if kind.startswith("decimal("):
            precision, scale = map(int, kind[len("decimal(") : -1].split(","))
            most = 10**precision - 1
            units = some.choice((0, 1, -1, most, -most)) if edge else some.randint(-min(most, 10**6), min(most, 10**6))
            return Decimal((units < 0, tuple(map(int, str(abs(units)))), -scale))
    if kind.startswith("list<"):
        inner = kind[len("list<") : -1].removesuffix("?")
        return [None if some.random() < 0.2 else value(some, inner) for _ in range(some.randint(0, 3))]
    members = {"a": "int", "b": "string"} if "b: string" in kind else {"a": "int", "v": "decimal(5,1)"}
    return {name: None if some.random() < 0.2 else value(some, one) for name, one in members.items()}


WRONG: dict[str, tuple[str, ...]] = {
    "id": ('"a"', "null", "1.5", "1e999", "9223372036854775808", "[1]", "{}", "true", '"1"', "1e30", "-9.5e-3"),
    "n": ('""', '"1"', "0.5", "1e19", "false", "[]", "-9223372036854775809"),
    "f": ('"1"', "1e400", "[1.0]", "true"),
    "s": ("1", "true", "[]", '{"a":1}', '"\\ud800"', '"\\ud800x"'),
    "b": ("0", '"true"', "[true]"),
    "t": ('""', '"now"', '"2024-02-30T00:00:00Z"', '"0000-01-01T00:00:00Z"', '"10000-01-01T00:00:00Z"', "true", "{}"),
    "d": ('"2023-02-29"', '"2024-1-1"', '"0000-01-01"', "0", '"2024-02-29T00:00:00"'),
    "m": ('"1_000"', '" 1.5 "', '"NaN"', '"99999999999"', '"0.001"', '"1,5"', "true", '"\u0661"', "1e20"),
    "w": ('"Infinity"', '"1e99"', "[]", '"--1"', '"1e-99"'),
    "y": ('"?"', '"a"', "1", '"aGk"'),
    "l": ("1", '["a"]', "[1.5]", "[[1]]", "[9223372036854775808]", '"[1]"', "{}"),
    "x": ("[1]", '"a"', '[["a"]]', "[true]", '["\\udc00"]'),
    "r": ('{"a":"x"}', "[]", '"a"', '{"a":1.5}', '{"b":1}'),
    "q": ('[{"a":"x"}]', "[1]", '[{"v":"1.23"}]', '[{"v":"x"}]', '{"a":1}', '[{"v":"123456"}]'),
}
"""JSON that stands for no value of a field."""


def text(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case datetime():
            return f"{value.year:04d}{value.isoformat()[4:].replace('+00:00', 'Z')}"
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [text(one) for one in value]
        case dict():
            return {name: text(one) for name, one in value.items()}
    return value

"""Field types of a job file and their polars types.

Source: JOBS "Field types". `?` after a type: may be null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.foreign_types import meant
from holdfast.services.kernel.codecs.maps import holds_map, is_map, map_of, value_of
from holdfast.services.kernel.suggestions import did_you_mean

TIME = "_time"
"""The Int64 column with the event time (microseconds since 1970) in every stream: last, never null."""
DELETED = "_deleted"
"""The column of type `bool?` in every table: true for a row that deletes the row of its key, null otherwise."""

SIMPLE: dict[str, pl.DataType] = {
    "string": pl.String(),
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "timestamp": pl.Datetime("us", "UTC"),
    "date": pl.Date(),
    "bytes": pl.Binary(),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
MAX_PRECISION = 38


def nullable(text: str) -> bool:
    return text.strip().endswith("?")


def required(text: str) -> str:
    """The type without its `?`."""
    return text.strip().removesuffix("?").strip()


def optional(text: str) -> str:
    """The type with a `?`."""
    return f"{required(text)}?"


def dtype(text: str) -> pl.DataType:
    """The polars type of a field type.

    Raises:
        ValueError: the type is unknown; the message has the error and a suggestion.
    """
    name = required(text)
    if name in SIMPLE:
        return SIMPLE[name]
    if match := _DECIMAL.fullmatch(name):
        return _decimal(int(match[1]), int(match[2]))
    if name.startswith("list<") and name.endswith(">"):
        return pl.List(dtype(name[5:-1]))
    if name.startswith("struct<") and name.endswith(">"):
        return pl.Struct({field: dtype(kind) for field, kind in members(name).items()})
    if name.startswith("map<") and name.endswith(">"):
        return map_of(dtype(map_value(name)))
    known = [*SIMPLE, "decimal(p,s)", "list<...>", "struct<...>", "map<string, ...>"]
    if (probably := meant(text)) and probably != text.strip():
        raise ValueError(f"unknown type '{name}', did you mean '{probably}'?")
    raise ValueError(f"unknown type '{name}', {did_you_mean(name, known) or 'types: ' + ', '.join(known)}")


def members(text: str) -> dict[str, str]:
    """The fields of a struct type, `struct<a: int, b: string?>`."""
    found = {}
    for part in _split(required(text)[len("struct<") : -1]):
        field, colon, kind = part.partition(":")
        if not colon or not field.strip():
            probably = meant(text)
            hint = f"did you mean '{probably}'?" if probably not in ("", "struct<...>") else "write name: type"
            raise ValueError(f"'{part.strip()}' in '{text}' is no field: {hint}")
        if field.strip() in found:
            raise ValueError(f"there are two fields '{field.strip()}' in '{text}'")
        found[field.strip()] = kind.strip()
    return found


def map_value(text: str) -> str:
    """The type of the values of a map type, `map<string, int?>`."""
    key, *value = _split(required(text)[len("map<") : -1])
    if len(value) != 1:
        raise ValueError(f"'{text}' is no map: write map<string, T>")
    if key.strip() != "string":
        raise ValueError(f"'{text}' has keys of type {key.strip()}: keys are texts, map<string, {value[0].strip()}>")
    return value[0].strip()


def innermost(text: str) -> str:
    """The type inside all lists and maps of a type, without its `?`."""
    name = required(text)
    while name.startswith(("list<", "map<")):
        name = required(name[len("list<") : -1] if name.startswith("list<") else map_value(name))
    return name


def schema(fields: Mapping[str, str]) -> pl.Schema:
    """The polars schema of a stream's fields, without its event time."""
    return pl.Schema({name: dtype(text) for name, text in fields.items()})


def holding_maps(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and type of each field with a map in it. An unknown type is passed over: another check names it."""
    for name, text in fields.items():
        with suppress(ValueError):
            if holds_map(dtype(text)):
                yield name, text


def with_time(columns: Mapping[str, pl.DataType]) -> pl.Schema:
    """The schema of a stream's rows: its columns, then the event time."""
    return pl.Schema([*columns.items(), (TIME, pl.Int64())])


def widens(given: pl.DataType, wanted: pl.DataType) -> bool:
    """True if the conversion loses nothing: narrower numbers, times of another unit, a column of only null."""
    if given == pl.Null:
        return True
    if wanted == pl.Int64:
        return given.is_integer() and given not in (pl.UInt64, pl.Int128, pl.UInt128)
    if wanted == pl.Float64:
        return given == pl.Float32
    return isinstance(wanted, pl.Datetime) and isinstance(given, pl.Datetime) and given.time_zone in (None, "UTC")


def text_of(kind: pl.DataType, may_be_null: bool = True) -> str:
    """The field type of a polars type; narrower numbers count as int or float.

    Raises:
        ValueError: no field type matches.
    """
    return _name(kind) + ("?" if may_be_null else "")


def _name(kind: pl.DataType) -> str:
    if kind.is_integer():
        return "int"
    if kind.is_float():
        return "float"
    if isinstance(kind, pl.Datetime):
        return "timestamp"
    if isinstance(kind, pl.Decimal):
        return f"decimal({kind.precision or MAX_PRECISION},{kind.scale})"
    if is_map(kind):
        return f"map<string, {text_of(value_of(kind))}>"
    if isinstance(kind, pl.List):
        return f"list<{text_of(_instance(kind.inner))}>"
    if kind == pl.Struct([]):
        raise ValueError("JSON is no type: JSON_EXTRACT_STRING takes a value out of a text")
    if isinstance(kind, pl.Struct):
        return f"struct<{', '.join(f'{f.name}: {text_of(_instance(f.dtype))}' for f in kind.fields)}>"
    for name, simple in SIMPLE.items():
        if kind == simple:
            return name
    if said := next((said for other, said in _NO_TYPES.items() if kind == other or isinstance(kind, other)), ""):
        raise ValueError(said)
    raise ValueError(f"{kind} is no type of a stream: cast it to one of {', '.join(SIMPLE)}")


_NO_TYPES: dict[Any, str] = {
    pl.Duration: "the value is a span of time, which is no type of a field: subtract seconds, "
    "`EXTRACT(EPOCH FROM later) - EXTRACT(EPOCH FROM earlier)`",
    pl.Time: "the value is a time of day, which is no type of a field: as text it is `STRFTIME(moment, '%H:%M:%S')`",
    pl.Null: "the value is null in every row and has no type: give it one, `CAST(NULL AS BIGINT)`",
}
"""Types of expressions that no field can have, with the advice for each."""


def _instance(kind: Any) -> pl.DataType:
    """The instance of a polars type: polars gives inner types as classes or instances."""
    instance: pl.DataType = kind() if isinstance(kind, type) else kind
    return instance


def _decimal(precision: int, scale: int) -> pl.DataType:
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise ValueError(f"decimal({precision},{scale}): precision is 1 to {MAX_PRECISION}, scale at most precision")
    return pl.Decimal(precision, scale)


def _split(text: str) -> Iterator[str]:
    """Splits a text at commas outside < > and ( )."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def stream_schema(fields: Mapping[str, str]) -> pl.Schema:
    """The schema of a stream's rows: its fields, then the event time."""
    return with_time(schema(fields))

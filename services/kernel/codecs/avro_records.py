"""Decoding of Avro records into the columns of a stream: each field of all records at once, by the writer's schema.

At its first record, a writer's schema is resolved to the fields of the stream: fields match by name, numbers widen,
fields that the stream lacks are skipped, and fields that the writer lacks are null if the field type permits it. A
value that does not fit refuses only its record. `./scripts/bench registry` compares the decoder with fastavro and
pyruhvro; docs/decisions/0166 says why neither is used. Source: PROTOCOL 3, Avro specification 1.12, "Schema
Resolution".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.avro_bytes import Pass, Read, Records, Rows
from holdfast.services.kernel.codecs.avro_scalars import (
    PER_MICROSECOND,
    WIDTHS,
    Unresolved,
    arrow_type,
    dates,
    decimal,
    nothing,
    ordinals,
    simple,
    times,
    written_times,
)
from holdfast.services.kernel.codecs.avro_schemas import Type
from holdfast.services.kernel.codecs.maps import KEY, VALUE, in_order, last_of_each
from holdfast.services.kernel.plurals import plural

MAX_ITEMS = 10_000
"""The most items of all lists and maps in a record: each item is a step for the whole batch."""
_ACCEPTS = {
    "string": ("string", "enum", "bytes"), "int": ("int", "long"), "float": ("int", "long", "float", "double"),
    "bool": ("boolean",), "bytes": ("bytes", "fixed", "string"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordReader:
    """A reader of the records of one schema. Raises Unresolved if none of them can fit.

    Args:
        fields: the type text of each field, by its name in the record.
        unit: the unit of timestamps that are plain integers.
    """

    steps: tuple[tuple[str, Read | Pass], ...]
    absent: Mapping[str, str]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, schema: Type, fields: Mapping[str, str], unit: str | None = None) -> RecordReader:
        if schema.kind != "record":
            raise Unresolved(f"is of type {schema.shown}, no record with fields")
        absent = {name: text for name, text in fields.items() if name not in schema.members}
        for name, text in absent.items():
            if not field_types.nullable(text):
                raise Unresolved(f"has no field {name}, expected {text}: a field that may be absent is {text}?")
        steps = tuple(
            (name, reading(one, fields[name], name, unit)) if name in fields else ("", passing(one, name))
            for name, one in schema.members.items()
        )
        return cls(steps, absent, fields)

    def read(self, records: Records, rows: Rows) -> list[pl.Series]:
        """The columns in the order of the fields, one value for each row; the value of a refused row is arbitrary."""
        found: dict[str, pl.Series] = {}
        for name, step in self.steps:
            column = step(records, rows)
            if name:
                found[name] = pl.Series(name, column, dtype=field_types.dtype(self.fields[name]))
        left = records.end[rows] - records.at[rows]
        for count in np.unique(left[left > 0]).tolist():
            records.refuse(rows[left == count], f"{plural(count, 'byte')} too long for its schema")
        for name, text in self.absent.items():
            found[name] = pl.Series(name, [None], dtype=field_types.dtype(text)).new_from_index(0, len(rows))
        return [found[name] for name in self.fields]


# -- values that are wanted -------------------------------------------------------------------------------------------


def reading(type: Type, text: str, path: str, unit: str | None) -> Read:
    """A function that reads values of an Avro type as a field type. Raises Unresolved."""
    if type.kind == "union":
        return _union(type, text, path, unit)
    if type.kind == "null":
        return partial(nothing, text=text, path=path)
    name = field_types.required(text)
    if name.startswith("list<") and type.kind == "array":
        items = type.of[0]
        return partial(_list, read=reading(items, name[len("list<") : -1], f"{path}[]", unit), path=path)
    if name.startswith("map<") and type.kind == "map":
        values = reading(type.of[0], field_types.map_value(name), f"{path}[]", unit)
        keys = simple(Type("string"), "string", f"{path}[]")
        return partial(_map, keys=keys, values=values, path=path, kind=arrow_type(name))
    if name.startswith("struct<") and type.kind == "record":
        return _struct(type, name, path, unit)
    if name.startswith("decimal") and type.logical == "decimal":
        return decimal(type, text, path)
    if name == "date" and type.logical == "date":
        return partial(dates, path=path)
    if name == "timestamp" and type.logical.startswith(("timestamp", "local-timestamp")):
        return partial(times, factor=PER_MICROSECOND[type.logical.rpartition("-")[2]], path=path)
    if name == "timestamp" and type.kind == "string":
        return partial(written_times, path=path)
    if name == "timestamp" and type.kind in ("int", "long") and not type.logical and unit is not None:
        factor = -1_000 if unit == "ns" else timestamps.US_PER_UNIT[unit]
        return partial(times, factor=factor, path=path)
    if type.kind in _ACCEPTS.get(name, ()) and not type.logical:
        return simple(type, name, path)
    hint = "; integers need the source's `unit`" if name == "timestamp" and type.kind in ("int", "long") else ""
    raise Unresolved(f"has {path} as {type.shown}, expected {text}{hint}")


def _union(type: Type, text: str, path: str, unit: str | None) -> Read:
    """A function that reads a union. A branch that does not fit refuses its records; at least one branch besides null
    must fit.
    """
    branches: list[Read] = []
    unfit: list[Unresolved] = []
    for one in type.of:
        try:
            branches.append(reading(one, text, path, unit))
        except Unresolved as error:
            branches.append(partial(_unfit, type=one, text=text, path=path))
            unfit.append(error)
    if unfit and len(unfit) == sum(one.kind != "null" for one in type.of):
        raise unfit[0]
    return partial(_of_union, branches=branches, path=path, kind=arrow_type(text))


def _unfit(records: Records, rows: Rows, type: Type, text: str, path: str) -> pa.Array:
    records.refuse(rows, f"{path}: expected {text}, found {type.shown}")
    return pa.nulls(len(rows), arrow_type(text))


def _of_union(records: Records, rows: Rows, branches: list[Read], path: str, kind: pa.DataType) -> pa.Array:
    chosen = ordinals(records, rows, len(branches), f"{path}: the union")
    used = np.unique(chosen).tolist()
    if len(used) == 1:
        return branches[used[0]](records, rows)
    parts, places = list[pa.Array](), np.zeros(len(rows), np.int64)
    done = 0
    for number in used:
        at = np.flatnonzero(chosen == number)
        parts.append(branches[number](records, rows[at]))
        places[at] = np.arange(done, done + len(at))
        done += len(at)
    return pa.concat_arrays(parts).take(pa.array(places)) if parts else pa.nulls(0, kind)


def _struct(type: Type, name: str, path: str, unit: str | None) -> Read:
    wanted = field_types.members(name)
    for member, text in wanted.items():
        if member not in type.members and not field_types.nullable(text):
            raise Unresolved(f"has no field {path}.{member}, expected {text}")
    steps: list[tuple[str, Read | Pass]] = [
        (member, reading(one, wanted[member], f"{path}.{member}", unit))
        if member in wanted
        else ("", passing(one, f"{path}.{member}"))
        for member, one in type.members.items()
    ]
    return partial(_structs, steps=steps, wanted=wanted)


def _structs(records: Records, rows: Rows, steps: list[tuple[str, Read | Pass]], wanted: Mapping[str, str]) -> pa.Array:
    found = dict[str, pa.Array]()
    for name, step in steps:
        column = step(records, rows)
        if name:
            found[name] = column
    columns = [found.get(name, pa.nulls(len(rows), arrow_type(text))) for name, text in wanted.items()]
    fields = [pa.field(name, column.type) for name, column in zip(wanted, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _list(records: Records, rows: Rows, read: Read, path: str) -> pa.Array:
    """Reads lists item by item: the first item of every record, then the second, and so on."""
    parts, owners = list[pa.Array](), list[np.ndarray]()

    def take(records: Records, at: np.ndarray) -> None:
        parts.append(read(records, rows[at]))
        owners.append(at)

    _items(records, rows, take, path)
    owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
    counts = np.bincount(owner, minlength=len(rows))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    values = pa.concat_arrays(parts) if parts else read(records, rows[:0])
    return pa.LargeListArray.from_arrays(offsets, values.take(pa.array(np.argsort(owner, kind="stable"))))


def _map(records: Records, rows: Rows, keys: Read, values: Read, path: str, kind: pa.DataType) -> pa.Array:
    """Reads maps as lists of entries, sorts the entries by key, and keeps the last one of each key."""

    def entry(records: Records, rows: Rows) -> pa.Array:
        columns = [keys(records, rows), values(records, rows)]
        return pa.StructArray.from_arrays(
            columns, fields=[pa.field(name, one.type) for name, one in zip((KEY, VALUE), columns, strict=True)]
        )

    found = pl.Series("v", _list(records, rows, entry, path))
    made = found.to_frame().select(in_order(last_of_each(pl.col("v")))).to_series()
    return made.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kind)


def _items(records: Records, rows: Rows, take: Callable[[Records, np.ndarray], None], path: str) -> None:
    """Calls `take` with the positions of the records that have a next item, until no record has one."""
    left = np.zeros(len(rows), np.int64)
    at = np.arange(len(rows))
    while at.size:
        new = at[left[at] == 0]
        if new.size:
            left[new] = _block(records, rows[new], path)
        at = at[left[at] > 0]
        records.items[rows[at]] += 1
        records.refuse(rows[at[records.items[rows[at]] > MAX_ITEMS]], f"{path}: over {MAX_ITEMS:,} items in a record")
        if at.size:
            take(records, at)
            left[at] -= 1
            left[at[records.at[rows[at]] >= records.end[rows[at]]]] = 0  # every item takes a byte: it is cut short


def _block(records: Records, rows: Rows, path: str) -> np.ndarray:
    """Reads the number of items of the next block. A negative number means that the block's length in bytes follows."""
    counts = records.numbers(rows, path)
    sized = counts < 0
    if sized.any():
        records.numbers(rows[sized], path)
        endless = counts == -(2**63)  # -2^63 has no opposite of 64 bits
        records.refuse(rows[endless], f"{path}: a block of 2^63 items")
        counts = np.where(endless, 0, np.abs(counts))
    return counts


# -- values that nobody asks for --------------------------------------------------------------------------------------


def passing(type: Type, path: str) -> Pass:
    """A function that moves behind values of a type."""
    if type.kind in ("int", "long", "enum"):
        return lambda records, rows: _discard(records.numbers(rows, path))
    if type.kind in ("string", "bytes"):
        return lambda records, rows: _discard(records.pieces(rows, path))
    if type.kind == "union":
        return partial(_pass_union, branches=[passing(one, path) for one in type.of], path=path)
    if type.kind == "record":
        return partial(_pass_all, steps=[passing(one, f"{path}.{name}") for name, one in type.members.items()])
    if type.kind in ("array", "map"):
        one = passing(type.of[0], f"{path}[]")
        key = [passing(Type("string"), f"{path}[]")] if type.kind == "map" else []
        return partial(_pass_items, step=partial(_pass_all, steps=[*key, one]), path=path)
    width = {"boolean": 1, "null": 0, "fixed": type.size, **WIDTHS}[type.kind]
    return lambda records, rows: _discard(records.fixed(rows, width, path))


def _discard(value: object) -> None:
    """Discards a value that was read only to find its end."""


def _pass_all(records: Records, rows: Rows, steps: Sequence[Pass]) -> None:
    for step in steps:
        step(records, rows)


def _pass_union(records: Records, rows: Rows, branches: Sequence[Pass], path: str) -> None:
    chosen = ordinals(records, rows, len(branches), f"{path}: the union")
    for number in np.unique(chosen).tolist():
        branches[number](records, rows[chosen == number])


def _pass_items(records: Records, rows: Rows, step: Pass, path: str) -> None:
    _items(records, rows, lambda records, at: step(records, rows[at]), path)


# -- types ------------------------------------------------------------------------------------------------------------

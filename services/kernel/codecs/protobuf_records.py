"""Decoding of Protobuf records into columns: the library decodes each message, and each field of all becomes one
column.

At its first record, a writer's message type is resolved to the fields of the stream, like an Avro schema: fields match
by name, numbers widen, fields that the stream lacks are skipped, and fields that the writer lacks are null if the field
type permits it. An unwritten field without presence (proto3) has its default value, as usual in Protobuf.
`./scripts/bench registry` measures the decoder. Source: PROTOCOL 3, protobuf.dev "Encoding".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.maps import entries
from holdfast.services.kernel.codecs.protobuf_encoder import ITEM
from holdfast.services.kernel.codecs.protobuf_plain import FEW, PlainReader
from holdfast.services.kernel.codecs.protobuf_schemas import (
    BYTES,
    ENUM,
    MESSAGE,
    TIMESTAMP,
    WRAPPERS,
    is_map,
    is_repeated,
    shown,
)
from holdfast.services.kernel.codecs.protobuf_texts import written_as
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_OUTSIDE = "a time outside the years 1 to 9999"
_OLDEST_S, _NEWEST_S = OLDEST_US // 1_000_000 + 1, NEWEST_US // 1_000_000
_SECONDS, _NANOS = attrgetter("seconds"), attrgetter("nanos")
_KIND = pl.Datetime("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 2**63 - 1
_NUMBERS = {1: "int", 2: "int", 3: "int", 4: "int", 5: "float", 6: "float"}
_STRING = 9
"""TYPE_STRING."""
_UNSIGNED_64 = 4
"""CPPTYPE_UINT64."""
Convert = Callable[[Any], Any]
"""Converts a value of the library to a Python value that polars accepts; raises _Unfit."""


class Unresolved(Exception):
    """The reason why records of a message type do not give the fields of a stream."""


class _Unfit(Exception):
    """The reason why a record does not fit."""


Refuse = Callable[[int, str], None]
"""A function that takes a record's position and the reason."""
Build = Callable[[Sequence[Sequence[Any]], Refuse], pl.Series]
"""Makes a column of the values of some attributes of all messages. Raises the errors of polars."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A field of the stream.

    name: the name of the field.
    text: its type text.
    get: returns the value of one message.
    attributes: the message attributes from which `build` makes the whole column; empty if it cannot.
    build: makes the column for all messages at once.
    """

    name: str
    text: str
    get: Callable[[Any], Any]
    attributes: tuple[str, ...] = ()
    build: Build | None = None


class MessageReader:
    """A reader of the records of one message type.

    Args:
        of: the message type of the writer.
        fields: the type text of each field, by its name in the record.
        unit: the unit of timestamps that are plain integers.

    Raises:
        Unresolved: no record can fit.
    """

    def __init__(self, of: Descriptor, fields: Mapping[str, str], unit: str | None = None) -> None:
        self._parse = importlib.import_module("google.protobuf.message_factory").GetMessageClass(of).FromString
        self._columns = [_column(of.fields_by_name.get(name), name, text, unit) for name, text in fields.items()]
        names = [name for column in self._columns for name in column.attributes]
        self._take = attrgetter(*names) if len(names) > 1 else None
        self._plain = PlainReader.of(of, fields, unit)

    def read(self, bodies: Sequence[bytes], skip: int = 0) -> tuple[list[pl.Series], dict[int, str]]:
        """The values of each field (arbitrary for a refused record), and the reasons of refusal by position.

        Args:
            skip: the number of bytes to skip before each message.
        """
        if self._plain is None or len(bodies) < FEW:
            return self._by_library([body[skip:] for body in bodies] if skip else bodies)
        columns, odd = self._plain.read(bodies, skip)
        if not odd.size:
            return columns, {}
        others, refused = self._by_library([bodies[place][skip:] for place in odd.tolist()])
        places = np.arange(len(bodies))
        places[odd] = len(bodies) + np.arange(len(odd))
        whole = [first.append(second).gather(places) for first, second in zip(columns, others, strict=True)]
        return whole, {int(odd[place]): reason for place, reason in refused.items()}

    def _by_library(self, bodies: Sequence[bytes]) -> tuple[list[pl.Series], dict[int, str]]:
        refused: dict[int, str] = {}
        messages = self._messages(bodies, refused)
        taken = iter(zip(*map(self._take, messages), strict=True)) if self._take is not None and messages else None
        found = []
        for column in self._columns:
            values = [next(taken) if taken else list(map(attrgetter(one), messages)) for one in column.attributes]
            found.append(_read(column, values, messages, refused))
        return found, refused

    def _messages(self, bodies: Sequence[bytes], refused: dict[int, str]) -> list[Any]:
        """The messages; an empty message in place of each unreadable one."""
        try:
            return list(map(self._parse, bodies))
        except Exception:  # DecodeError of whichever implementation is there
            pass
        found = []
        for place, body in enumerate(bodies):
            try:
                found.append(self._parse(body))
            except Exception as error:
                refused[place] = f"no message of its schema: {' '.join(str(error).split())[:200]}"
                found.append(self._parse(b""))
        return found


def _read(
    column: _Column, taken: Sequence[Sequence[Any]], messages: Sequence[Any], refused: dict[int, str]
) -> pl.Series:
    """The column of a field for all messages.

    taken: the values of the column's attributes.
    """
    if column.build is not None:
        try:
            return column.build(taken, lambda place, reason: _note(refused, place, column, reason))
        except _UNREADABLE:
            pass
    values = []
    for place, message in enumerate(messages):
        try:
            value = column.get(message)
            if value is None and not field_types.nullable(column.text):
                raise _Unfit(f"expected {column.text}, found null")
            values.append(value)
        except (_Unfit, *_UNREADABLE) as error:
            _note(refused, place, column, str(error))
            values.append(None)
    return pl.Series(column.name, values, dtype=field_types.dtype(column.text))


_UNREADABLE = (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)


def _note(refused: dict[int, str], place: int, column: _Column, reason: str) -> None:
    refused.setdefault(place, f"{column.name}: {' '.join(reason.split())[:200]}")


def _column(field: FieldDescriptor | None, name: str, text: str, unit: str | None) -> _Column:
    if field is None:
        if not field_types.nullable(text):
            raise Unresolved(f"has no field {name}, expected {text}: a field that may be absent is {text}?")
        return _Column(name, text, lambda message: None)
    required, kind = field_types.required(text), field_types.dtype(text)
    get = _value(field, text, name, unit)
    if is_repeated(field) or (field.has_presence and field.cpp_type != MESSAGE):
        return _Column(name, text, get)
    if field.cpp_type == MESSAGE:
        if field.message_type.full_name != TIMESTAMP or required != "timestamp":
            return _Column(name, text, get)
        return _Column(name, text, get, (name,), build=lambda taken, refuse: _moments(name, taken[0]))
    if _as_it_is(field, required):
        return _Column(name, text, get, (name,), build=lambda taken, refuse: pl.Series(name, taken[0], dtype=kind))
    if required == "timestamp" and unit is not None:
        return _Column(name, text, get, (name,), build=lambda taken, refuse: _scaled(name, taken[0], unit, refuse))
    return _Column(name, text, get)


def _moments(name: str, values: Sequence[Any]) -> pl.Series:
    """Times of Timestamp messages. Raises ValueError if some must be read one by one: an unwritten time has zeros like
    the first moment of 1970, and a time may be outside the years 1 to 9999.
    """
    seconds = np.fromiter(map(_SECONDS, values), np.int64, len(values))
    nanos = np.fromiter(map(_NANOS, values), np.int64, len(values))
    if ((seconds == 0) & (nanos == 0)).any() or seconds.min() < _OLDEST_S or seconds.max() >= _NEWEST_S:
        raise ValueError(name)
    return pl.Series(name, seconds * 1_000_000 + nanos // 1_000).cast(_KIND)


def _scaled(name: str, numbers: Sequence[int], unit: str, refuse: Refuse) -> pl.Series:
    """Times from integers in a unit."""
    found = timestamps.scaled(numbers, unit)
    for place in found.is_null().arg_true().to_list() if found.null_count() else ():
        refuse(place, _OUTSIDE)
    return found.cast(_KIND).alias(name)


def _value(field: FieldDescriptor, text: str, path: str, unit: str | None) -> Callable[[Any], Any]:
    """A function that returns the value of a message field, null if it is absent. Raises Unresolved."""
    name, convert = field.name, _of_field(field, text, path, unit)
    if is_repeated(field) or not field.has_presence:
        return lambda message: convert(getattr(message, name))
    return lambda message: convert(getattr(message, name)) if message.HasField(name) else None


def _of_field(field: FieldDescriptor, text: str, path: str, unit: str | None) -> Convert:
    required = field_types.required(text)
    if is_map(field):
        return _of_map(field, text, path, unit)
    if not is_repeated(field):
        return _of_one(field, text, path, unit)
    if not required.startswith("list<"):
        raise Unresolved(f"has {path} as repeated {shown(field)}, expected {text}")
    inside = required[len("list<") : -1]
    item = _of_one(field, inside, f"{path}[]", unit)
    if field.cpp_type != MESSAGE or field_types.nullable(inside):
        return lambda values: [item(value) for value in values]
    return lambda values: [_there(item(value), inside) for value in values]


def _of_map(field: FieldDescriptor, text: str, path: str, unit: str | None) -> Convert:
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    if not field_types.required(text).startswith("map<"):
        raise Unresolved(f"has {path} as map, expected {text}")
    if key.type != _STRING:
        raise Unresolved(f"has {path} as map with keys of type {shown(key)}, expected {text}")
    inside = field_types.map_value(text)
    item = _of_one(value, inside, f"{path}[]", unit)
    if not field_types.nullable(inside):
        return lambda values: entries({name: _there(item(values[name]), inside) for name in values})
    return lambda values: entries({name: item(values[name]) for name in values})


def _of_one(field: FieldDescriptor, text: str, path: str, unit: str | None) -> Convert:
    """A function that converts one value of the field, repeated or not."""
    required = field_types.required(text)
    if field.cpp_type == MESSAGE:
        return _of_message(field, text, path, unit)
    if required == "timestamp" and field.cpp_type in (1, 2, 3, 4):
        if unit is None:
            raise Unresolved(f"has {path} as {shown(field)}, expected {text}; integers need the source's `unit`")
        factor = timestamps.US_PER_UNIT[unit] if unit != "ns" else 0
        return lambda value: _time(value * factor if factor else value // 1_000)
    if field.type == _STRING and (written := written_as(required)) is not None:
        return written
    if not _fits(field, required):
        raise Unresolved(f"has {path} as {shown(field)}, expected {text}")
    if field.cpp_type == ENUM:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda value: _symbol(names, value)
    if field.cpp_type == _UNSIGNED_64 and required == "int":
        return _signed
    return float if required == "float" else _same


def _of_message(field: FieldDescriptor, text: str, path: str, unit: str | None) -> Convert:
    required, name = field_types.required(text), field.message_type.full_name
    if name == TIMESTAMP and required == "timestamp":
        return lambda value: _time(value.seconds * 1_000_000 + value.nanos // 1_000)
    if name in WRAPPERS or (_alone(field.message_type) and not _is_message(required)):
        return _value(field.message_type.fields_by_name["value"], text, path, unit)
    if not required.startswith("struct<"):
        raise Unresolved(f"has {path} as {shown(field)}, expected {text}")
    parts = {one: (kind, _member(field.message_type, one, kind, f"{path}.{one}", unit))
             for one, kind in field_types.members(required).items()}  # fmt: skip

    def struct(value: Any) -> dict[str, Any]:
        found = {one: get(value) for one, (_, get) in parts.items()}
        for one, (kind, _) in parts.items():
            if found[one] is None and not field_types.nullable(kind):
                raise _Unfit(f"{one}: expected {kind}, found null")
        return found

    return struct


def _is_message(required: str) -> bool:
    """True for a struct with a member `value`, which a message of this one field may be itself."""
    return required.startswith("struct<") and ITEM in field_types.members(required)


def _alone(of: Descriptor) -> bool:
    """True for a message with the single field `value`, in which a sink writes items that may be null."""
    return [one.name for one in of.fields] == [ITEM]


def _there(value: Any, text: str) -> Any:
    if value is None:
        raise _Unfit(f"expected {text}, found null")
    return value


def _member(of: Descriptor, name: str, text: str, path: str, unit: str | None) -> Callable[[Any], Any]:
    field = of.fields_by_name.get(name)
    if field is not None:
        return _value(field, text, path, unit)
    if not field_types.nullable(text):
        raise Unresolved(f"has no field {path}, expected {text}: a field that may be absent is {text}?")
    return lambda message: None


def _fits(field: FieldDescriptor, required: str) -> bool:
    number = _NUMBERS.get(field.cpp_type)
    if number is not None:
        return required == number or (required == "float" and number == "int")
    if field.cpp_type == 7:
        return required == "bool"
    if field.type == BYTES:
        return required == "bytes"
    return required == "string"


def _as_it_is(field: FieldDescriptor, required: str) -> bool:
    """True if polars accepts all values that the library returns for the field."""
    if field.cpp_type in (MESSAGE, ENUM, _UNSIGNED_64):
        return False
    return _NUMBERS.get(field.cpp_type, required) == required and _fits(field, required)


def _same(value: Any) -> Any:
    return value


def _signed(value: int) -> int:
    if value > _MOST:
        raise _Unfit(f"{value} is more than an int holds")
    return value


def _symbol(names: Mapping[int, str], value: int) -> str:
    found = names.get(value)
    if found is None:
        raise _Unfit(f"the enum has no number {value}")
    return found


def _time(microseconds: int) -> Any:
    if not OLDEST_US <= microseconds <= NEWEST_US:
        raise _Unfit(_OUTSIDE)
    return _EPOCH + timedelta(microseconds=microseconds)

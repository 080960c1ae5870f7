"""The Protobuf message of a sink's rows: made from the columns, or the first message of a registered schema.

Readers know a field only by its number, so a field keeps its number for ever. A column that the registered message has
is written under its number there; a missing column is added with a new number; no field is removed. int is int64, float
double, timestamp google.protobuf.Timestamp, decimal and date texts (1.50, 2026-01-02), a struct a message, a list a
repeated field. Source: protobuf.dev, "Language Guide (proto 3)" and "Updating A Message Type".
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.protobuf_encoder import (
    ENTRY_KEY,
    IN_ORDER,
    ITEM,
    Numbers,
    entry_fields,
    in_message,
    numbered,
)
from holdfast.services.kernel.codecs.protobuf_schemas import TIMESTAMP, NoSchema, missing, parse

_DOUBLE, _INT64, _BOOL, _STRING, _MESSAGE, _BYTES = 1, 3, 8, 9, 11, 12
_KINDS = {"int": _INT64, "float": _DOUBLE, "bool": _BOOL, "bytes": _BYTES, "timestamp": _MESSAGE}
_SHOWN = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_RESERVED = range(19_000, 20_000)
"""Numbers that Protobuf reserves."""


class Unlike(Exception):
    """The reason why rows cannot be written as messages of a schema; the message follows the name of the schema."""


def message_schema(fields: Mapping[str, str], name: str = "Row", given: Numbers = IN_ORDER) -> str:
    """The text of the schema of rows with these columns, in the form that confluent's serializer registers: a compiled
    file.

    Args:
        fields: the type text of each column.
        name: the name of the message, with its package.
        given: the numbers of the fields.

    Raises:
        NoSchema: the library is missing.
    """
    if absent := missing():
        raise NoSchema(f"cannot be made: {absent}")
    package, _, own = name.rpartition(".")
    file = _descriptors().FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    _Extending(file, given).message(file.message_type.add(name=own), _place(file, own), fields, "")
    return _written(file)


def extended(text: str, fields: Mapping[str, str], name: str | None) -> tuple[str, dict[str, int]]:
    """A registered schema extended by the columns that its first message lacks, and the number of each field by its
    path.

    Args:
        text: the schema; it is returned unchanged if it lacks no column.
        fields: the type text of each column.
        name: the name that the message must have; None: any.

    Raises:
        NoSchema: the schema cannot be read.
        Unlike: a column has another type there.
    """
    parse(text)
    file = _descriptors().FileDescriptorProto.FromString(base64.standard_b64decode(text))
    if not file.message_type:
        raise Unlike("has no message")
    first, before = file.message_type[0], file.SerializeToString()
    found = ".".join(filter(None, (file.package, first.name)))
    if name is not None and name != found:
        raise Unlike(f"begins with the message {found}, and `record` is {name}")
    extending = _Extending(file, IN_ORDER)
    extending.message(first, _place(file, first.name), fields, "")
    return (text if file.SerializeToString() == before else _written(file)), extending.numbers


def unlike_names(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of fields of one message with the same name in JSON, which Protobuf refuses."""
    seen = dict[str, str]()
    for name, text in fields.items():
        if (first := seen.setdefault(_in_json(name), name)) != name:
            yield first, name
        inner = field_types.innermost(text)
        if inner.startswith("struct<"):
            yield from unlike_names(field_types.members(inner))


def _in_json(name: str) -> str:
    """The name of a field in JSON: a letter after an underscore is a capital."""
    first, *words = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)


def paths(fields: Mapping[str, str], path: str = "") -> Iterator[str]:
    """The path of each field, also of fields inside structs and lists."""
    for name, text in fields.items():
        yield f"{path}{name}"
        if field_types.required(text).startswith("map<"):  # the numbers in an entry are always 1 and 2
            yield from paths(_within(_within(text)[ITEM]), f"{path}{name}.{ITEM}.")
        else:
            yield from paths(_within(text), f"{path}{name}.")


def _within(text: str) -> dict[str, str]:
    """The fields of the message that is the type of a field; empty for other types."""
    name = field_types.required(text)
    if name.startswith("list<"):
        item = name[len("list<") : -1]
        return {ITEM: item} if in_message(item) else _within(item)
    if name.startswith("map<"):
        entry = entry_fields(name)
        return entry | {ITEM: f"struct<{ITEM}: {entry[ITEM]}>"} if in_message(entry[ITEM]) else entry
    return field_types.members(name) if name.startswith("struct<") else {}


def _descriptors() -> Any:
    return importlib.import_module("google.protobuf.descriptor_pb2")


def _written(file: Any) -> str:
    text = base64.standard_b64encode(file.SerializeToString(deterministic=True)).decode()
    parse(text)
    return text


class _Extending:
    """An editor that adds columns to the messages of a file.

    numbers: the numbers of all fields so far, by path.
    """

    def __init__(self, file: Any, given: Numbers) -> None:
        self._file = file
        self._given = given
        self.numbers: dict[str, int] = {}

    def message(self, of: Any, place: str, fields: Mapping[str, str], path: str) -> None:
        """Adds the columns that the message lacks.

        place: the full name of the message, after a dot.
        path: the path of its field, with a dot at the end.
        """
        known = {one.name: one for one in of.field}
        self._judge(of, fields, path)
        free = self._free(of)
        chosen = numbered(fields, path, self._given) if not known else {}
        for name, text in fields.items():
            field = known.get(name)
            if field is None:
                field = of.field.add(name=name, number=chosen.get(name) or next(free))
                self._add(field, of, place, text)
            else:
                self._compare(field, text, f"{path}{name}")
            if not of.options.map_entry:
                self.numbers[f"{path}{name}"] = field.number
            if within := _within(text):
                inner = self._named(field, f"{path}{name}")
                self.message(inner, field.type_name, within, f"{path}{name}.")

    def _judge(self, of: Any, fields: Mapping[str, str], path: str) -> None:
        for one in of.field:
            if one.label == _REQUIRED:
                raise Unlike(f"has {path}{one.name} as required, and a column may be null")
            if one.name in fields and one.HasField("oneof_index") and not one.proto3_optional:
                choice = of.oneof_decl[one.oneof_index].name
                raise Unlike(f"has {path}{one.name} as one of the fields {choice}, of which a message has one at most")

    def _free(self, of: Any) -> Iterator[int]:
        """Yields numbers that no field of the message ever had, ascending."""
        taken = [one.number for one in of.field]
        taken += [one.end - 1 for one in (*of.reserved_range, *of.extension_range)]
        last = max((one for one in taken if one < 2**29 - 1), default=0)
        yield from (number for number in count(last + 1) if number not in _RESERVED)

    def _add(self, field: Any, of: Any, place: str, text: str) -> None:
        """Sets the type of a new field of the message `of`, which has a name and a number."""
        plain = field_types.required(text)
        repeated = _is_repeated(plain)
        field.type, field.label = _kind(plain), _REPEATED if repeated else _OPTIONAL
        if _of_time(plain):
            self._as_time(field)
        elif plain.startswith("map<"):
            field.type_name = f"{place}.{self._entry(field.name, of, place, plain)}"
        elif field.type == _MESSAGE:
            field.type_name = f"{place}.{of.nested_type.add(name=_type_name(of, field.name)).name}"
        elif not repeated and self._file.syntax == "proto3":
            field.proto3_optional, field.oneof_index = True, len(of.oneof_decl)
            of.oneof_decl.add(name=f"_{field.name}")

    def _as_time(self, field: Any) -> None:
        field.type_name = f".{TIMESTAMP}"
        if _TIME_FILE not in self._file.dependency:
            self._file.dependency.append(_TIME_FILE)

    def _entry(self, name: str, of: Any, place: str, plain: str) -> str:
        """Adds the message of a map's entries, and returns its name. No type lies inside of it: the message of a value
        stands beside it.
        """
        entry = of.nested_type.add(name=_entry_name(name))
        entry.options.map_entry = True
        text = field_types.required(_within(plain)[ITEM])
        entry.field.add(name=ENTRY_KEY, number=1, label=_OPTIONAL, type=_STRING)
        value = entry.field.add(name=ITEM, number=2, label=_OPTIONAL, type=_kind(text))
        if _of_time(text):
            self._as_time(value)
        elif value.type == _MESSAGE:
            value.type_name = f"{place}.{of.nested_type.add(name=_type_name(of, name)).name}"
        return str(entry.name)

    def _compare(self, field: Any, text: str, path: str) -> None:
        plain = field_types.required(text)
        wanted, repeated = _kind(plain), _is_repeated(plain)
        shown = f"{'repeated ' if field.label == _REPEATED else ''}{field.type_name.lstrip('.') or _SHOWN[field.type]}"
        time = field.type_name == f".{TIMESTAMP}"
        if field.type != wanted or (field.label == _REPEATED) != repeated or time != _of_time(plain):
            expected = f"{'repeated ' if repeated else ''}{TIMESTAMP if _of_time(plain) else _SHOWN[wanted]}"
            raise Unlike(f"has {path} as {shown}, and the column is {text}, which is written as {expected}")

    def _named(self, field: Any, path: str) -> Any:
        """The message type of a field."""
        for name, message in _messages(self._file.message_type, _place(self._file, "")):
            if field.type_name == name:
                return message
        raise Unlike(f"has {path} as {field.type_name.lstrip('.')}, of another file")


_TIME_FILE = "google/protobuf/timestamp.proto"


def _place(file: Any, name: str) -> str:
    """The full name of a message of a file, after a dot."""
    return f".{file.package}.{name}" if file.package else f".{name}"


def _messages(some: Any, space: str) -> Iterator[tuple[str, Any]]:
    for one in some:
        yield f"{space}{one.name}", one
        yield from _messages(one.nested_type, f"{space}{one.name}.")


def _kind(plain: str) -> int:
    """The Protobuf type of a field of this field type, or of its items."""
    if plain.startswith("list<"):
        item = plain[len("list<") : -1]
        return _MESSAGE if in_message(item) else _kind(field_types.required(item))
    return _MESSAGE if plain.startswith(("struct<", "map<")) else _KINDS.get(plain, _STRING)


def _is_repeated(plain: str) -> bool:
    return plain.startswith(("list<", "map<"))


def _entry_name(name: str) -> str:
    """The name that Protobuf asks of the message of a map's entry: that of the field without underscores."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_")) + "Entry"


def _of_time(plain: str) -> bool:
    """True for a timestamp and for a list of timestamps."""
    if plain.startswith("list<"):
        item = plain[len("list<") : -1]
        return not in_message(item) and _of_time(item)
    return plain == "timestamp"


def _type_name(of: Any, name: str) -> str:
    """A name for the message type of a field; fields and types share one space of names."""
    taken = {one.name for one in (*of.field, *of.nested_type, *of.enum_type)}
    found = f"{name[:1].upper()}{name[1:]}Value"
    while found in taken:
        found += "_"
    return found

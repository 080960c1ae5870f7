"""A slow reader of Protobuf in plain Python, by the encoding's page alone, to hold the product's against."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

_VARINT, _FIXED64, _BYTES, _GROUP, _END, _FIXED32 = 0, 1, 2, 3, 4, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE = 11
_WIRES = {3: _VARINT, 5: _VARINT, 18: _VARINT, 8: _VARINT, 1: _FIXED64}


class NoMessage(Exception):
    """Bytes that no message has."""


def number(value: bytes, at: int) -> tuple[int, int]:
    """A number of up to ten bytes, of which 64 bits count, and where it ends."""
    found = 0
    for place in range(10):
        if at + place >= len(value):
            raise NoMessage("ends within a number")
        byte = value[at + place]
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return found & (2**64 - 1), at + place + 1
    raise NoMessage("a number of more than ten bytes")


def parts(value: bytes, at: int = 0, group: int = 0) -> tuple[list[tuple[int, int, Any]], int]:
    """Number, wire type and content of each field, and the end; of a group only the end is of use."""
    found: list[tuple[int, int, Any]] = []
    while at < len(value):
        tag, at = number(value, at)
        field, wire = tag >> 3, tag & 7
        if not 0 < field < 2**29 or tag >= 2**32:
            raise NoMessage("no number of a field")
        if wire == _END:
            if field != group:
                raise NoMessage("the end of another group")
            return found, at
        content: Any = None
        if wire == _VARINT:
            content, at = number(value, at)
        elif wire == _BYTES:
            length, at = number(value, at)
            content, at = value[at : at + length], at + length
        elif wire in (_FIXED64, _FIXED32):
            width = 8 if wire == _FIXED64 else 4
            content, at = value[at : at + width], at + width
        elif wire == _GROUP:
            _, at = parts(value, at, field)
        else:
            raise NoMessage("no type of the wire")
        if at > len(value):
            raise NoMessage("ends within a field")
        found.append((field, wire, content))
    if group:
        raise NoMessage("a group without an end")
    return found, at


def message(value: bytes, of: Any) -> dict[str, Any]:
    """Fields that are set, by name, as their descriptors say; messages that come twice are merged."""
    found: dict[str, Any] = {}
    for field, wire, content in parts(value)[0]:
        one = of.fields_by_number.get(field)
        if one is None:
            continue
        if one.label == 3 if not hasattr(one, "is_repeated") else one.is_repeated:
            for item in _items(one, wire, content):
                found.setdefault(one.name, []).append(item)
        elif one.type == _MESSAGE and wire == _BYTES:
            message(content, one.message_type)  # each part is a message by itself
            found[one.name] = found.get(one.name, b"") + content
        elif wire == _WIRES.get(one.type, _BYTES):
            found[one.name] = _scalar(one, content)
    for one in of.fields:
        if one.name in found and one.type == _MESSAGE:
            found[one.name] = message(found[one.name], one.message_type)
    return found


def _items(one: Any, wire: int, content: Any) -> Iterator[Any]:
    own = _WIRES.get(one.type, _BYTES)
    if wire == own:
        yield _scalar(one, content)
    elif wire == _BYTES and own == _VARINT:
        at = 0
        while at < len(content):
            item, at = number(content, at)
            yield _scalar(one, item)


def _scalar(one: Any, content: Any) -> Any:
    match one.type:
        case 3:
            return content - 2**64 if content >= 2**63 else content
        case 18:
            return content >> 1 ^ -(content & 1)
        case 1:
            return struct.unpack("<d", content)[0]
        case 8:
            return content != 0
        case 9:
            try:
                return content.decode()
            except UnicodeDecodeError:
                raise NoMessage("a text that is not UTF-8") from None
    return content


def row(value: bytes, of: Any) -> dict[str, Any]:
    """Values of a message by the fields of the random schemas: timestamps, wrappers, pairs."""
    found = message(value, of)
    values: dict[str, Any] = {}
    for one in of.fields:
        kind = one.message_type.full_name if one.type == _MESSAGE else ""
        held = found.get(one.name)
        if kind == "google.protobuf.Timestamp" and held is not None:
            us = held.get("seconds", 0) * 1_000_000 + _nanos(held.get("nanos", 0)) // 1_000
            held = _EPOCH + timedelta(microseconds=us)
        elif kind.startswith("google.protobuf.") and held is not None:
            inner = one.message_type.fields_by_name["value"]
            held = held.get("value", {8: False, 9: ""}.get(inner.type, 0))
        elif kind == "Pair" and held is not None:
            held = {"a": held.get("a"), "b": held.get("b")}
        elif held is None and one.name in ("l", "x"):
            held = []
        values[one.name] = held
    return values


def _nanos(value: int) -> int:
    """An int32 on the wire: its lowest 32 bits count."""
    low = value & (2**32 - 1)
    return low - 2**32 if low >= 2**31 else low

"""Avro schemas: their named types, and the field types of a job file that match them.

Source: Avro specification 1.12, "Schema Declaration" and "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.services.kernel.codecs.fields import MAX_PRECISION, optional

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_DEPTH = 64
_TIMES = ("timestamp-millis", "timestamp-micros", "timestamp-nanos")
TIMES = frozenset({*_TIMES, *(f"local-{one}" for one in _TIMES)})
_SIMPLE = {
    "boolean": "bool", "int": "int", "long": "int", "float": "float", "double": "float", "bytes": "bytes",
    "string": "string", "enum": "string", "fixed": "bytes",
}  # fmt: skip


class NoSchema(Exception):
    """The reason why a text is not a readable Avro schema; the message follows the name of the schema."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of a schema.

    kind: a primitive type, or record, enum, fixed, array, map, union.
    logical: the logical type, if Avro defines it for this kind; empty otherwise.
    precision: the number of digits of a decimal.
    scale: the number of digits after the point of a decimal.
    size: the number of bytes of a fixed.
    symbols: the symbols of an enum.
    members: the fields of a record, by name.
    of: the branches of a union, or the item type of an array or map.
    """

    kind: str
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    members: Mapping[str, Type] = field(default_factory=dict)
    of: tuple[Type, ...] = ()

    @property
    def shown(self) -> str:
        """The text of the type for a message."""
        if self.kind == "union":
            return " or ".join(one.shown for one in self.of)
        if self.logical == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return self.logical or self.kind

    @property
    def empty(self) -> bool:
        """True if a value may take no byte, so that a few bytes could claim any number of items."""
        if self.kind == "record":
            return all(one.empty for one in self.members.values())
        return self.kind == "null" or (self.kind == "fixed" and self.size == 0)


def parse(text: str) -> Type:
    """Parses the text of a schema. Raises NoSchema."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise NoSchema("is no JSON") from None
    return _Parser().type(raw, "", 0)


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Type] = {}
        self._open: set[str] = set()

    def type(self, raw: Any, space: str, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise NoSchema("is nested too deeply")
        if isinstance(raw, list):
            if not raw:
                raise NoSchema("has a union of nothing")
            return Type("union", of=tuple(self.type(one, space, depth + 1) for one in raw))
        if isinstance(raw, str):
            return Type(raw) if raw in PRIMITIVES else self._known(raw, space)
        if not isinstance(raw, dict):
            raise NoSchema(f"has {json.dumps(raw)[:40]} where a type is to be")
        kind = raw.get("type")
        if kind in PRIMITIVES:
            return _logical(Type(kind), raw)
        if kind in ("array", "map"):
            return self._many(kind, raw, space, depth)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, raw, space, depth)
        return self.type(kind, space, depth + 1)

    def _many(self, kind: str, raw: dict[str, Any], space: str, depth: int) -> Type:
        items = self.type(raw.get("items" if kind == "array" else "values"), space, depth + 1)
        if kind == "array" and items.empty:
            raise NoSchema("has an array of items that take no byte, of which a few bytes may claim any number")
        return Type(kind, of=(items,))

    def _known(self, name: str, space: str) -> Type:
        for full in (name,) if "." in name or not space else (f"{space}.{name}", name):
            if full in self._open:
                raise NoSchema(f"has the type {full}, which holds itself: no field type stands for it")
            if full in self._named:
                return self._named[full]
        raise NoSchema(f"names the type {name}, and does not define it; schemas of several parts are not read")

    def _definition(self, kind: str, raw: dict[str, Any], space: str, depth: int) -> Type:
        name = raw.get("name")
        if not isinstance(name, str) or not name:
            raise NoSchema(f"has a {kind} without a name")
        given = raw.get("namespace", space)
        space = name.rpartition(".")[0] if "." in name else given if isinstance(given, str) else space
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._named or full in self._open:
            raise NoSchema(f"defines the type {full} twice")
        if kind == "enum":
            symbols = raw.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
                raise NoSchema(f"has the enum {full} without symbols")
            found = Type("enum", symbols=tuple(symbols))
        elif kind == "fixed":
            size = raw.get("size")
            if not isinstance(size, int) or not 0 <= size <= 2**20:
                raise NoSchema(f"has the fixed {full} of {size} bytes")
            found = _logical(Type("fixed", size=size), raw)
        else:
            self._open.add(full)
            found = Type("record", members=dict(self._members(full, raw.get("fields"), space, depth)))
            self._open.discard(full)
        self._named[full] = found
        return found

    def _members(self, full: str, raw: Any, space: str, depth: int) -> Iterator[tuple[str, Type]]:
        if not isinstance(raw, list):
            raise NoSchema(f"has the record {full} without fields")
        seen = set[str]()
        for one in raw:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or name in seen:
                raise NoSchema(f"has a field of {full} without a name of its own")
            seen.add(name)
            yield name, self.type(one.get("type"), space, depth + 1)


def _logical(base: Type, raw: dict[str, Any]) -> Type:
    """The type with its logical type. A logical type that Avro does not define or that does not fit is ignored, as the
    specification requires.
    """
    said = raw.get("logicalType")
    if base.kind == "long" and said in TIMES:
        return Type("long", str(said))
    if base.kind == "int" and said == "date":
        return Type("int", "date")
    if base.kind in ("bytes", "fixed") and said == "decimal":
        precision, scale = raw.get("precision"), raw.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= MAX_PRECISION:
            return Type(base.kind, "decimal", precision, scale, size=base.size)
    return base


def fields(schema: Type) -> dict[str, str]:
    """The field type of each field of a record, by name; fields without a matching field type are left out."""
    found = {name: field_type(one) for name, one in schema.members.items()}
    return {name: text for name, text in found.items() if text}


def field_type(type: Type) -> str:
    """The field type of a job file that matches an Avro type; empty if none does."""
    if type.kind == "union":
        inner = [one for one in type.of if one.kind != "null"]
        text = field_type(inner[0]) if len(inner) == 1 else ""
        return optional(text) if text and len(inner) < len(type.of) else text
    if type.logical == "decimal":
        return f"decimal({type.precision},{type.scale})"
    if type.logical:
        return "date" if type.logical == "date" else "timestamp"
    if type.kind == "array":
        inside = field_type(type.of[0])
        return f"list<{inside}>" if inside else ""
    if type.kind == "map":
        inside = field_type(type.of[0])
        return f"map<string, {inside}>" if inside else ""
    if type.kind == "record":
        known = fields(type)
        return f"struct<{', '.join(f'{name}: {text}' for name, text in known.items())}>" if known else ""
    return _SIMPLE.get(type.kind, "")

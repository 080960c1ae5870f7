"""Schemas of a sink's rows for a Schema Registry. They depend only on the columns, so equal columns have one schema.

Every field may be null, as in ksqlDB: a time outside the years 1 to 9999 is null, and a job submitted again may have
nulls in a column. Source: JOBS "queries", Avro specification 1.12, JSON Schema draft 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.protobuf_messages import message_schema

FORMATS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""The registry's names for the schemas of a sink's format."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AVRO: dict[str, Any] = {
    "string": "string", "int": "long", "float": "double", "bool": "boolean", "bytes": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"}, "date": {"type": "int", "logicalType": "date"},
}  # fmt: skip
_JSON: dict[str, dict[str, Any]] = {
    "string": {"type": "string"}, "int": {"type": "integer"}, "float": {"type": "number"}, "bool": {"type": "boolean"},
    "bytes": {"type": "string", "contentEncoding": "base64"}, "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}  # fmt: skip


def schema_of(format: str, fields: Mapping[str, str], name: str = "Row") -> str:
    """The text of the schema of rows with these columns. Raises NoSchema of protobuf_schemas.py if its library is
    missing.

    name: the name of the record.
    """
    if format == "protobuf":
        return message_schema(fields, name)
    return _written(
        _record(name, fields) if format == "avro" else {"$schema": _DRAFT, "title": name, **_object(fields)}
    )


def key_schema(format: str, column: str, text: str) -> str:
    """The text of the schema of keys that are one value; for Protobuf, a message with only this value."""
    if format == "protobuf":
        return message_schema({column: text}, "Key")
    name = field_types.required(text)
    if format == "avro":
        return _written(_avro(name, "Key")[1])
    return _written({"$schema": _DRAFT, "title": "Key", **_json(name)["oneOf"][1]})


def _written(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


_DRAFT = "http://json-schema.org/draft-07/schema#"


def names(fields: Mapping[str, str]) -> Iterator[str]:
    """Yields names that Avro and Protobuf refuse, also inside structs."""
    for name, text in fields.items():
        if not _NAME.fullmatch(name):
            yield name
        inner = field_types.innermost(text)
        if inner.startswith("struct<"):
            yield from names(field_types.members(inner))


def _record(name: str, fields: Mapping[str, str]) -> dict[str, Any]:
    members = [{"name": one, "type": _avro(text, f"{name}_{one}"), "default": None} for one, text in fields.items()]
    return {"type": "record", "name": name, "fields": members}


def _avro(text: str, path: str) -> Any:
    """The Avro schema of a field type.

    path: the name of records inside it; each record needs its own name.
    """
    name = field_types.required(text)
    kind = _AVRO.get(name) or _composed(name, lambda inner: _avro(inner, path), lambda members: _record(path, members))
    if name.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", name))
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    elif name.startswith("list<"):
        kind = {"type": "array", "items": kind}
    elif name.startswith("map<"):
        kind = {"type": "map", "values": kind}
    return ["null", kind]


def _object(fields: Mapping[str, str]) -> dict[str, Any]:
    """The schema of an object with all of these columns."""
    properties = {name: _json(text) for name, text in fields.items()}
    return {"type": "object", "properties": properties, "required": list(fields)}


def _json(text: str) -> dict[str, Any]:
    name = field_types.required(text)
    kind: dict[str, Any] = _JSON.get(name) or _composed(name, _json, _object)
    if name.startswith("decimal"):
        kind = {"type": "string"}
    elif name.startswith("list<"):
        kind = {"type": "array", "items": kind}
    elif name.startswith("map<"):
        kind = {"type": "object", "additionalProperties": kind}
    return {"oneOf": [{"type": "null"}, kind]}


def _composed(name: str, inner: Callable[[str], Any], record: Callable[[Mapping[str, str]], Any]) -> Any:
    if name.startswith("list<"):
        return inner(name[len("list<") : -1])
    if name.startswith("map<"):
        return inner(field_types.map_value(name))
    return record(field_types.members(name)) if name.startswith("struct<") else {}

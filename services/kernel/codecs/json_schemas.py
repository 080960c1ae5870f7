"""The fields of a JSON Schema that match field types of a job file.

Source: JSON Schema 2020-12, "Validation" 6 and 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.services.kernel.codecs.fields import nullable, optional, required

_SIMPLE = {"string": "string", "integer": "int", "number": "float", "boolean": "bool"}
_FORMATS = {"date-time": "timestamp", "date": "date"}
MAX_DEPTH = 64


def fields(text: str) -> dict[str, str]:
    """The field type of each property of an object that has one, by name; empty if the schema is not an object."""
    try:
        return _members(json.loads(text), 0)
    except (ValueError, RecursionError):
        return {}


def lack(text: str, wanted: Mapping[str, str]) -> str:
    """The reason why an object of the schema cannot give these fields; empty if it may. An undescribed field may be
    present.
    """
    found = fields(text)
    if not found:
        return ""
    for name, kind in wanted.items():
        if name not in found:
            if not nullable(kind) and not _open(text, name):
                return f"has no property {name}, expected {kind}: a field that may be absent is {kind}?"
        elif not _fits(required(found[name]), required(kind)):
            return f"has {name} as {required(found[name])}, expected {kind}"
    return ""


def _open(text: str, name: str) -> bool:
    """True if the schema has a property of this name; its type matches no field type."""
    return name in json.loads(text).get("properties", {})


def _fits(found: str, wanted: str) -> bool:
    """True if a value of the found type may be read as the wanted type: JSON texts hold many types, and a number may be
    whole.
    """
    numbers = {"int", "float"}
    if wanted.startswith(("list<", "struct<", "map<", "decimal")) or wanted in ("timestamp", "date", "bytes"):
        return found.startswith("list<") == wanted.startswith("list<") and found != "bool"
    return found == wanted or {found, wanted} <= numbers or (wanted == "string" and found in ("timestamp", "date"))


def _members(schema: Any, depth: int) -> dict[str, str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or depth > MAX_DEPTH:
        return {}
    required = schema.get("required")
    always = required if isinstance(required, list) else []
    found = {name: _type(one, depth + 1) for name, one in properties.items()}
    return {name: text if name in always else optional(text) for name, text in found.items() if text}


def _type(schema: Any, depth: int) -> str:
    """The field type of a schema; empty if none matches."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return ""
    kind = schema.get("type")
    choices = kind if isinstance(kind, list) else schema.get("oneOf") or schema.get("anyOf")
    if isinstance(choices, list):
        some = [{**schema, "type": one} if isinstance(one, str) else one for one in choices]
        values = [one for one in some if not (isinstance(one, dict) and one.get("type") == "null")]
        text = _type({**values[0], "oneOf": None, "anyOf": None}, depth + 1) if len(values) == 1 else ""
        return optional(text) if text and len(values) < len(some) else text
    if kind == "string":
        return _FORMATS.get(str(schema.get("format")), "string")
    if kind == "array":
        inside = _type(schema.get("items"), depth + 1)
        return f"list<{inside}>" if inside else ""
    if kind == "object":
        members = _members(schema, depth)
        if not members:
            inside = "" if schema.get("properties") else _type(schema.get("additionalProperties"), depth + 1)
            return f"map<string, {inside}>" if inside else ""
        return f"struct<{', '.join(f'{name}: {text}' for name, text in members.items())}>"
    return _SIMPLE.get(kind, "") if isinstance(kind, str) else ""

"""Protobuf schemas of a registry: a file of messages, and the field types that match their fields.

The registry compiles the text of a schema (`format=serialized`), so a schema arrives as a FileDescriptorProto in
base64, the form that confluent's Python serializer registers. The library google.protobuf reads it; the extra
`registry` installs the library. Source: protobuf.dev, "Encoding" and "ProtoJSON".
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from holdfast.services.kernel.codecs.fields import optional

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

MAX_DEPTH = 32
TIMESTAMP = "google.protobuf.Timestamp"
_WELL_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
WRAPPERS = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages with one value, which may be absent."""
_OF_CPP = {1: "int", 2: "int", 3: "int", 4: "int", 5: "float", 6: "float", 7: "bool", 8: "string", 9: "string"}
"""The field type for each type in memory: CPPTYPE_INT32 and so on."""
ENUM, MESSAGE, BYTES = 8, 10, 12
"""CPPTYPE_ENUM, CPPTYPE_MESSAGE, TYPE_BYTES."""


class NoSchema(Exception):
    """The reason why a text is not a readable Protobuf schema; the message follows the name of the schema."""


def missing() -> str:
    """The error text if the library is not installed; empty if it is."""
    try:
        found = importlib.util.find_spec("google.protobuf")
    except ModuleNotFoundError:
        found = None
    return "" if found is not None else "there is no protobuf here: pip install 'holdfast-streams[registry]'"


def parse(text: str) -> FileDescriptor:
    """Parses the text of a schema. Raises NoSchema."""
    if absent := missing():
        raise NoSchema(f"cannot be read: {absent}")
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
    for name in _WELL_KNOWN:
        known = importlib.import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        pool.AddSerializedFile(known.serialized_pb)
    try:
        file = descriptors.FileDescriptorProto.FromString(base64.standard_b64decode(text))
    except (binascii.Error, ValueError, importlib.import_module("google.protobuf.message").DecodeError):
        raise NoSchema("is no compiled Protobuf file: the registry does not compile schemas") from None
    file.name = file.name or "schema.proto"
    try:
        return pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, ValueError, KeyError) as error:
        raise NoSchema(f"cannot be built: {' '.join(str(error).split())[:200]}") from None


def message(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    """The message at a path of indexes in the file. Raises NoSchema."""
    found: Any = None
    inner = list(file.message_types_by_name.values())
    for index in path:
        if not 0 <= index < len(inner):
            raise NoSchema(f"has no message number {'.'.join(map(str, path))}")
        found = inner[index]
        inner = list(found.nested_types)
    return found


def fields(text: str) -> dict[str, str]:
    """The field type of each field of the first message, by name; fields without a matching field type are left out.
    Raises NoSchema.
    """
    return members(message(parse(text), (0,)), 0)


def members(of: Descriptor, depth: int) -> dict[str, str]:
    found = {one.name: type_of(one, depth + 1) for one in of.fields}
    return {name: text for name, text in found.items() if text}


def type_of(field: FieldDescriptor, depth: int) -> str:
    """The field type of a field; empty if none matches."""
    if is_map(field):
        return _of_map(field, depth)
    text = _of_one(field, depth)
    if not text:
        return ""
    if is_repeated(field):
        return f"list<{text}>"
    return optional(text) if field.has_presence and not is_required(field) else text


def _of_map(field: FieldDescriptor, depth: int) -> str:
    """The type of a map whose keys are texts; empty for other keys."""
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    text = _of_one(value, depth) if _of_one(key, depth) == "string" and not _holds_itself(field) else ""
    return f"map<string, {text}>" if text else ""


def _of_one(field: FieldDescriptor, depth: int) -> str:
    if field.cpp_type != MESSAGE:
        return "bytes" if field.type == BYTES else _OF_CPP[field.cpp_type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return "timestamp"
    if name in WRAPPERS:
        return _of_one(field.message_type.fields_by_name["value"], depth)
    inside = members(field.message_type, depth) if depth <= MAX_DEPTH and not _holds_itself(field) else {}
    return f"struct<{', '.join(f'{name}: {text}' for name, text in inside.items())}>" if inside else ""


def _holds_itself(field: FieldDescriptor) -> bool:
    """True if the message is reached again from its own fields, so that no type of finite depth matches."""
    seen, waiting = set[str](), [field.message_type]
    while waiting:
        for one in waiting.pop().fields:
            if one.cpp_type == MESSAGE:
                if one.message_type.full_name == field.message_type.full_name:
                    return True
                if one.message_type.full_name not in seen:
                    seen.add(one.message_type.full_name)
                    waiting.append(one.message_type)
    return False


def is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def is_map(field: FieldDescriptor) -> bool:
    return field.cpp_type == MESSAGE and bool(field.message_type.GetOptions().map_entry)


def is_required(field: FieldDescriptor) -> bool:
    """True for a field of proto2 without which no message can be read."""
    return bool(field.is_required) if hasattr(field, "is_required") else field.label == 2


def shown(field: FieldDescriptor) -> str:
    """The type of a field, for messages."""
    if field.cpp_type == MESSAGE:
        return str(field.message_type.full_name)
    if field.cpp_type == ENUM:
        return f"enum {field.enum_type.full_name}"
    names = ("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group",
             "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64")  # fmt: skip
    return names[field.type]

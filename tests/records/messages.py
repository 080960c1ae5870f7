"""Random Protobuf messages: fields in any order, some left out, optional ones and wrappers, and schemas of no use."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from holdfast.services.kernel.codecs.protobuf_schemas import message, parse
from holdfast.services.kernel.codecs.registered import WriterSchema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64, _SINT64, _DOUBLE, _BOOL, _STRING, _BYTES, _MESSAGE = 3, 18, 1, 8, 9, 12, 11
_KINDS: dict[str, tuple[Any, ...]] = {
    "id": (_INT64, _SINT64), "n": (_INT64, _SINT64, ".google.protobuf.Int64Value"), "f": (_DOUBLE,),
    "s": (_STRING, ".google.protobuf.StringValue"), "b": (_BOOL, ".google.protobuf.BoolValue"),
    "t": (".google.protobuf.Timestamp",), "y": (_BYTES,), "l": (_INT64,), "x": (_STRING,), "r": (".Pair",),
    "more": (_STRING, ".Pair"),
}  # fmt: skip
_REPEATED = ("l", "x")
FIRST = b"\0"


class Schemas:
    """Schemas of one stream by id; 5 has no field of it, 6 is no schema, and 7 is not known."""

    def __init__(self, some: Random) -> None:
        self.texts = {id: self._text(some) for id in range(1, 5)}
        file = descriptor_pb2.FileDescriptorProto(name="other.proto", syntax="proto3")
        file.message_type.add(name="Row").field.add(name="other", number=1, type=_INT64, label=1)
        self.texts |= {5: _compiled(file), 6: "syntax = 'proto3';"}
        self._classes = {id: GetMessageClass(message(parse(self.texts[id]), (0,))) for id in range(1, 5)}

    def find(self, id: int) -> WriterSchema | None:
        return WriterSchema("PROTOBUF", self.texts[id]) if id in self.texts else None

    def _text(self, some: Random) -> str:
        file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto3")
        file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
        row, pair = file.message_type.add(name="Row"), file.message_type.add(name="Pair")
        _field(pair, 1, "a", _INT64)
        _field(pair, 2, "b", _STRING)
        names = ["id", *(name for name in _KINDS if name != "id" and some.random() < 0.85)]
        some.shuffle(names)
        for number, name in enumerate(names, 1):
            _field(row, number * some.choice((1, 1, 300)) + number, name, some.choice(_KINDS[name]))
        return _compiled(file)

    def message(self, id: int, values: dict[str, Any]) -> bytes:
        """A message of a schema with these values, as far as it has fields for them."""
        kind = self._classes[id]
        fields = kind.DESCRIPTOR.fields_by_name
        made = {name: _value(fields[name], one) for name, one in values.items() if name in fields and one is not None}
        return FIRST + bytes(kind(**made).SerializeToString())


def _value(field: Any, value: Any) -> Any:
    if field.name in _REPEATED:
        return [one for one in value if one is not None]
    if isinstance(value, datetime):
        seconds, left = divmod(value - _EPOCH, timedelta(seconds=1))
        return {"seconds": seconds, "nanos": left.microseconds * 1_000}
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if one is not None}
    return {"value": value} if field.message_type is not None else value


def _field(of: Any, number: int, name: str, kind: Any) -> None:
    repeated = name in _REPEATED
    one = of.field.add(name=name, number=number, label=3 if repeated else 1)
    one.type = _MESSAGE if isinstance(kind, str) else kind
    if isinstance(kind, str):
        one.type_name = kind
    elif not repeated:
        one.proto3_optional = True
        one.oneof_index = len(of.oneof_decl)
        of.oneof_decl.add(name=f"_{name}")


def _compiled(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.standard_b64encode(file.SerializeToString()).decode()

"""Records as a Schema Registry's serializers write them, and a registry in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from holdfast.services.kernel.codecs.registered import WriterSchema
from holdfast.services.kernel.errors import Retriable


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    """A schema of these fields."""
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


def avro(schema: Any, value: Any) -> bytes:
    """The bytes of a value."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def framed(id: int, payload: bytes) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + payload


class Known:
    """A registry that knows these schemas. away: so many questions are not answered first."""

    def __init__(self, schemas: Mapping[int, Any], kind: str = "AVRO", away: int = 0, parts: bool = False) -> None:
        self.schemas = {id: WriterSchema(kind, json.dumps(one), parts) for id, one in schemas.items()}
        self.asked: list[int] = []
        self.away = away

    def find(self, id: int) -> WriterSchema | None:
        self.asked.append(id)
        if self.away > 0:
            self.away -= 1
            raise Retriable("the registry at http://registry does not answer")
        return self.schemas.get(id)

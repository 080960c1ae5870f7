"""Records that begin with the id of their writer's schema, as the serializers of a Schema Registry write them.

A record is a byte 0, four bytes of the id, then the value. An id never changes its schema, so the decoded record
depends only on its bytes and the stream's fields. The cut decides that a registry does not know an id
(schemas/cuts.py), because the registry may learn it later. Source: PROTOCOL 3, docs/decisions/0166.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs import json_schemas, protobuf_schemas
from holdfast.services.kernel.codecs.avro_bytes import Records
from holdfast.services.kernel.codecs.avro_records import RecordReader
from holdfast.services.kernel.codecs.avro_scalars import Unresolved
from holdfast.services.kernel.codecs.avro_schemas import NoSchema, Type, parse
from holdfast.services.kernel.codecs.messages import Messages
from holdfast.services.kernel.codecs.text_columns import TextColumns
from holdfast.services.kernel.errors import NoRegistry, SchemaChanged, StateCorrupted

HEADER = 5
KINDS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""The registry's names for the schemas of each format."""
WHOLE = "the value"
"""The field of a key that is one value alone; no schema has a field of this name."""
_UNNAMED = b"\xff" * HEADER
_CALLED = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


class WriterSchema(NamedTuple):
    """A schema of the registry.

    kind: AVRO, JSON or PROTOBUF.
    text: the schema.
    parts: True if it refers to schemas that are registered elsewhere.
    versions: subjects and the version of the schema in each, at the time of the request.
    """

    kind: str
    text: str
    parts: bool = False
    versions: tuple[tuple[str, int], ...] = ()

    def called(self, id: int, subject: str) -> str:
        """The name of the schema: its id, with its version in the subject, or in the first subject that has it."""
        found = dict(self.versions)
        if not found:
            return f"schema {id}"
        of = subject if subject in found else min(found)
        return f"schema {id}, version {found[of]} of {of},"


class Schemas(Protocol):
    """The schemas of a registry."""

    def find(self, id: int) -> WriterSchema | None:
        """The schema of an id; None if the registry does not know it. Raises Retriable if the registry does not
        answer.
        """
        ...


class Registered(NamedTuple):
    """The values of the records that were read.

    columns: the values, column by column.
    kept: the positions of their records, ascending.
    refused: the reason for each refused record, by position.
    unknown: the schema ids that the registry does not know.
    """

    columns: list[pl.Series]
    kept: np.ndarray
    refused: dict[int, str]
    unknown: tuple[int, ...]


class AbsentSchemas:
    """The schemas of a process without a registry.

    cause: the reason, and what to do about it.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause

    def find(self, id: int) -> WriterSchema | None:
        raise NoRegistry(self.cause)


NO_SCHEMAS: Schemas = AbsentSchemas("no Schema Registry is set: HOLDFAST_REGISTRY_URL names it")


def ids(values: Sequence[bytes | None]) -> np.ndarray:
    """The schema id of each record; -1: none."""
    if (id := _common(values)) is not None:
        return np.full(len(values), id)
    heads = b"".join([value[:HEADER] if value is not None and len(value) >= HEADER else _UNNAMED for value in values])
    lines = np.frombuffer(heads, np.uint8).reshape(len(values), HEADER)
    found = np.ascontiguousarray(lines[:, 1:]).view(">u4").reshape(len(values)).astype(np.int64)
    return np.where(lines[:, 0] == 0, found, -1)


def _common(values: Sequence[bytes | None]) -> int | None:
    """The schema id of all records; None if they differ. A common begin of the least and greatest record is common to
    all.
    """
    try:
        first, last = min(values)[:HEADER], max(values)[:HEADER]  # type: ignore[type-var, index]
    except (TypeError, ValueError):  # a record has no value, or there is no record
        return None
    return int.from_bytes(first[1:], "big") if first == last and len(first) == HEADER and first[0] == 0 else None


class RegisteredReader:
    """A reader of the records of one stream.

    Args:
        fields: the type text of each field, by its name in the record.
        names: the column names, in the same order.
        format: avro, json-schema or protobuf.
        unit: the unit of timestamps that are plain integers.
        schemas: the schemas of the registry.
        subject: the subject of the schemas, for messages.
        stops: True: a schema whose records do not give the fields raises SchemaChanged; False: its records are refused.
        alone: the field name for an Avro schema that is not a record; None: the schema must be a record.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        names: Sequence[str],
        format: str,
        unit: str | None,
        schemas: Schemas,
        subject: str = "",
        stops: bool = False,
        alone: str | None = None,
    ) -> None:
        self._fields = dict(fields)
        self._names = list(names)
        self._unit = unit
        self._subject = subject
        self._stops = stops
        self._alone = alone
        self._kind = KINDS[format]
        self._schemas = schemas
        self._texts = TextColumns(fields, names, "json", unit, header=HEADER) if format == "json-schema" else None
        self._readers: dict[int, RecordReader | Messages | str] = {}

    def read(self, values: Sequence[bytes | None], unknown: Collection[int] | None) -> Registered:
        """Reads records.

        unknown: the ids that count as unknown, whatever the registry answers now; None: ask the registry.
        Raises StateCorrupted if the registry does not know an id that counts as known.
        """
        named = ids(values)
        refused = {index: _unframed(values[index]) for index in np.flatnonzero(named < 0).tolist()}
        lacking: list[int] = []
        good: list[tuple[int, np.ndarray]] = []
        one = len(named) > 0 and named.min() == named.max() >= 0
        for id in named[:1].tolist() if one else np.unique(named[named >= 0]).tolist():
            rows = np.arange(len(named)) if one else np.flatnonzero(named == id)
            reason = self._unusable(id, unknown)
            if reason is None:
                lacking.append(id)
                reason = f"the registry does not know schema {id}"
            if reason:
                refused |= dict.fromkeys(rows.tolist(), reason)
            else:
                good.append((id, rows))
        by_kind = {"AVRO": self._read_records, "JSON": self._read_texts, "PROTOBUF": self._read_messages}
        columns, kept = by_kind[self._kind](values, good, refused)
        return Registered(columns, kept, refused, tuple(lacking))

    def _unusable(self, id: int, unknown: Collection[int] | None) -> str | None:
        """The reason why no record of a schema can be read; empty if they can be read, None if there is no such
        schema.
        """
        if unknown is not None and id in unknown:
            return None
        if id not in self._readers:
            schema = self._schemas.find(id)
            if schema is None and unknown is not None:
                raise StateCorrupted(
                    f"the registry does not know schema {id}, by which records of a batch were decoded before: it is "
                    "asked again; restore the registry, and the job continues"
                )
            if schema is None:
                return None
            self._readers[id] = self._reader(id, schema)
            if self._stops and isinstance(reason := self._readers[id], str):
                del self._readers[id]
                raise SchemaChanged(f"{reason}: mend the job's fields and update it, or set on_schema_change")
        found = self._readers[id]
        return found if isinstance(found, str) else ""

    def _reader(self, id: int, schema: WriterSchema) -> RecordReader | Messages | str:
        """A reader of the records of a schema, or the reason why there is none."""
        called = schema.called(id, self._subject)
        if schema.kind != self._kind:
            kind = _CALLED.get(schema.kind, schema.kind)
            return f"{called} is one of {kind}, and the source's format is {_CALLED[self._kind]}"
        if self._texts is not None:
            # each record is judged by itself; only a job that stops asks the schema
            lack = json_schemas.lack(schema.text, self._fields) if self._stops and self._alone is None else ""
            return f"{called} {lack}" if lack else RecordReader((), {}, {})
        if schema.parts:
            return f"{called} refers to other schemas, which are not read"
        try:
            if self._kind == "PROTOBUF":
                return Messages(called, schema.text, self._fields, self._unit)
            return RecordReader.of(self._as_record(parse(schema.text)), self._fields, self._unit)
        except (NoSchema, Unresolved, protobuf_schemas.NoSchema) as error:
            return f"{called} {error}"

    def _as_record(self, type: Type) -> Type:
        """The type as a record. A record with one field has the same bytes as the field alone."""
        if type.kind == "record" and self._alone == WHOLE:
            raise Unresolved(f"is a record: `metadata: key.NAME` names one of {', '.join(type.members)}")
        return (
            Type("record", members={self._alone: type}) if type.kind != "record" and self._alone is not None else type
        )

    def _read_texts(
        self, values: Sequence[bytes | None], good: Sequence[tuple[int, np.ndarray]], refused: dict[int, str]
    ) -> tuple[list[pl.Series], np.ndarray]:
        assert self._texts is not None
        if len(good) == 1 and not refused:
            found = self._texts.read(values)
            refused |= found.refused
            return found.columns, found.kept
        at = np.sort(np.concatenate([rows for _, rows in good])) if good else np.zeros(0, np.int64)
        found = self._texts.read([values[index] for index in at.tolist()])
        refused |= {int(at[index]): reason for index, reason in found.refused.items()}
        return found.columns, at[found.kept]

    def _read_records(
        self, values: Sequence[bytes | None], good: Sequence[tuple[int, np.ndarray]], refused: dict[int, str]
    ) -> tuple[list[pl.Series], np.ndarray]:
        records = Records(values, HEADER)
        parts, places = list[list[pl.Series]](), list[np.ndarray]()
        for id, rows in good:
            reader = self._readers[id]
            assert isinstance(reader, RecordReader)
            parts.append(reader.read(records, rows))
            places.append(rows)
        refused |= records.refused
        return self._joined(parts, places)

    def _read_messages(
        self, values: Sequence[bytes | None], good: Sequence[tuple[int, np.ndarray]], refused: dict[int, str]
    ) -> tuple[list[pl.Series], np.ndarray]:
        parts, places = list[list[pl.Series]](), list[np.ndarray]()
        for id, rows in good:
            reader = self._readers[id]
            assert isinstance(reader, Messages)
            some = values if len(rows) == len(values) else [values[row] for row in rows.tolist()]
            for columns, at in reader.read(some, rows, refused):  # type: ignore[arg-type]  # none of them is null
                parts.append(columns)
                places.append(at)
        return self._joined(parts, places)

    def _joined(
        self, parts: Sequence[list[pl.Series]], places: Sequence[np.ndarray]
    ) -> tuple[list[pl.Series], np.ndarray]:
        """The columns of all schemas, in the order of the records."""
        if len(parts) == 1:
            return [column.alias(name) for column, name in zip(parts[0], self._names, strict=True)], places[0]
        kinds = [field_types.dtype(text) for text in self._fields.values()]
        empty = [pl.Series(name, [], dtype=kind) for name, kind in zip(self._names, kinds, strict=True)]
        if not parts:
            return empty, np.zeros(0, np.int64)
        kept = np.concatenate(places)
        order = np.argsort(kept, kind="stable")
        frames = [
            pl.DataFrame([column.alias(name) for column, name in zip(part, self._names, strict=True)]) for part in parts
        ]
        return pl.concat(frames)[order].get_columns(), kept[order]


def _unframed(value: bytes | None) -> str:
    if not value:
        return "the record is empty"
    if value[0] != 0:
        return f"begins with the byte 0x{value[0]:02x}, not with 0 and the id of a schema of a registry"
    return f"ends within the {HEADER} bytes that name its schema"

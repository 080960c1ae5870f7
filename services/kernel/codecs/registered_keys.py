"""Keys that begin with the id of their schema: as columns of a source, and as the rows that deletions name.

A key is a record with fields, or one value alone. Source: JOBS "Schema Registry", docs/decisions/0206.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.decoder import Decoded
from holdfast.services.kernel.codecs.deletions import deleted
from holdfast.services.kernel.codecs.registered import HEADER, WHOLE, RegisteredReader, Schemas

Refuse = Callable[[int, str], None]
"""A function that takes a record's position and the reason."""
_raw = msgspec.json.Decoder(msgspec.Raw).decode


class KeySettings(NamedTuple):
    """The settings of a source for its keys.

    format: avro, json-schema or protobuf.
    unit: the unit of timestamps that are plain integers.
    schemas: the schemas of the registry.
    subject: the subject of the schemas.
    stops: see RegisteredReader.
    """

    format: str
    unit: str | None
    schemas: Schemas
    subject: str
    stops: bool


class KeyReader:
    """A reader of the keys of one source.

    Args:
        fields: the type text of each column.
        names: by column, its field of the key; WHOLE if the column holds the key itself.
        settings: the settings of the source for its keys.
    """

    def __init__(self, fields: Mapping[str, str], names: Mapping[str, str], settings: KeySettings) -> None:
        self._fields = {column: fields[column] for column in names}
        one = next(iter(names.values())) if len(set(names.values())) == 1 else None
        self._alone = one if settings.format == "json-schema" else None
        self._readers = [
            RegisteredReader(
                {names[column]: self._fields[column] for column in some},
                some,
                settings.format,
                settings.unit,
                schemas=settings.schemas,
                subject=settings.subject,
                stops=settings.stops,
                alone=one,
            )
            for some in _apart(names)
        ]

    def read(
        self, keys: Sequence[bytes | None], refuse: Refuse, unknown: Collection[int] | None
    ) -> tuple[dict[str, pl.Series], tuple[int, ...]]:
        """The columns of all keys (null without a key), and the schema ids that the registry does not know."""
        there = [place for place, key in enumerate(keys) if key is not None]
        if len(there) < len(keys) and (strict := self._strict()):
            for place in np.setdiff1d(np.arange(len(keys)), there).tolist():
                refuse(place, f"{strict}: the record has no key, expected {self._fields[strict]}")
        given = [keys[place] or b"" for place in there]
        found, lacking = dict[str, pl.Series](), set[int]()
        values = given if self._alone is None else [_as_object(key, self._alone) for key in given]
        for reader in self._readers:
            read = reader.read(values, unknown)
            for place, reason in read.refused.items():
                refuse(there[place], f"of its key, {reason}")
            lacking |= set(read.unknown)
            rows = np.full(len(keys), len(read.kept), np.int64)
            rows[np.asarray(there, np.int64)[read.kept]] = np.arange(len(read.kept))
            for column in read.columns:
                found[column.name] = column.extend_constant(None, 1)[rows]
        return {column: found[column] for column in self._fields}, tuple(sorted(lacking))

    def _strict(self) -> str:
        """A column that may not be null; empty if there is none."""
        return next((column for column, text in self._fields.items() if not field_types.nullable(text)), "")


class RegisteredDeletions:
    """A reader of the keys of deletions in a table. See Deletions."""

    def __init__(self, fields: Mapping[str, str], names: Mapping[str, str], settings: KeySettings) -> None:
        self._keys = KeyReader({column: field_types.required(fields[column]) for column in names}, names, settings)

    def decode(
        self, keys: Sequence[bytes | None], timestamps_ms: Sequence[int], unknown: Collection[int] | None = None
    ) -> Decoded:
        refused = dict[int, str]()

        def refuse(place: int, reason: str) -> None:
            refused.setdefault(place, f"a deletion: {reason}")

        columns, lacking = self._keys.read(keys, refuse, unknown)
        return deleted([*columns.values()], timestamps_ms, refused, lacking)


def _apart(names: Mapping[str, str]) -> list[list[str]]:
    """Splits columns into parts in which no two columns hold the same field."""
    parts = list[list[str]]()
    for column, name in names.items():
        part = next((one for one in parts if name not in [names[other] for other in one]), None)
        if part is None:
            parts.append([column])
        else:
            part.append(column)
    return parts


def _as_object(key: bytes, name: str) -> bytes:
    """A JSON value as the only member of an object. A text that is not JSON is unchanged and refused later."""
    value = key[HEADER:]
    if value.lstrip()[:1] == b"{" and name != WHOLE:
        return key
    try:
        _raw(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return key
    return key[:HEADER] + b"{" + msgspec.json.encode(name) + b":" + value + b"}"

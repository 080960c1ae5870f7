"""Deletions in a table's topic: records without a value, whose keys name the deleted row.

The topic's writer chooses the form of keys, so all usual forms are read: the text of the only key column or its JSON, a
JSON object of the key columns, and a JSON array of their values in the order of the table's key (the form written by
holdfast's sinks). A text that could be either counts as JSON. Kafka Connect's forms are read, too: JSON beside its
schema, and the text of a struct; and JSON after the five bytes of a schema registry. An object or array without the key
columns is refused: it would delete nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.decoder import Decoded, Decoder
from holdfast.services.kernel.codecs.fields import TIME, required
from holdfast.services.kernel.codecs.metadata import MetadataColumns, of_keys
from holdfast.services.kernel.codecs.texts import unmarked
from holdfast.services.kernel.plurals import plural

_any = msgspec.json.Decoder().decode
_values = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_CONNECT = {"schema", "payload"}
_STRUCT = re.compile(rb"Struct\{(.*)\}", re.DOTALL)
_REGISTERED = 5
"""The number of bytes that a schema registry's serializers write before a key: 0, and the id of the schema."""
_NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _UnreadableKey(Exception):
    """The reason why a key names no row to delete."""


class Deletions:
    """A reader of the keys of deletions.

    Args:
        fields: the type text of each column of the table.
        key: the key columns.
        unit: the unit of timestamps that are integers.
        origins: by column, its name in the record and the key, if it differs.
    """

    def __init__(
        self,
        fields: Mapping[str, str],
        key: Sequence[str],
        unit: str | None,
        origins: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._key = [origins.get(name, name) for name in key]
        self._kinds = {origins.get(name, name): required(fields[name]) for name in key}
        self._decoder = Decoder({name: fields[name] for name in key}, unit=unit, origins=origins)
        one_text = len(key) == 1 and required(fields[key[0]]) == "string"
        self._texts = _texts(self._key[0]) if one_text else None

    def decode(
        self, keys: Sequence[bytes | None], timestamps_ms: Sequence[int], unknown: Collection[int] | None = None
    ) -> Decoded:
        """Decodes keys: one row of the key columns for each readable key, with the time of its record (0 if it has
        none).
        """
        records, read, refused = list[bytes](), list[int](), list[tuple[int, str]]()
        for index, key in enumerate(keys):
            try:
                records.append(self._record(key))
                read.append(index)
            except _UnreadableKey as error:
                refused.append((index, f"a deletion: {error}"))
        decoded = self._decoder.decode(records, [max(0, timestamps_ms[index]) for index in read])
        refused += [(read[index], f"a deletion: of its key, {reason}") for index, reason in decoded.refused]
        return Decoded(decoded.rows, np.asarray(read, dtype=np.int64)[decoded.kept], sorted(refused))

    def _record(self, key: bytes | None) -> bytes:
        """The key as a JSON object of the key columns; the types of its values are not checked yet."""
        if key is None:
            raise _UnreadableKey("it has no key")
        key = self._bare(key)
        return self._of_values(key) if self._texts is None else self._of_text(self._texts, key)

    def _of_text(self, texts: msgspec.json.Decoder[Any], key: bytes) -> bytes:
        if key.lstrip()[:1] in (b"{", b"["):
            self._check_nested(key)
        try:
            found = texts.decode(key)
            text = found if isinstance(found, str) else found[0] if isinstance(found, tuple) else found.key
        except _NO_JSON:
            try:
                text = key.decode()
            except UnicodeDecodeError as error:
                raise _UnreadableKey(f"its key is not UTF-8: {error.reason}") from None
        return _encode({self._key[0]: text})

    def _bare(self, key: bytes) -> bytes:
        """The key without the wrapping of Kafka Connect or a schema registry."""
        key = _registered(unmarked(key))
        if (struct := _STRUCT.fullmatch(key)) is not None:
            return self._of_struct(struct[1])
        if key.lstrip()[:1] == b"{":
            try:
                found = _members(key)
            except _NO_JSON:
                return key
            if found.keys() == _CONNECT and not _CONNECT.issubset(self._key):
                if (payload := bytes(found["payload"])) == b"null":
                    raise _UnreadableKey("its key is of Kafka Connect, and its payload is null")
                return payload
        return key

    def _of_struct(self, text: bytes) -> bytes:
        """Reads the text of a Connect struct, such as Struct{id=k}. Refuses a text that can be read in two ways."""
        pattern = ",".join(re.escape(name) + "=(.*)" for name in self._key)
        found = re.fullmatch(pattern.encode(), text, re.DOTALL)
        values = () if found is None else found.groups()
        if not values or any(b"," in value for value in values):
            raise _UnreadableKey(f"its key is a Connect struct, Struct{{...}}, not one of {', '.join(self._key)} alone")
        pairs = zip(self._key, values, strict=True)
        return _encode({name: self._value(name, value.decode("utf-8", "replace")) for name, value in pairs})

    def _value(self, name: str, text: str) -> Any:
        """A text of a struct as its JSON value."""
        if self._kinds[name] not in ("int", "float", "bool"):
            return text
        try:
            return msgspec.Raw(_encode(_any(text)))
        except _NO_JSON:
            return text

    def _check_nested(self, key: bytes) -> None:
        """Checks a key of one text: an object must hold the text under the column's name, an array must hold only the
        text.
        """
        try:
            found = _any(key)
        except _NO_JSON:
            return  # a text that begins like one
        name = self._key[0]
        if isinstance(found, dict) and name not in found:
            raise _UnreadableKey(f"its key is a JSON object without '{name}': {', '.join(found) or 'it is empty'}")
        text = found[name] if isinstance(found, dict) else found[0] if len(found) == 1 else None
        if not isinstance(text, str):
            form = "object" if isinstance(found, dict) else "array"
            raise _UnreadableKey(f"its key is a JSON {form} that does not hold one text for '{name}'")

    def _of_values(self, key: bytes) -> bytes:
        try:
            found = _any(key)
        except _NO_JSON:
            found = key.decode("utf-8", "replace")
            if len(self._key) > 1:
                raise _UnreadableKey("its key is no JSON") from None
            return _encode({self._key[0]: found})
        if isinstance(found, dict):
            return key
        values = _values(key) if isinstance(found, list) else [msgspec.Raw(key)]
        if len(values) != len(self._key):
            raise _UnreadableKey(
                f"its key holds {len(values)} of {plural(len(self._key), 'value')}: {', '.join(self._key)}"
            )
        return _encode(dict(zip(self._key, values, strict=True)))


class BareKeys:
    """A reader of deletions in a table whose only key column is the raw key of the record.

    Args:
        name: the name of the column.
        text: its field type.
    """

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._columns = MetadataColumns({name: text}, {name: "key"}, "")

    def decode(
        self, keys: Sequence[bytes | None], timestamps_ms: Sequence[int], unknown: Collection[int] | None = None
    ) -> Decoded:
        """See Deletions.decode."""
        refused = {index: "a deletion: it has no key" for index, key in enumerate(keys) if key is None}

        def refuse(place: int, reason: str) -> None:
            refused.setdefault(place, f"a deletion: {reason}")

        column = self._columns.read(of_keys(keys, timestamps_ms), refuse)[0][self._name]
        return deleted([column], timestamps_ms, refused)


def deleted(
    columns: Sequence[pl.Series],
    timestamps_ms: Sequence[int],
    refused: Mapping[int, str],
    unknown: tuple[int, ...] = (),
) -> Decoded:
    """The rows of the key columns without refused keys, each with the time of its record."""
    times = pl.Series(TIME, np.maximum(np.asarray(timestamps_ms, dtype=np.int64), 0) * 1_000)
    kept = np.setdiff1d(np.arange(len(timestamps_ms)), list(refused))
    return Decoded(pl.DataFrame([*columns, times])[kept], kept, sorted(refused.items()), unknown)


def _registered(key: bytes) -> bytes:
    """The key without the bytes of a schema registry. Raises _UnreadableKey if the rest is not JSON."""
    if key[:1] != b"\0" or len(key) < _REGISTERED:
        return key
    bare = key[_REGISTERED:]
    if bare.lstrip()[:1] in (b"{", b"[", b'"'):
        return bare
    id = int.from_bytes(key[1:_REGISTERED], "big")
    raise _UnreadableKey(
        f"its key begins with the five bytes of a schema registry (schema {id}), and what follows is no JSON, such as "
        "Avro or Protobuf: write keys as text or JSON"
    )


def _texts(name: str) -> msgspec.json.Decoder[Any]:
    """A decoder of a text, an array of one text, or an object with a text under the column's name."""
    named = msgspec.defstruct("Named", [("key", str)], rename={"key": name})
    return msgspec.json.Decoder(str | tuple[str] | named)

"""Metadata of records as columns of a source: key, headers, timestamp, topic, partition and offset.

Source: JOBS "metadata", PROTOCOL 3. Kafka's metadata never changes, so the columns of a batch follow from its cut, like
those of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PolarsError

from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

HEADER = "header."
"""The prefix of a column that holds the value of one header: header.NAME."""
KEY = "key."
"""The prefix of a column that holds a field of the key: key.NAME."""
_PLACES = {"topic": "string", "partition": "int", "offset": "int", "timestamp": "timestamp"}
_TEXTS = ("string", "bytes")
LISTS = {f"list<struct<name: string, value: {kind}?>>": kind for kind in _TEXTS}
"""Types of a column with all headers."""

Headers = Sequence[tuple[str, bytes | None]] | None
Refuse = Callable[[int, str], None]
"""A function that takes a record's position and the reason."""


class Wanted(NamedTuple):
    """Metadata to keep of each record, because a column holds it."""

    keys: bool = False
    headers: bool = False


NOTHING_WANTED = Wanted()


class Metadata(NamedTuple):
    """Metadata of records, side by side.

    partitions: the partition of each record.
    offsets: the offset of each record.
    timestamps_ms: the timestamp of each record; negative: none.
    keys: the key of each record; empty if no column holds keys.
    headers: the headers of each record; empty if no column holds headers.
    """

    partitions: np.ndarray
    offsets: np.ndarray
    timestamps_ms: np.ndarray
    keys: Sequence[bytes | None] = ()
    headers: Sequence[Headers] = ()

    def at(self, places: Sequence[int] | np.ndarray) -> Metadata:
        """The metadata of some records, in the given order."""
        index = np.asarray(places, dtype=np.int64)
        some = index.tolist() if self.keys or self.headers else []
        return Metadata(
            self.partitions[index],
            self.offsets[index],
            self.timestamps_ms[index],
            [self.keys[at] for at in some] if self.keys else (),
            headers=[self.headers[at] for at in some] if self.headers else (),
        )


def of_keys(keys: Sequence[bytes | None], timestamps_ms: Sequence[int]) -> Metadata:
    """Metadata with only keys and timestamps."""
    nowhere = np.zeros(len(keys), dtype=np.int64)
    return Metadata(nowhere, nowhere, np.asarray(timestamps_ms, dtype=np.int64), keys)


class Keys(Protocol):
    """A reader of keys that name their schema."""

    def read(
        self, keys: Sequence[bytes | None], refuse: Refuse, unknown: Collection[int] | None
    ) -> tuple[dict[str, pl.Series], tuple[int, ...]]:
        """The columns of the keys, and the schema ids that the registry does not know."""
        ...


def mistakes(what: str, text: str, key_format: str | None = None) -> Iterator[tuple[str, str]]:
    """Mistakes in the type of a metadata column, each with a hint.

    text: the field type of the column.
    key_format: the format of keys that name their schema.
    """
    kind = field_types.required(text)
    if what.startswith(KEY) and key_format is None:
        yield "only a key of a Schema Registry has fields", "`key_format` says how it is written"
    if what == "key" and key_format == "protobuf":
        yield "a key of protobuf is a message", "metadata: key.NAME, a field of it"
    if key_format is not None and (what == "key" or what.startswith(KEY)):
        return
    if what in _PLACES and kind != _PLACES[what]:
        yield f"the {what} of a record is of type {_PLACES[what]}", f"type: {_PLACES[what]}"
    elif what == "headers" and field_types.dtype(text) not in map(field_types.dtype, LISTS):
        yield "headers are a list with the name and the value of each", f'type: "{next(iter(LISTS))}"'
    elif (what == "key" or what.startswith(HEADER)) and kind not in _TEXTS:
        hint = f"type: string?, and CAST(... AS {_CASTS.get(kind, 'BIGINT')}) in a select"
        yield f"a {what.partition('.')[0]} is text or bytes", hint


_CASTS = {"float": "DOUBLE", "bool": "BOOLEAN", "timestamp": "TIMESTAMP", "date": "DATE"}


class MetadataColumns:
    """A reader of the metadata columns of one source.

    Args:
        fields: the type text of each column.
        named: by column, its metadata.
        topic: the topic of the source.
        keys: a reader of keys that name their schema; None: keys are text or bytes.
    """

    def __init__(
        self, fields: Mapping[str, str], named: Mapping[str, str], topic: str, keys: Keys | None = None
    ) -> None:
        self._keys = keys
        self._kinds = {name: fields[name] for name in named}
        self._named = dict(named)
        self._topic = topic
        self.names = frozenset(named)
        self.wanted = Wanted(
            any(what == "key" or what.startswith(KEY) for what in named.values()),
            any(what == "headers" or what.startswith(HEADER) for what in named.values()),
        )

    def read(
        self, records: Metadata, refuse: Refuse, unknown: Collection[int] | None = None
    ) -> tuple[dict[str, pl.Series], tuple[int, ...]]:
        """The metadata columns of all records, and the schema ids that the registry does not know. A record with null
        in a column that may not be null is refused.

        unknown: see RegisteredReader.
        """
        found, lacking = dict[str, pl.Series](), tuple[int, ...]()
        if self._keys is not None:
            found, lacking = self._keys.read(records.keys, refuse, unknown)
        apart = {name: what for name, what in self._named.items() if name not in found}
        return found | {name: self._column(name, what, records, refuse) for name, what in apart.items()}, lacking

    def _column(self, name: str, what: str, records: Metadata, refuse: Refuse) -> pl.Series:
        text = self._kinds[name]
        if what == "topic":
            found = pl.Series(name, [self._topic], dtype=pl.String).new_from_index(0, len(records.offsets))
        elif what == "partition":
            found = pl.Series(name, records.partitions, dtype=pl.Int64)
        elif what == "offset":
            found = pl.Series(name, records.offsets, dtype=pl.Int64)
        elif what == "timestamp":
            found = _timestamps(name, records.timestamps_ms)
        elif what == "headers":
            return self._headers(name, records.headers, refuse)
        else:
            header = what.removeprefix(HEADER)
            values = records.keys if what == "key" else [dict(one or ()).get(header) for one in records.headers]
            found = _texts(name, pl.Series(name, values, dtype=pl.Binary), text, refuse)
        if not field_types.nullable(text) and found.null_count():
            which = "no header " + what.removeprefix(HEADER) if what.startswith(HEADER) else f"no {what}"
            for place in found.is_null().arg_true().to_list():
                refuse(place, f"{name}: the record has {which}, expected {text}")
        return found

    def _headers(self, name: str, headers: Sequence[Headers], refuse: Refuse) -> pl.Series:
        """All headers of each record, in order."""
        kind: Any = field_types.dtype(self._kinds[name])
        pairs = list(chain.from_iterable(one or () for one in headers))
        bounds = np.cumsum([0, *(len(one or ()) for one in headers)])
        text = "string?" if kind.inner.fields[1].dtype == pl.String else "bytes?"

        def refuse_record(place: int, reason: str) -> None:
            refuse(int(np.searchsorted(bounds, place, side="right")) - 1, reason)

        values = _texts(name, pl.Series([value for _, value in pairs], dtype=pl.Binary), text, refuse_record)
        names = pl.Series([one for one, _ in pairs], dtype=pl.String)
        items = pa.StructArray.from_arrays([names.to_arrow(), values.to_arrow()], names=["name", "value"])
        return pl.Series(name, pa.LargeListArray.from_arrays(pl.Series(bounds).to_arrow(), items), dtype=kind)


def _texts(name: str, values: pl.Series, text: str, refuse: Refuse) -> pl.Series:
    """The bytes unchanged, or decoded as UTF-8."""
    if field_types.required(text) == "bytes":
        return values
    try:
        return values.cast(pl.String)
    except PolarsError:  # some are no UTF-8
        found = [None if value is None else _text(value) for value in values.to_list()]
    for place, one in enumerate(found):
        if one is None and values[place] is not None:
            refuse(place, f"{name}: expected {text}, found bytes that are no UTF-8: type: bytes takes them")
    return pl.Series(name, found, dtype=pl.String)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _timestamps(name: str, milliseconds: np.ndarray) -> pl.Series:
    """The timestamps; null for a record without one, or with one outside the years 1 to 9999."""
    times = pl.Series(name, milliseconds, dtype=pl.Int64)
    known = pl.col(name).is_between(max(0, OLDEST_US // 1_000), NEWEST_US // 1_000)
    micros = pl.when(known).then(pl.col(name) * 1_000).cast(pl.Datetime("us", "UTC"))
    return times.to_frame().select(micros.alias(name))[name]

"""Protobuf records of one registered schema: after the schema's id, a record names its message of the schema.

The message is named by the number of indexes and the indexes, all zigzag; a single byte 0 means the first message.
Source: Confluent's documentation, "Wire format".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.protobuf_records import MessageReader, Unresolved
from holdfast.services.kernel.codecs.protobuf_schemas import NoSchema, message, parse

_HEADER = 5
_FIRST = (0,)
MAX_INDEXES = 32
Path = tuple[int, ...]


class Messages:
    """A reader of the records of a schema.

    Args:
        called: the name of the schema for messages.
        text: the compiled file of its messages, see protobuf_schemas.py.
        fields: the type text of each field, by its name in the record.
        unit: the unit of timestamps that are plain integers.

    Raises:
        NoSchema: no record of the schema can be read.
    """

    def __init__(self, called: str, text: str, fields: Mapping[str, str], unit: str | None) -> None:
        self._called = called
        self._file = parse(text)
        self._fields = dict(fields)
        self._unit = unit
        self._readers: dict[Path, MessageReader | str] = {}

    def read(
        self, values: Sequence[bytes], rows: np.ndarray, refused: dict[int, str]
    ) -> Iterator[tuple[list[pl.Series], np.ndarray]]:
        """Yields the columns of the records of each message type, and their positions.

        rows: the positions of the values, for refusals.
        """
        for path, bodies, at, skip in self._by_message(values, rows, refused):
            reader = self._reader(path)
            if isinstance(reader, str):
                refused |= dict.fromkeys(at.tolist(), reader)
                continue
            columns, unfit = reader.read(bodies, skip)
            refused |= {int(at[place]): reason for place, reason in unfit.items()}
            yield columns, at

    def _by_message(
        self, values: Sequence[bytes], rows: np.ndarray, refused: dict[int, str]
    ) -> Iterator[tuple[Path, Sequence[bytes], np.ndarray, int]]:
        """Yields the bodies of each message type, their positions, and the number of bytes to skip in each body."""
        if values:
            heads = [
                one[: _HEADER + 1] for one in (min(values), max(values))
            ]  # a common begin of both is common to all
            if heads[0] == heads[1] and heads[0][_HEADER:] == b"\0":
                yield _FIRST, values, rows, _HEADER + 1
                return
        bodies, places = defaultdict[Path, list[bytes]](list), defaultdict[Path, list[int]](list)
        for value, row in zip(values, rows.tolist(), strict=True):
            found = _indexes(value)
            if found is None:
                refused[row] = "ends within the numbers that name its message, or has none"
                continue
            path, begin = found
            bodies[path].append(value[begin:])
            places[path].append(row)
        for path, some in bodies.items():
            yield path, some, np.asarray(places[path], dtype=np.int64), 0

    def _reader(self, path: Path) -> MessageReader | str:
        if path not in self._readers:
            try:
                self._readers[path] = MessageReader(message(self._file, path), self._fields, self._unit)
            except (NoSchema, Unresolved) as error:
                self._readers[path] = f"{self._called} {error}"
        return self._readers[path]


def _indexes(value: bytes) -> tuple[Path, int] | None:
    """The path of the message, and the position at which it begins; None if the path is invalid."""
    count, at = _number(value, _HEADER)
    if count == 0:
        return _FIRST, at
    if not 0 < count <= MAX_INDEXES:
        return None
    path = []
    for _ in range(count):
        index, at = _number(value, at)
        if index < 0:
            return None
        path.append(index)
    return tuple(path), at


def _number(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of at most five bytes, and its end; -1 if there is none."""
    found = 0
    for place in range(at, min(at + 5, len(value))):
        byte = value[place]
        found |= (byte & 0x7F) << 7 * (place - at)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
    return -1, at

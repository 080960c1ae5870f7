"""The bytes of many Protobuf messages, with each field read for all messages at once.

It reads the form that serializers write: known fields in the order of their numbers, each at most once. Messages in any
other valid form go to the library, one by one; both readers give equal values. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from holdfast.services.kernel.codecs.avro_bytes import is_text
from holdfast.services.kernel.codecs.protobuf_schemas import MESSAGE, TIMESTAMP, is_repeated, is_required
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_PADDING = bytes(16)
"""A number that begins in the last message ends within this padding."""
_MOST_BYTES = 10
_SECOND = 1_000_000
Rows = np.ndarray


class Stretch:
    """The bytes of messages with their read positions.

    at: the position at which each message is read next.
    end: the end of each message.
    odd: True for the messages left to the library.
    """

    def __init__(self, values: Sequence[bytes], skip: int = 0) -> None:
        """Joins the messages.

        skip: the number of bytes to skip before each message.
        """
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self.bytes = np.frombuffer(b"".join([*values, _PADDING]), np.uint8)
        self.end = np.cumsum(lengths)
        self.at = self.end - lengths + skip
        self.odd = np.zeros(len(values), np.bool_)

    def strange(self, rows: Rows) -> None:
        """Leaves these messages to the library."""
        self.odd[rows] = True
        self.at[rows] = self.end[rows]

    def tagged(self, tag: bytes, among: Rows) -> Rows:
        """The messages whose next field has this tag; moves behind the tag."""
        at = self.at[among]
        found = at + len(tag) <= self.end[among]
        for place, byte in enumerate(tag):
            found &= self.bytes[at + place] == byte  # the padding is longer than a tag
        rows: Rows = among[found]
        self.at[rows] += len(tag)
        return rows

    def numbers(self, rows: Rows) -> np.ndarray:
        """Reads a number of each message, seven bits a byte."""
        begin = self.at[rows]
        first = self.bytes[begin]
        found: np.ndarray = (first & 0x7F).astype(np.uint64)
        stop = begin + 1
        more, shift = np.flatnonzero(first >= 0x80), 7
        while more.size and shift < 7 * _MOST_BYTES:
            last = self.bytes[stop[more]]
            found[more] |= (last & 0x7F).astype(np.uint64) << np.uint64(shift)
            stop[more] += 1
            ended = last < 0x80
            if shift == 7 * (_MOST_BYTES - 1):
                self.strange(rows[more[last > 1]])
            more, shift = more[~ended], shift + 7
        self._moved(rows, stop)
        return found

    def fixed(self, rows: Rows, width: int) -> np.ndarray:
        """Reads `width` bytes of each message, as one line of a matrix each."""
        begin = self.at[rows]
        self._moved(rows, begin + width)
        return np.ascontiguousarray(self.bytes[begin[:, None] + np.arange(width)])

    def texts(self, rows: Rows, kind: pa.DataType) -> pa.Array:
        """Reads a text, or bytes, of each message; empty for a message left to the library."""
        lengths = self.numbers(rows).astype(np.int64)
        begin, end = self.at[rows], self.end[rows]
        lengths = np.where((lengths < 0) | (lengths > len(self.bytes)) | self.odd[rows], len(self.bytes), lengths)
        stop = np.minimum(begin + lengths, end)
        self.strange(rows[begin + lengths > end])
        self.at[rows] = stop
        sizes = stop - begin
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        where = np.repeat(begin - offsets[:-1], sizes)
        where += np.arange(offsets[-1])
        content = self.bytes[where]
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(content)])

    def _moved(self, rows: Rows, stop: np.ndarray) -> None:
        """Moves the positions to `stop`. Messages that end earlier become odd; odd ones stay at their end."""
        wrong = (stop > self.end[rows]) | self.odd[rows]
        self.at[rows] = stop
        if wrong.any():
            self.strange(rows[wrong])


Read = Callable[[Stretch, Rows], pa.Array]
"""Reads a value of each message; arbitrary for an odd message."""


class PlainField(NamedTuple):
    """A field that can be read for all messages at once.

    name: the name of the field.
    tag: the bytes of its tag.
    read: reads its values.
    absent: its value if it is not written.
    """

    name: str
    tag: bytes
    read: Read
    absent: object


def plain_fields(of: Descriptor) -> list[PlainField] | None:
    """The fields of a message type in the order of their numbers; None if some are not plain."""
    found = [_plain(one) for one in sorted(of.fields, key=lambda field: int(field.number))]
    return None if any(one is None for one in found) or of.is_extendable else [one for one in found if one is not None]


def read_plain(stretch: Stretch, fields: Sequence[PlainField]) -> dict[str, pl.Series]:
    """The values of each field for all messages. Values of an odd message (see `stretch.odd`) are arbitrary."""
    found: dict[str, pl.Series] = {}
    every = np.arange(len(stretch.at))
    for field in fields:
        rows = stretch.tagged(field.tag, every)
        values = pl.Series(field.read(stretch, rows))
        if len(rows) < len(stretch.at):
            places = np.full(len(stretch.at), len(rows), np.int64)
            places[rows] = np.arange(len(rows))
            values = values.append(pl.Series([field.absent], dtype=values.dtype)).gather(places)
        found[field.name] = values
    stretch.odd |= stretch.at != stretch.end
    return found


def _plain(field: FieldDescriptor) -> PlainField | None:
    choice = field.containing_oneof
    if is_repeated(field) or is_required(field) or (choice is not None and len(choice.fields) > 1):
        return None
    if field.cpp_type == MESSAGE:
        if field.message_type.full_name != TIMESTAMP:
            return None
        return PlainField(field.name, _tag(field.number, 2), _moments, None)
    kind = _KINDS.get(field.type)
    if kind is None:
        return None
    wire, read, default = kind
    return PlainField(field.name, _tag(field.number, wire), read, None if field.has_presence else default)


def _tag(number: int, wire: int) -> bytes:
    left, found = number << 3 | wire, bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _within(lowest: int, highest: int) -> Read:
    """A reader of numbers of a range. The encoding may hold numbers outside it, which the library truncates."""

    def read(stretch: Stretch, rows: Rows) -> pa.Array:
        found = stretch.numbers(rows).view(np.int64)
        stretch.strange(rows[(found < lowest) | (found > highest)])
        return pa.array(found)

    return read


def _zigzag(lowest: int, highest: int) -> Read:
    def read(stretch: Stretch, rows: Rows) -> pa.Array:
        given = stretch.numbers(rows)
        found = (given >> np.uint64(1)).view(np.int64) ^ -(given & np.uint64(1)).view(np.int64)
        stretch.strange(rows[(found < lowest) | (found > highest)])
        return pa.array(found)

    return read


def _line(width: int, kind: str, of: type[np.generic]) -> Read:
    def read(stretch: Stretch, rows: Rows) -> pa.Array:
        with np.errstate(invalid="ignore"):  # a signalling NaN in the data makes numpy warn
            found = stretch.fixed(rows, width).view(kind).reshape(len(rows))
            return pa.array(found.astype(of))

    return read


def _fixed_unsigned(stretch: Stretch, rows: Rows) -> pa.Array:
    found = stretch.fixed(rows, 8).view("<i8").reshape(len(rows))
    stretch.strange(rows[found < 0])
    return pa.array(found)


def _booleans(stretch: Stretch, rows: Rows) -> pa.Array:
    found = stretch.numbers(rows)
    stretch.strange(rows[found > 1])
    return pa.array(found == 1)


def _texts(stretch: Stretch, rows: Rows) -> pa.Array:
    array = stretch.texts(rows, pa.large_string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.view(pa.large_binary()).to_pylist()
        wrong = np.asarray([not is_text(value) for value in values])
        stretch.strange(rows[wrong])
        kept = [b"" if odd else value for value, odd in zip(values, wrong.tolist(), strict=True)]
        return pa.array(kept, pa.large_binary()).cast(pa.large_string())
    return array


def _binaries(stretch: Stretch, rows: Rows) -> pa.Array:
    return stretch.texts(rows, pa.large_binary())


def _moments(stretch: Stretch, rows: Rows) -> pa.Array:
    """Reads times of Timestamp messages: seconds and nanoseconds; a zero is not written."""
    sizes = stretch.numbers(rows).astype(np.int64)
    begin, whole = stretch.at[rows], stretch.end
    stop = np.where((sizes < 0) | (sizes > 22) | stretch.odd[rows], -1, begin + sizes)
    stretch.strange(rows[(stop < 0) | (stop > whole[rows])])
    stop = np.where(stretch.odd[rows], whole[rows], stop)
    stretch.end = whole.copy()
    stretch.end[rows] = stop
    parts = []
    for tag in (b"\x08", b"\x10"):
        number = np.zeros(len(whole), np.int64)
        some = stretch.tagged(tag, rows)
        number[some] = stretch.numbers(some).view(np.int64)
        parts.append(number[rows])
    stretch.end = whole
    seconds, nanos = parts
    wrong = (
        (seconds < OLDEST_US // _SECOND) | (seconds > NEWEST_US // _SECOND) | (nanos < 0) | (nanos >= 1_000 * _SECOND)
    )
    stretch.strange(rows[wrong | (stretch.at[rows] != stop)])
    return pa.array(np.where(wrong, 0, seconds * _SECOND + nanos // 1_000)).cast(pa.timestamp("us", "UTC"))


_INT64, _INT32 = _within(-(2**63), 2**63 - 1), _within(-(2**31), 2**31 - 1)
_KINDS: dict[int, tuple[int, Read, object]] = {
    1: (1, _line(8, "<f8", np.float64), 0.0), 2: (5, _line(4, "<f4", np.float64), 0.0), 3: (0, _INT64, 0),
    4: (0, _within(0, 2**63 - 1), 0), 5: (0, _INT32, 0), 6: (1, _fixed_unsigned, 0),
    7: (5, _line(4, "<u4", np.int64), 0), 8: (0, _booleans, False), 9: (2, _texts, ""), 12: (2, _binaries, b""),
    13: (0, _within(0, 2**32 - 1), 0), 15: (5, _line(4, "<i4", np.int64), 0), 16: (1, _line(8, "<i8", np.int64), 0),
    17: (0, _zigzag(-(2**31), 2**31 - 1), 0), 18: (0, _zigzag(-(2**63), 2**63 - 1), 0),
}  # fmt: skip
"""By type number (TYPE_DOUBLE = 1 and so on): the wire type of a field, its reader, and its value if it is not written.
"""

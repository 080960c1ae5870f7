"""The bytes of many Avro records, read side by side: each record has a position from which reading continues.

A record that is cut short, or that does not fit its schema, is refused with a reason and read as nothing from there on.
No byte outside a record is read. Source: Avro specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

Rows = np.ndarray
"""Numbers of records, each at most once."""
_PADDING = bytes(16)
"""A number that begins in the last record ends within this padding."""


class Records:
    """Records with their read positions.

    at: the position at which each record is read next.
    end: the end of each record.
    items: the number of list items read of each record.
    refused: the reason for each refused record.
    """

    def __init__(self, values: Sequence[bytes | None], header: int = 0) -> None:
        lengths = np.fromiter((len(value or b"") for value in values), np.int64, len(values))
        self.bytes = np.frombuffer(b"".join([*(value or b"" for value in values), _PADDING]), np.uint8)
        self.end = np.cumsum(lengths)
        self.start = self.end - lengths
        self.at = np.minimum(self.start + header, self.end)
        self.items = np.zeros(len(values), np.int64)
        self.refused: dict[int, str] = {}

    def refuse(self, rows: Rows, reason: str) -> None:
        """Refuses records; the first reason counts, and the rest of these records is skipped."""
        for row in rows.tolist():
            self.refused.setdefault(row, reason)
        self.at[rows] = self.end[rows]

    def numbers(self, rows: Rows, path: str) -> np.ndarray:
        """Reads a zigzag number of each record; 0 for a refused record."""
        begin = self.at[rows]
        first = self.bytes[begin]
        found, stop = (first & 0x7F).astype(np.uint64), begin + 1
        more, shift = np.flatnonzero(first >= 0x80), 7
        while more.size:
            byte = self.bytes[stop[more]]
            if shift == 63 and (wide := more[byte > 1]).size:
                self.refuse(rows[wide], f"{path}: a number of more than 64 bits")
                found[wide], stop[wide] = 0, self.end[rows[wide]]
                more, byte = more[byte <= 1], byte[byte <= 1]
            found[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            stop[more] += 1
            more, shift = more[byte >= 0x80], shift + 7
        found = self._ended(rows, stop, found, path)
        return (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(np.int64)

    def fixed(self, rows: Rows, width: int, path: str) -> np.ndarray:
        """Reads `width` bytes of each record, as one line of a matrix each."""
        begin = self.at[rows]
        self._ended(rows, begin + width, None, path)
        short = self.end[rows] - begin < width
        begin = np.where(short, len(self.bytes) - len(_PADDING), begin) if width <= len(_PADDING) else begin
        if width > len(_PADDING) and short.any():
            found = np.zeros((len(rows), width), np.uint8)
            found[~short] = self.bytes[begin[~short, None] + np.arange(width)]
            return found
        return self.bytes[begin[:, None] + np.arange(width)]

    def pieces(self, rows: Rows, path: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns begin and length of a text, or of bytes, of each record; moves behind it."""
        lengths = self.numbers(rows, path)
        begin = self.at[rows]
        wrong = (lengths < 0) | (lengths > self.end[rows] - begin)
        if wrong.any():
            self.refuse(rows[wrong & (lengths < 0)], f"{path}: a length below 0")
            self.refuse(rows[wrong], f"{path}: the record ends within it")
            lengths = np.where(wrong, 0, lengths)
            begin = self.at[rows]
        self.at[rows] = begin + lengths
        return begin, lengths

    def gathered(self, begin: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bytes of all pieces in a row, and the offset of each piece, with the end of the last."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        where = np.repeat(begin - offsets[:-1], lengths)
        where += np.arange(offsets[-1])
        return self.bytes[where], offsets

    def _ended(self, rows: Rows, stop: np.ndarray, found: np.ndarray | None, path: str) -> np.ndarray:
        """Moves the positions to `stop`. Refuses records that end earlier, and sets their values to 0."""
        end = self.end[rows]
        short = stop > end
        self.at[rows] = stop
        if short.any():
            self.refuse(rows[short], f"{path}: the record ends within it")
            if found is not None:
                found = np.where(short, np.uint64(0), found)
        return stop if found is None else found


def texts(records: Records, rows: Rows, path: str) -> pa.Array:
    """Reads a text of each record; refuses a record whose text is not UTF-8."""
    begin, lengths = records.pieces(rows, path)
    array = _pieces(records, begin, lengths, pa.large_string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        wrong = np.asarray([not is_text(value) for value in array.view(pa.large_binary()).to_pylist()])
        records.refuse(rows[wrong], f"{path}: a text is not UTF-8")
        array = _pieces(records, begin, np.where(wrong, 0, lengths), pa.large_string())
    return array


def binaries(records: Records, rows: Rows, path: str) -> pa.Array:
    """Reads bytes of each record."""
    return _pieces(records, *records.pieces(rows, path), pa.large_binary())


def _pieces(records: Records, begin: np.ndarray, lengths: np.ndarray, kind: pa.DataType) -> pa.Array:
    content, offsets = records.gathered(begin, lengths)
    return pa.Array.from_buffers(kind, len(begin), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


Read = Callable[[Records, Rows], pa.Array]
"""Reads a value of each record as an Arrow array of the stream's type, and moves behind it."""
Pass = Callable[[Records, Rows], None]
"""Moves behind a value of each record without reading it."""

"""Encoding of columns: the values of all rows at once, into one buffer that is then cut into records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

Write = Callable[[np.ndarray, np.ndarray], None]
"""Writes values into a buffer, each at its position."""


class Piece(NamedTuple):
    """The encoded values of one column.

    lengths: the number of bytes of each value.
    write: writes the values into a buffer.
    """

    lengths: np.ndarray
    write: Write


def cut(whole: Piece) -> list[bytes]:
    """The bytes of each value."""
    ends = np.cumsum(whole.lengths)
    buffer = np.zeros(int(ends[-1]), np.uint8)
    whole.write(buffer, ends - whole.lengths)
    written, stops = buffer.tobytes(), ends.tolist()
    return [written[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def constant(value: bytes, count: int) -> Piece:
    """A piece of `count` equal values."""
    return fixed(np.tile(np.frombuffer(value, np.uint8), (count, 1)))


def fixed(lines: np.ndarray) -> Piece:
    """Values of equal width, given as lines of bytes."""
    count, width = lines.shape

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        for place in range(width):
            buffer[at + place] = lines[:, place]

    return Piece(np.full(count, width, np.int64), write)


def floats(values: pl.Series) -> Piece:
    """Floats as eight bytes, lowest first."""
    return fixed(np.ascontiguousarray(values.to_numpy()).astype("<f8").view(np.uint8).reshape(-1, 8))


def booleans(values: pl.Series) -> Piece:
    """Booleans as one byte."""
    return fixed(values.to_numpy().astype(np.uint8).reshape(-1, 1))


def numbers(values: np.ndarray) -> Piece:
    """Unsigned numbers, seven bits a byte, lowest first."""
    plain = values.astype(np.uint64)
    lengths = np.ones(len(plain), np.int64)
    for bits in range(7, 64, 7):
        lengths += plain >> np.uint64(bits) != 0

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        for place in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > place)
            byte = (plain[rows] >> np.uint64(7 * place) & np.uint64(0x7F)).astype(np.uint8)
            buffer[at[rows] + place] = byte | np.where(lengths[rows] > place + 1, 0x80, 0).astype(np.uint8)

    return Piece(lengths, write)


def signed(values: np.ndarray) -> np.ndarray:
    """The zigzag numbers of signed numbers."""
    whole = values.astype(np.int64)
    return (whole << np.int64(1)).astype(np.uint64) ^ (whole >> np.int64(63)).astype(np.uint64)


def texts(values: pl.Series) -> tuple[np.ndarray, Piece]:
    """The lengths of texts or bytes, and the bytes."""
    arrow = values.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, content = arrow.buffers()
    offsets = np.frombuffer(bounds, np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    sizes = np.diff(offsets)

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        if total := int(sizes.sum()):
            where = np.repeat(at - (offsets[:-1] - offsets[0]), sizes) + np.arange(total)
            buffer[where] = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]

    return sizes, Piece(sizes, write)


def joined(pieces: Sequence[Piece]) -> Piece:
    """The values of several pieces joined row by row."""
    lengths = np.sum([one.lengths for one in pieces], axis=0)

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        place = at.copy()
        for one in pieces:
            one.write(buffer, place)
            place += one.lengths

    return Piece(lengths, write)


def spread(piece: Piece, where: np.ndarray, count: int) -> Piece:
    """The values at the positions `where` among `count` rows; the other rows are empty."""
    lengths = np.zeros(count, np.int64)
    lengths[where] = piece.lengths
    return Piece(lengths, lambda buffer, at: piece.write(buffer, at[where]))


def grouped(items: Piece, sizes: np.ndarray) -> Piece:
    """The items of each list joined.

    sizes: the number of items of each list.
    """
    first = np.cumsum(sizes) - sizes
    ends = np.concatenate([[0], np.cumsum(items.lengths)]).astype(np.int64)

    def write(buffer: np.ndarray, at: np.ndarray) -> None:
        items.write(buffer, np.repeat(at - ends[first], sizes) + ends[:-1])

    return Piece(ends[first + sizes] - ends[first], write)

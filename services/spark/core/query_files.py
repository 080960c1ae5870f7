"""The files of a query's checkpoint in Kafka, as the driver that sends them and those that receive them count."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from holdfast.schemas.query_files import PIECE_BYTES, FileId

SUMS = 2**53
"""Sums are numbers below this one, which a record holds as a count."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in Kafka.

    Attributes:
        pieces: number of its pieces.
        sum: over its pieces; the sum of each piece counts once for its index.
    """

    id: FileId
    pieces: int
    sum: int

    def share(self, path: str) -> int:
        """Its share of the digest of a checkpoint that has it at this path."""
        text = f"{path}/{self.id.writer}/{self.id.number}/{self.pieces}/{self.sum}"
        return sum_of(text.encode())


def sum_of(content: bytes) -> int:
    return xxhash.xxh3_64_intdigest(content) % SUMS


def sum_with(sum: int, index: int, of_piece: int) -> int:
    """The sum of a file with one piece more; the order does not matter."""
    return (sum + of_piece * (2 * index + 1)) % SUMS


def pieces_of(size: int) -> int:
    """The number of pieces of a file; an empty file has one."""
    return max(1, -(-size // PIECE_BYTES))

"""Records that could not be processed, with their position and the reason.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.schemas.reading import Strict

MAX_RAW_BYTES = 512 * 1024


class Position(NamedTuple):
    """The place of a record in a user's topic."""

    topic: str
    partition: int
    offset: int


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """origin: the source or operator that refused it. For a source: topic, partition, offset and the raw bytes
    (base64, cut at 512 KiB). For an operator: the row, and topic, partition and offset of the record that it came of,
    or in `unnamed` why no record is named.
    """

    origin: str
    reason: str
    batch: int
    topic: str = ""
    partition: int = -1
    offset: int = -1
    raw: bytes = b""
    truncated: bool = False
    row: str = ""
    unnamed: str = ""

    @property
    def of_operator(self) -> bool:
        """True if it stands for a row of an operator, not for a record."""
        return bool(self.row) or not self.topic


NOWHERE = Position("", -1, -1)


def of_row(
    origin: str, reason: str, batch: int, row: str, position: Position = NOWHERE, unnamed: str = ""
) -> DeadLetter:
    """The letter for a row that an operator refused. unnamed: why there is no position."""
    return DeadLetter(origin, reason, batch, *position, row=row, unnamed=unnamed)


def of_record(origin: str, reason: str, batch: int, topic: str, partition: int, offset: int, raw: bytes) -> DeadLetter:
    """The letter for a record that a source refused; raw: its value, of which the letter keeps the beginning."""
    kept, truncated = raw[:MAX_RAW_BYTES], len(raw) > MAX_RAW_BYTES
    return DeadLetter(origin, reason, batch, topic, partition=partition, offset=offset, raw=kept, truncated=truncated)


class Replayed(msgspec.Struct, frozen=True):
    """Up to where dead letters were sent back to their topics: those below these offsets.

    upto: of records refused for the first time; again: of records that had been sent back and were refused again.
    """

    upto: int = 0
    again: int = 0


_decoder = Strict(msgspec.json.Decoder(DeadLetter).decode)
_replayed_decoder = Strict(msgspec.json.Decoder(Replayed).decode)


def decode(data: bytes) -> DeadLetter:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def decode_replayed(data: bytes) -> Replayed:
    """Raises msgspec.DecodeError on anything else."""
    return _replayed_decoder.decode(data)


def encode(record: DeadLetter | Replayed) -> bytes:
    return msgspec.json.encode(record)

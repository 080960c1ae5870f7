"""Records that could not be processed, with their position and the reason.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.schemas.decoders import Strict

MAX_RAW_BYTES = 512 * 1024


class Position(NamedTuple):
    """The place of a record in a user's topic."""

    topic: str
    partition: int
    offset: int


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record or row that could not be processed.

    origin: the source or operator that refused it.
    topic, partition, offset: position of the record, or of the record that the row comes from.
    raw: of a source, the bytes of the record (base64, cut at 512 KiB).
    row: of an operator, the row.
    unnamed: why no record is named.
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
        """True if the letter is for a row of an operator, not for a record."""
        return bool(self.row) or not self.topic


NOWHERE = Position("", -1, -1)


def of_row(
    origin: str, reason: str, batch: int, row: str, position: Position = NOWHERE, unnamed: str = ""
) -> DeadLetter:
    """Returns the letter for a row that an operator refused.

    unnamed: why there is no position.
    """
    return DeadLetter(origin, reason, batch, *position, row=row, unnamed=unnamed)


def of_record(origin: str, reason: str, batch: int, topic: str, partition: int, offset: int, raw: bytes) -> DeadLetter:
    """Returns the letter for a record that a source refused.

    raw: its value, of which the letter keeps the beginning.
    """
    kept, truncated = raw[:MAX_RAW_BYTES], len(raw) > MAX_RAW_BYTES
    return DeadLetter(origin, reason, batch, topic, partition=partition, offset=offset, raw=kept, truncated=truncated)


class Replayed(msgspec.Struct, frozen=True):
    """The offsets up to which dead letters were sent back to their topics.

    upto: of records refused for the first time.
    again: of records that had been sent back and were refused again.
    """

    upto: int = 0
    again: int = 0


_decoder = Strict(msgspec.json.Decoder(DeadLetter).decode)
_replayed_decoder = Strict(msgspec.json.Decoder(Replayed).decode)


def decode(data: bytes) -> DeadLetter:
    """Decodes a dead letter. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def decode_replayed(data: bytes) -> Replayed:
    """Decodes the offsets of resent dead letters. Raises msgspec.DecodeError on malformed bytes."""
    return _replayed_decoder.decode(data)


def encode(record: DeadLetter | Replayed) -> bytes:
    return msgspec.json.encode(record)

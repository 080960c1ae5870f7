"""The position record inside a sink's transaction: the last batch whose rows are committed.

Source: PROTOCOL 9; of tentative rows, PROTOCOL 11.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.checkpoints import Position
from holdfast.schemas.decoders import Count, Strict

NO_ROW = b"null"
"""JSON of a sink's record without a value."""


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of a unit: it has committed the rows of every batch up to `batch`.

    too_large: number of rows, so far, that were too large for their sink's topic and went to the dead letters.
    tentative: the last batch of which tentative rows were published.
    since: positions in the sinks' topics at which the open tentative rows begin; empty: all are closed.
    staged: by sink task, the files that count with this record and may not be in their folder yet.
    """

    unit: str
    batch: Count
    epoch: Count
    too_large: Count = msgspec.field(default=0, name="aside")
    tentative: Count = 0
    since: tuple[Position, ...] = ()
    staged: dict[str, str] = {}

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the records of one unit in their order."""
        return self.batch, self.tentative


_decoder = Strict(msgspec.json.Decoder(Delivered).decode)


def decode(data: bytes) -> Delivered:
    """Decodes a position. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: Delivered) -> bytes:
    return msgspec.json.encode(record)

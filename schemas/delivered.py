"""The position record inside a sink's transaction: the last batch whose rows are committed.

Source: PROTOCOL 9; of tentative rows, PROTOCOL 11.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.checkpoints import Position
from holdfast.schemas.reading import Count, Strict

NO_ROW = b"null"
"""A record of a sink that has no value, as JSON."""


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Unit `unit` has committed the rows of every batch up to `batch`.

    too_large: so many rows were too large for their sink's topic until then, and went to the dead letters instead.
    tentative: the last batch of which tentative rows were published. since: where in the sinks' topics those tentative
    rows begin that are not closed; empty: all are.
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
        """Each record of a unit is behind those before it."""
        return self.batch, self.tentative


_decoder = Strict(msgspec.json.Decoder(Delivered).decode)


def decode(data: bytes) -> Delivered:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: Delivered) -> bytes:
    return msgspec.json.encode(record)

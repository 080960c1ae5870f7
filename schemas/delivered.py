"""The position record inside a sink's transaction: the last batch whose rows are committed.

Source: PROTOCOL 9.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.reading import Count, Strict


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Unit `unit` has committed the rows of every batch up to `batch`.

    too_large: so many rows were too large for their sink's topic until then, and went to the dead letters instead.
    """

    unit: str
    batch: Count
    epoch: Count
    too_large: Count = msgspec.field(default=0, name="aside")


_decoder = Strict(msgspec.json.Decoder(Delivered).decode)


def decode(data: bytes) -> Delivered:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: Delivered) -> bytes:
    return msgspec.json.encode(record)

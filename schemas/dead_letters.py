"""Records that could not be processed, with their position and the reason.

Source: PROTOCOL 3.
"""

from __future__ import annotations

import msgspec

MAX_RAW_BYTES = 512 * 1024


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """origin: the source or operator that refused it. For a source: topic, partition, offset and the raw bytes
    (base64, cut at 512 KiB). For an operator: the row.
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


_decoder = msgspec.json.Decoder(DeadLetter)


def decode(data: bytes) -> DeadLetter:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: DeadLetter) -> bytes:
    return msgspec.json.encode(record)

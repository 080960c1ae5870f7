"""The header of a frame: one writer's share of one batch on one partition.

Source: PROTOCOL 2. The payload behind the header is an Arrow IPC record batch without schema, or nothing.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.schemas import formats

FLAG_END = 1
"""This frame stands for empty frames of all later batches, at watermark +inf."""
FLAG_TENTATIVE = 2

_LAYOUT = struct.Struct("<BBHQQHHqIIQ")
HEADER_BYTES = _LAYOUT.size


class Header(NamedTuple):
    """All fields are unsigned but the watermark (microseconds since 1970). version: the format (schemas/formats.py)."""

    version: int
    flags: int
    writer: int
    generation: int
    batch: int
    part: int
    parts: int
    watermark: int
    epoch: int
    schema: int
    payload_hash: int

    def pack(self) -> bytes:
        return _LAYOUT.pack(*self)


def unpack(frame: bytes) -> Header:
    """Raises ValueError on a frame that is too short, or of a format that this release does not read."""
    if len(frame) < HEADER_BYTES:
        raise ValueError(f"frame of {len(frame)} bytes is shorter than its header ({HEADER_BYTES})")
    header = Header._make(_LAYOUT.unpack_from(frame))
    if not formats.reads(header.version):
        raise ValueError(f"a frame of format {header.version}, and this release reads up to {formats.NEWEST}")
    return header

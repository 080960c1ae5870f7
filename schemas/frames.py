"""The header of a frame: the output of one writer for one batch on one partition.

Source: PROTOCOL 2. The payload after the header is an Arrow IPC record batch without schema, or empty.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from holdfast.schemas import formats

FLAG_END = 1
"""Flag of a frame that counts as empty frames of all later batches, at watermark +inf."""
FLAG_TENTATIVE = 2
FLAG_CLOCK = 4
"""Flag of a frame whose header is followed by the time of the batch's cut; only in jobs whose code asks for it."""

_LAYOUT = struct.Struct("<BBHQQHHqIIQ")
_CLOCK = struct.Struct("<q")
HEADER_BYTES = _LAYOUT.size


class Header(NamedTuple):
    """The header of a frame. All fields are unsigned except the watermark (microseconds since 1970).

    version: the format (schemas/formats.py).
    clock_us: time of the batch's cut, microseconds since 1970; 0: not in the frame, which lacks FLAG_CLOCK.
    """

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
    clock_us: int = 0

    @property
    def size(self) -> int:
        """Number of bytes before the payload."""
        return HEADER_BYTES + (_CLOCK.size if self.flags & FLAG_CLOCK else 0)

    def pack(self) -> bytes:
        packed = _LAYOUT.pack(*self[:-1])
        return packed + _CLOCK.pack(self.clock_us) if self.flags & FLAG_CLOCK else packed


def unpack(frame: bytes) -> Header:
    """Returns the header.

    Raises ValueError on a frame that is too short or of a format that this release does not read.
    """
    if len(frame) < HEADER_BYTES:
        raise ValueError(f"frame of {len(frame)} bytes is shorter than its header ({HEADER_BYTES})")
    header = Header(*_LAYOUT.unpack_from(frame))
    if not formats.reads(header.version):
        raise ValueError(f"a frame of format {header.version}, and this release reads up to {formats.NEWEST}")
    if not header.flags & FLAG_CLOCK:
        return header
    if len(frame) < header.size:
        raise ValueError(f"frame of {len(frame)} bytes is shorter than its header with a time ({header.size})")
    return header._replace(clock_us=_CLOCK.unpack_from(frame, HEADER_BYTES)[0])

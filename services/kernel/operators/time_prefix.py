"""A time, or the number of a slice of time, as the first eight bytes of a state key, in the order of time.

A table can be scanned by this prefix, so that all entries of one slice of time are deleted at once.
"""

from __future__ import annotations

_BIAS = 2**63
"""Times before 1970 are negative."""


def prefix_of(time: int) -> bytes:
    return (time + _BIAS).to_bytes(8, "big")


def time_of(prefix: bytes) -> int:
    return int.from_bytes(prefix, "big") - _BIAS

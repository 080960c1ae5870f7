"""Strict decoding of records: any bytes give a record of its type or msgspec.DecodeError.

msgspec lets two errors of Python through: for text that is not UTF-8, and for data that is nested too deeply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

_T = TypeVar("_T")

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A batch, an offset, an epoch, a number of things: no arithmetic on it overflows."""
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Amount = Annotated[float, Meta(ge=0, le=2**53)]
"""A time or a size that may have a fraction."""
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""A count, or a negative number for none; a time of day in milliseconds."""
Micros = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Microseconds since 1970, with both ends of time."""


class Strict(Generic[_T]):
    """A decoder's `decode` that raises a single kind of error."""

    def __init__(self, decode: Callable[[bytes], _T]) -> None:
        self._decode = decode

    def decode(self, data: bytes) -> _T:
        """Decodes a record. Raises msgspec.DecodeError."""
        try:
            return self._decode(data)
        except (UnicodeDecodeError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from None


class Text(Strict[_T]):
    """Decoder of records that readers keep as text: bytes that are not UTF-8 are refused, also in fields that
    msgspec skips.
    """

    def decode(self, data: bytes) -> _T:
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None
        return super().decode(data)


json: Strict[Any] = Strict(msgspec.json.Decoder().decode)
"""JSON of any shape."""

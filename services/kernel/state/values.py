"""Values of state as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.schemas.checkpoints import Entry
from holdfast.services.kernel.state.table import Value

_encode = msgspec.msgpack.Encoder().encode
_BIG = 1


def _from_ext(code: int, data: memoryview) -> int:
    assert code == _BIG, f"unknown extension {code} in a state value"
    return int.from_bytes(data, "big", signed=True)


_decode = msgspec.msgpack.Decoder(ext_hook=_from_ext).decode


def _with_big_integers(value: Any) -> Any:
    """Replaces integers beyond 64 bits (sums of large numbers) by an extension: msgpack has no type for them."""
    if isinstance(value, tuple):
        return tuple(_with_big_integers(item) for item in value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return msgspec.msgpack.Ext(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def _immutable(value: Any) -> Any:
    return tuple(_immutable(item) for item in value) if isinstance(value, list) else value


def encode_value(value: Value) -> bytes:
    try:
        return _encode(value)
    except OverflowError:
        return _encode(_with_big_integers(value))


def decode_value(data: bytes) -> Value:
    return _immutable(_decode(data))


def bytes_of(entries: Sequence[Entry]) -> int:
    """The total bytes of keys and values. Its loops are C's: a checkpoint asks for every entry that it writes."""
    if not entries:
        return 0
    keys, values = zip(*entries, strict=True)
    return sum(map(len, keys)) + sum(map(len, filter(None, values)))

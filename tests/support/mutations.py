"""Records that were valid, with something in them changed: fields, types, numbers, bytes; drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import xxhash

from holdfast.schemas.frames import HEADER_BYTES, Header, unpack

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 1e308, 0.5, "", "x", "0-abcdef", "a@b/c", "é²٣\x00",
    "x" * 5_000, [], {}, [None], {"": 1}, [[[]]], {"type": "what"}, ["", -1], b"",
)  # fmt: skip


def mutated(random: Random, value: bytes) -> bytes:
    """Record with another value in one field, or with other bytes."""
    if random.random() < 0.2:
        return damaged(random, value)
    for decode, encode in (
        (msgspec.json.decode, msgspec.json.encode),
        (msgspec.msgpack.decode, msgspec.msgpack.encode),
    ):
        try:
            record = decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(record, dict):
            for _ in range(random.choice((1, 1, 1, 2, 4))):
                record = _changed(random, record)
            try:
                return encode(record)
            except (TypeError, OverflowError, msgspec.EncodeError, UnicodeError):
                return damaged(random, value)
    return _frame(random, value) if len(value) >= HEADER_BYTES else damaged(random, value)


def damaged(random: Random, value: bytes) -> bytes:
    """Cut short, twice in a row, or with other bytes somewhere."""
    at = random.randrange(len(value) + 1)
    some = random.randbytes(random.choice((1, 4, 40)))
    return random.choice((value[:at], value + value, value[:at] + some + value[at + len(some) :], some, b""))


def _changed(random: Random, record: Any) -> Any:
    """A copy with one place changed, however deep."""
    if isinstance(record, dict) and record and random.random() < 0.9:
        key = random.choice(list(record))
        if random.random() < 0.1:
            return {name: value for name, value in record.items() if name != key}
        if random.random() < 0.05:
            return record | {"unheard_of": random.choice(ODD)}
        return record | {key: _changed(random, record[key])}
    if isinstance(record, list) and record and random.random() < 0.9:
        at = random.randrange(len(record))
        if random.random() < 0.2:
            return record[:at] + record[at + 1 :] if random.random() < 0.5 else [*record, record[at]]
        return [*record[:at], _changed(random, record[at]), *record[at + 1 :]]
    if isinstance(record, int) and random.random() < 0.5:
        return record + random.choice((-1, 1, 2, 1_000, 10**9))
    return random.choice(ODD)


def _frame(random: Random, value: bytes) -> bytes:
    """Another header, or another body under its own hash."""
    try:
        header = unpack(value)
    except ValueError:
        return damaged(random, value)
    body = value[HEADER_BYTES:]
    if random.random() < 0.5:
        body = damaged(random, body)
        header = header._replace(payload_hash=xxhash.xxh3_64_intdigest(body))
    if random.random() < 0.7:
        field = random.choice(Header._fields)
        most = {"version": 255, "flags": 255, "writer": 2**16 - 1, "part": 2**16 - 1, "parts": 2**16 - 1}
        most |= {"watermark": 2**63 - 1, "epoch": 2**32 - 1, "schema": 2**32 - 1}
        limit = most.get(field, 2**64 - 1)
        number = random.choice((0, 1, getattr(header, field) + 1, limit))
        header = header._replace(**{field: min(number, limit)})
    return header.pack() + body

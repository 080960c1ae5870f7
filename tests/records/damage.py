"""Damage to encoded records that keeps to their structure: frames, lengths, tags, tokens, and pieces of two records."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from tests.support.avro import framed

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}\[\],:]', re.DOTALL)
_TOKENS = (
    b"null", b"true", b"0", b"-0", b"1e999", b"-1.5e3", b"9223372036854775808", b"NaN", b"[", b"]", b"{", b"}", b",",
    b":", b'""', b'"\\ud800"', b'"\xff"', b"{}", b"[]", b"[" * 2_000, b'{"a":' * 600, b"1_0", b"01", b"'a'", b"4.0",
    b'"2024-02-30"', b'"\\u0000"', b"\x00", b"/*c*/", b"1.", b"+1", b'"AA="', b'"1e5"', b"Infinity", b"\xef\xbb\xbf",
)  # fmt: skip
_NUMBERS = (
    b"\x00", b"\x01", b"\x02", b"\x03", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01",
    b"\x80" * 9 + b"\x00", b"\xff" * 10, b"\x80" * 12, b"\xfe\xff\xff\xff\x7f", b"\x80\x80\x00",
)  # fmt: skip
"""Numbers of seven bits a byte: small ones, the largest, and some that are longer than they need or may be."""
_EDGES = (b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\x10\x00\x00\x00")
_SIGNS = (b'"', b'""', b",", b";", b"\t", b"|", b"'", b"~", b"\n", b"\r\n", b"\r", b"\x00", b"NA", b"\\N", b" ", b"-")

Damage = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""Makes another record of one. The last argument: whole records of the same stream."""


def _cut(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    return one[: some.randrange(len(one) + 1)]


def _flip(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    found = bytearray(one)
    for _bit in range(some.choice((1, 1, 1, 2, 5))):
        if found:
            found[some.randrange(len(found))] ^= 1 << some.randrange(8)
    return bytes(found)


def _put(some: Random, one: bytes, piece: bytes, width: int) -> bytes:
    """The record with a piece in place of so many bytes."""
    at = some.randrange(len(one) + 1)
    return one[:at] + piece + one[at + width :]


def _other_bytes(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    width = some.choice((1, 1, 2, 4))
    return _put(some, one, some.randbytes(width), some.choice((0, width)))


def _splice(some: Random, one: bytes, whole: Sequence[bytes]) -> bytes:
    """The beginning of a record and the end of another one."""
    other = some.choice(whole)
    return one[: some.randrange(len(one) + 1)] + other[some.randrange(len(other) + 1) :]


def _inserted(some: Random, one: bytes, whole: Sequence[bytes]) -> bytes:
    other = some.choice(whole)
    low, high = sorted(some.randrange(len(other) + 1) for _ in range(2))
    return _put(some, one, other[low:high], 0)


def _twice(some: Random, one: bytes, whole: Sequence[bytes]) -> bytes:
    return one + some.choice((one, some.choice(whole)))


def _number(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    return _put(some, one, some.choice(_NUMBERS), some.choice((0, 1, 1, 2)))


def _edge(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    """A length or an offset of Arrow, which lie at multiples of four bytes."""
    at = some.randrange(len(one) // 4 + 1) * 4
    return one[:at] + some.choice(_EDGES) + one[at + 4 :]


def _token(some: Random, one: bytes, whole: Sequence[bytes]) -> bytes:
    found = list(_TOKEN.finditer(one))
    if not found:
        return some.choice(_TOKENS)
    match = some.choice(found)
    other = list(_TOKEN.finditer(some.choice(whole)))
    piece = some.choice((b"", some.choice(_TOKENS), some.choice(other)[0] if other else b"", match[0] * 2))
    return one[: match.start()] + piece + one[match.end() :]


def _sign(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    return _put(some, one, some.choice(_SIGNS), some.choice((0, 1)))


def _frame(some: Random, one: bytes, _: Sequence[bytes]) -> bytes:
    """Another first byte, another schema, one that nobody knows, or less than a frame."""
    body = one[5:]
    return some.choice((
        lambda: bytes([some.randrange(256)]) + one[1:],
        lambda: framed(some.randrange(1, 8), body),
        lambda: framed(some.choice((0, 9, 2**31, 2**32 - 1)), body),
        lambda: one[: some.randrange(6)],
        lambda: body,
        lambda: one[:5] + one,
    ))()  # fmt: skip


_ANY: tuple[Damage, ...] = (_cut, _flip, _flip, _other_bytes, _splice, _inserted, _twice)
_TEXT: tuple[Damage, ...] = (*_ANY, _token, _token, _token, _token)
_BINARY: tuple[Damage, ...] = (*_ANY, _flip, _number, _number, _number)
DAMAGES: dict[str, tuple[Damage, ...]] = {
    "json": _TEXT,
    "debezium": _TEXT,
    "json-schema": (*_TEXT, _frame),
    "debezium-json-schema": (*_TEXT, _frame),
    "csv": (*_ANY, _sign, _sign, _sign, _token),
    "text": (*_ANY, _sign),
    "avro": (*_BINARY, _frame),
    "protobuf": (*_BINARY, _frame),
    "arrow": (*_ANY, _flip, _flip, _edge, _edge, _edge),
}
"""Damages by format; those that are named twice are drawn twice as often."""


def damaged(some: Random, format: str, whole: Sequence[bytes]) -> bytes:
    """A record with one damage, or a few of them."""
    one = some.choice(whole)
    for _ in range(some.choice((1, 1, 1, 2, 3))):
        one = some.choice(DAMAGES[format])(some, one, whole)
    return one

"""Size of a record to Kafka: a topic refuses a batch of records above its max.message.bytes.

A larger record fills a batch alone. Its size in that batch decides, to the byte, whether a topic can take it at all.
Both assume that the producer does not compress.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from holdfast.services.log.protocol import Headers, Rows

CLIENT_BYTES = 16 * 1024 * 1024 - 256
"""Largest record in bytes that the Kafka client takes, whatever the topic takes."""
_BATCH_HEADER = 61
"""Size of the header of a batch of records, format 2. Source: kafka.apache.org/documentation/#recordbatch."""


def largest(rows: Rows) -> int:
    """Upper bound of the bytes of each row, as a batch that holds this row alone."""
    if not rows.values:
        return 0
    value = max(len(one) if one is not None else 0 for one in rows.values)
    key = 0 if rows.keys is None else max(len(one) if one is not None else 0 for one in rows.keys)
    if rows.own_headers is None:
        return size_alone(value, key, rows)
    return size_alone(value, key, rows, max(rows.own_headers, key=_size)) + _COUNT


_COUNT = 4
"""Largest difference in bytes between the encoded numbers of headers of two records."""


def sizes(rows: Rows) -> Iterator[int]:
    """Bytes of each row, as a batch that holds this row alone."""
    keys = rows.keys or repeat(None, len(rows.values))
    own = rows.own_headers or repeat((), len(rows.values))
    for value, key, headers in zip(rows.values, keys, own, strict=True):
        yield size_alone(len(value or b""), None if key is None else len(key), rows, headers)


def size_alone(value: int, key: int | None, rows: Rows, own: Headers = ()) -> int:
    """Bytes of a batch that holds one record, to the byte: a broker compares this size with max.message.bytes.

    Args:
        value, key: their lengths in bytes; key None: no key.
        rows: source of the headers that every record has.
        own: headers of this record alone.
    """
    headers = [*(rows.headers or ()), *own]
    body = 3 + _prefixed(value) + (1 if key is None else _prefixed(key)) + _varint(len(headers)) + _size(headers)
    return _BATCH_HEADER + _varint(body) + body


def _size(headers: Headers) -> int:
    return sum(_prefixed(len(name.encode())) + _prefixed(len(content)) for name, content in headers)


def _prefixed(length: int) -> int:
    return _varint(length) + length


def _varint(number: int) -> int:
    """Encoded bytes of a number that is not negative; Kafka doubles the number, for the sign."""
    return max(1, -(-(2 * number).bit_length() // 7))

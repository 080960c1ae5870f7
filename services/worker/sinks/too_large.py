"""Turns rows that are too large for their sink's topic into dead letters, so that all other rows are delivered.

A record of Arrow holds many rows. A record that is too large is halved until its parts fit, so that only the rows that
are too large become dead letters (docs/decisions/0187).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.schemas.dead_letters import MAX_RAW_BYTES, DeadLetter
from holdfast.services.kernel.codecs.arrow_records import Halves
from holdfast.services.kernel.plurals import plural
from holdfast.services.log.protocol import Rows
from holdfast.services.log.record_sizes import CLIENT_BYTES, size_alone, sizes

ROW_BYTES = 64 * 1024
"""Most bytes of the row in a dead letter."""


def parted(rows: Rows, limit: int, halves: Halves) -> Rows:
    """The rows with records that are too large halved until they fit. The records have no keys and headers of their
    own.

    Args:
        limit: most bytes of a record of the topic.
        halves: splits a record; returns an empty list for a single row.
    """

    def parts(value: bytes) -> Iterator[bytes]:
        two = halves(value) if size_alone(len(value), None, rows) > limit else []
        if not two:
            yield value
        for one in two:
            yield from parts(one)

    where = rows.partitions or [-1] * len(rows.values)
    found = [(part, place) for value, place in zip(rows.values, where, strict=True) for part in parts(value or b"")]
    partitions = None if rows.partitions is None else [place for _, place in found]
    return Rows(rows.topic, [part for part, _ in found], partitions=partitions, headers=rows.headers)


def split_large(rows: Rows, limit: int, origin: str, batch: int) -> tuple[Rows, list[DeadLetter]]:
    """The rows that fit, and a dead letter for each other row.

    Args:
        limit: most bytes of a record of the topic.
        origin: name of the sink.
    """
    found = list(sizes(rows))
    fit = [index for index, size in enumerate(found) if size <= limit]
    if len(fit) == len(found):
        return rows, []
    letters = [
        _letter(rows.topic, rows.values[index] or b"", limit, origin, batch)
        for index, size in enumerate(found)
        if size > limit
    ]
    kept = Rows(
        rows.topic,
        [rows.values[index] for index in fit],
        None if rows.keys is None else [rows.keys[index] for index in fit],
        None if rows.partitions is None else [rows.partitions[index] for index in fit],
        headers=rows.headers,
        own_headers=None if rows.own_headers is None else [rows.own_headers[index] for index in fit],
    )
    return kept, letters


def stands_for(letter: DeadLetter, value: bytes) -> bool:
    """True if the letter was made for a row with this value."""
    return letter == with_content(letter, value)


def _letter(topic: str, value: bytes, limit: int, origin: str, batch: int) -> DeadLetter:
    whose = "its max.message.bytes" if limit < CLIENT_BYTES else "16 MiB is the most that holdfast writes"
    size = plural(len(value), "byte")
    reason = f"a row of {size} is more than topic {topic} takes: {limit:,} ({whose}; MSG_SIZE_TOO_LARGE)"
    return with_content(DeadLetter(origin, reason, batch), value)


def with_content(letter: DeadLetter, value: bytes) -> DeadLetter:
    """The letter with the value; as text if the value is text."""
    try:
        row, raw, kept = value.decode()[:ROW_BYTES], b"", ROW_BYTES
    except UnicodeDecodeError:
        row, raw, kept = "", value[:MAX_RAW_BYTES], MAX_RAW_BYTES
    return msgspec.structs.replace(letter, row=row, raw=raw, truncated=len(value) > kept)

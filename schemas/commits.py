"""Records of a Spark operator's commit log: the output that counts, and the right to add to it.

Source: PROTOCOL 12. Frames are in the same partition, each after the last valid commit and before the one that names
it; a frame begins with its version byte, a record of this module with a brace.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from holdfast.schemas.decided import Id
from holdfast.schemas.decoders import Count, Micros, Strict, Whole

Positions = dict[str, dict[Count, Count]]
"""Offset of the next record by topic and partition."""

DEAD = b"\x00"
"""The first byte of a record that holds a dead letter; like a frame it counts once a valid commit names it."""


class Fence(msgspec.Struct, frozen=True, tag="fence", tag_field="type", omit_defaults=True):
    """The end of earlier epochs, whose commits are invalid from here on; valid iff `epoch` is above every fence
    before it.
    """

    epoch: Count
    id: Id
    time_ms: Whole = 0


class Named(msgspec.Struct, frozen=True, array_like=True):
    """A frame that counts: its offset in this partition, and its number of rows."""

    offset: Count
    rows: Count


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """The progress of one input partition: its watermark in microseconds, and the time of its last row."""

    watermark: Micros
    at_ms: Whole


class Commit(msgspec.Struct, frozen=True, tag="commit", tag_field="type", omit_defaults=True):
    """Micro-batch k: its input, [start, stop) of every input partition, and the frames that are its output.

    attempt: number of the run of the micro-batch in this epoch.
    watermark: microseconds since 1970; a later row that is older is late.
    records: number of input records.
    taken: number of input records by topic, if they were counted so.
    final: true if the job drains and no commit follows.
    dead: offsets of records that hold a dead letter each (schemas/dead_letters.py, after DEAD); their batch is that of
        the cut that takes them.
    heard: the progress of each input partition, if the watermark follows from theirs.
    """

    epoch: Count
    k: Count
    attempt: Count
    start: Positions
    stop: Positions
    frames: tuple[Named, ...]
    watermark: Micros
    id: Id
    prev: Id | None = None
    records: Whole = 0
    final: bool = False
    time_ms: Whole = 0
    dead: tuple[Count, ...] = ()
    heard: tuple[Heard, ...] = ()
    taken: dict[str, Count] = {}

    def taken_of(self, topics: Collection[str]) -> int:
        """Returns the number of input records of these topics, from offsets if they were not counted by topic."""
        if self.taken:
            return sum(count for topic, count in self.taken.items() if topic in topics)
        if all(topic in topics for topic in self.start):
            return self.records
        return sum(
            offset - self.start[topic].get(index, 0)
            for topic, offsets in self.stop.items()
            if topic in topics
            for index, offset in offsets.items()
        )


CommitRecord = Fence | Commit

_decoder: Strict[CommitRecord] = Strict(msgspec.json.Decoder(CommitRecord).decode)
_encoder = msgspec.json.Encoder()


def is_frame(value: bytes) -> bool:
    """True if the record of the partition is a frame, not a record of this module."""
    return value[:1] != b"{"


def decode(data: bytes) -> CommitRecord:
    """Decodes a record. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: CommitRecord) -> bytes:
    return _encoder.encode(record)

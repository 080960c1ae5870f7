"""Records of a unit's checkpoint log: parts of a run, the marker that ends it, trim anchors, and rollbacks.

Source: PROTOCOL 6. Which runs count is decided by services/kernel/checkpoints.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.cuts import CutsSnapshot, Gap
from holdfast.schemas.decided import Id
from holdfast.schemas.leaps import Leap
from holdfast.schemas.reading import Count, Micros, Strict, Whole

Entry = tuple[bytes, bytes | None]
"""A key (two bytes of table number, then the table's key) and its encoded value; None is a tombstone."""


class Part(msgspec.Struct, frozen=True, tag="part", tag_field="type"):
    """Some of a run's entries, packed by `pack`: of a delta the changed keys, of a sweep the next slice of keys."""

    run: Id
    index: Count
    sweep: bool
    entries: bytes


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The offset of a partition from which reading continues after the marker's batch.

    ended: writers whose last frame lies before: nothing more comes from them.
    """

    topic: str
    partition: Count
    offset: Count
    ended: tuple[Count, ...] = ()


class Marker(msgspec.Struct, frozen=True, tag="marker", tag_field="type"):
    """Ends a run: with it the unit's state is known as of batch `b`.

    The delta covers batches (a, b]; where a is b it is the state of the savepoint with which the job begins. The sweep
    part holds every key in [sweep_from, sweep_to) as of b that the delta does not hold; sweep_to None is the end of the
    key space. tables: names by number. watermarks: after b, by task.
    counts: late, dead, lost and records since the start, and `dropped/<stream>`, of the late ones those that are gone.
    Also `keys` of the state, and records along the edges of the unit (services/worker/core/edges.py), for statistics.
    position: the batch of the delivered position that was committed then, or a later one: no later reader finds less.
    raised: the last batch up to b in which the unit's code raised, as the cut log says (schemas/cuts.py, Raised).
    kept: bytes of frames up to b that a reader had not acknowledged then, by readers, of a job that bounds them.
    line: how often the unit was rolled back before. aligned: every unit of the job captures after batch b, so that the
    marker may be part of a global checkpoint. held: the newest complete one, as far as the author knew: what a restore
    there needs is kept; -1: none was complete, 0: the start of the job is one; None: nothing is held.
    gap: the unit went from a to b without the batches between: precision `gap`.
    seen: by unit above, the highest epoch under which frames were sent that lie before its position. leap: the record
    that moved the watermark of a source of the unit furthest, up to b.
    """

    id: Id
    prev: Id | None
    parts: Count
    a: Count
    b: Count
    sweep_from: bytes
    sweep_to: bytes | None
    tables: list[str]
    watermarks: dict[str, Micros]
    positions: list[Position]
    cuts: CutsSnapshot | None = None
    counts: dict[str, Count] = {}
    ended: bool = False
    position: Count = 0
    raised: Count = 0
    kept: dict[str, Count] = {}
    line: Count = 0
    aligned: bool = False
    held: Whole | None = None
    gap: Gap | None = None
    seen: dict[str, Count] = {}
    leap: Leap | None = None


KEYS = "keys"
"""Name of the count of keys of the state, as of b, among the counts in a marker."""
SKIPPED = "skipped"
"""Name of the count of records of the batches that a unit has skipped since the start, among the counts in a marker."""


class Anchor(msgspec.Struct, frozen=True, tag="anchor", tag_field="type"):
    """Appended and read back before a trim: the log below `upto` is no longer needed.

    id and b are those of the last valid marker below upto. line: on which the log is there.
    """

    upto: Count
    id: Id | None
    b: Count
    line: Count = 0


class Rollback(msgspec.Struct, frozen=True, tag="rollback", tag_field="type"):
    """The log continues behind the marker `id` of batch b, on line `line`: what other lines wrote since is void."""

    line: Count
    id: Id | None
    b: Count


CheckpointRecord = Part | Marker | Anchor | Rollback

_decoder: Strict[CheckpointRecord] = Strict(msgspec.msgpack.Decoder(CheckpointRecord).decode)
_encoder = msgspec.msgpack.Encoder()
_entries = Strict(msgspec.msgpack.Decoder(list[Entry]).decode)


def pack(entries: list[Entry]) -> bytes:
    return _encoder.encode(entries)


def unpack(packed: bytes) -> list[Entry]:
    """Raises msgspec.DecodeError on anything else."""
    return _entries.decode(packed)


def decode(data: bytes) -> CheckpointRecord:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: CheckpointRecord) -> bytes:
    return _encoder.encode(record)

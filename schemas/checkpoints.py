"""Records of a unit's checkpoint log: parts of a run, the marker that ends it, trim anchors, and rollbacks.

Source: PROTOCOL 6. services/decisions/checkpoint_log.py decides which runs count.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.cuts import CutsSnapshot, Gap
from holdfast.schemas.decided import Id
from holdfast.schemas.decoders import Count, Micros, Strict, Whole
from holdfast.schemas.leaps import Leap

Entry = tuple[bytes, bytes | None]
"""A key (two bytes of table number, then the table's key) and its encoded value; None is a tombstone."""


class Part(msgspec.Struct, frozen=True, tag="part", tag_field="type"):
    """Some of a run's entries, packed by `pack`: changed keys of a delta, or the next slice of keys of a sweep."""

    run: Id
    index: Count
    sweep: bool
    entries: bytes


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The offset of a partition from which reading continues after the marker's batch.

    ended: writers whose last frame is below that offset and that send no more.
    """

    topic: str
    partition: Count
    offset: Count
    ended: tuple[Count, ...] = ()


class Marker(msgspec.Struct, frozen=True, tag="marker", tag_field="type"):
    """The end of a run, which gives the unit's state as of batch `b`.

    The delta covers batches (a, b]; if a is b, it is the state of the savepoint with which the job begins. The sweep
    part holds every key in [sweep_from, sweep_to) as of b that the delta does not hold; sweep_to None is the end of the
    key space.

    tables: names by number.
    watermarks: after b, by task.
    counts: late, dead, lost and records since the start, and `dropped/<stream>`, of the late ones those that are gone.
        Also `keys` of the state, and records along the edges of the unit (services/worker/core/edges.py), for
        statistics.
    position: the batch of the delivered position committed then, or a later one: no later reader finds an earlier one.
    raised: the last batch up to b in which the unit's code raised, as the cut log states (schemas/cuts.py, Raised).
    kept: bytes of frames up to b that a reader had not acknowledged then, by reader, of a job that bounds them.
    line: number of rollbacks of the unit before.
    aligned: true if every unit of the job captures after batch b, so that the marker may be part of a global
        checkpoint.
    held: the newest complete global checkpoint known to the author; the log keeps all that a restore there needs; -1:
        none was complete; 0: the start of the job is one; None: none is held.
    gap: the batches between a and b that the unit skipped: precision `gap`.
    seen: by upstream unit, the highest epoch of its frames below the position.
    leap: the record that moved the watermark of a source of the unit furthest, up to b.
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
"""Name, among the counts in a marker, of the number of keys of the state as of b."""
SKIPPED = "skipped"
"""Name, among the counts in a marker, of the number of records in batches that the unit has skipped since the start."""


class Anchor(msgspec.Struct, frozen=True, tag="anchor", tag_field="type"):
    """A permission to trim, appended and read back before a trim: the log below `upto` is no longer needed.

    id, b: of the last valid marker below upto.
    line: of the log there.
    """

    upto: Count
    id: Id | None
    b: Count
    line: Count = 0


class Rollback(msgspec.Struct, frozen=True, tag="rollback", tag_field="type"):
    """A rollback: the log continues after the marker `id` of batch b, on line `line`; later records of other lines
    are void.
    """

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
    """Unpacks entries. Raises msgspec.DecodeError on malformed bytes."""
    return _entries.decode(packed)


def decode(data: bytes) -> CheckpointRecord:
    """Decodes a record. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: CheckpointRecord) -> bytes:
    return _encoder.encode(record)

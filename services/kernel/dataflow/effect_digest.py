"""A digest of a copy's effects in a batch, as one number; it compares two copies with different versions of libraries.

The digest covers all that must be equal: frames by the hash of their payload, rows for users, dead letters, and changes
of the state. It leaves out all that depends on the copy, such as its epoch. Source: PROTOCOL 0.2 and 4, decision 0077.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import xxhash

from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import encode as encode_dead
from holdfast.schemas.frames import unpack
from holdfast.schemas.heartbeats import DID_NOTHING
from holdfast.services.kernel.dataflow.sink_records import sink_records
from holdfast.services.kernel.dataflow.unit import Sent, SinkRows
from holdfast.services.kernel.dataflow.unit_frames import Frames
from holdfast.services.kernel.dataflow.walk import Walked

Changed = Iterable[tuple[str, bytes, bytes | None]]
"""Table, key and value of each write of a batch, in the order of tables and keys; None: deleted."""

MASK = 2**53 - 1
"""The largest number that every reader of JSON keeps exactly."""


def digest(frames: Frames, batch: int, walked: Walked, changed: Changed) -> int:
    """The digest of a batch; DID_NOTHING if the batch had no rows, made none and changed nothing.

    frames: encodes the frames of the unit; none of them is sent.
    """
    made, found = walked.produced, _Digest()
    state = found.state(changed)
    if not (walked.rows or walked.dead or state or made.sinks or any(one.rows.height for one in made.sent)):
        return DID_NOTHING
    found.frames(frames, batch, made.sent)
    found.rows(batch, made.sinks)
    found.letters(walked.dead)
    return found.number or 1


class _Digest:
    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()

    @property
    def number(self) -> int:
        return self._hash.intdigest() & MASK

    def state(self, changed: Changed) -> bool:
        """Adds changes of the state; True if there are any."""
        any_ = False
        for table, key, value in changed:
            any_ = True
            self._add("state", table.encode(), key, b"-" if value is None else b"+" + value)
        return any_

    def frames(self, frames: Frames, batch: int, sent: Sequence[Sent]) -> None:
        for partition, frame in frames.encode(batch, sent, epoch=0):
            header = unpack(frame)
            place = (partition.topic, partition.index, header.writer, header.part, header.parts)
            said = (header.watermark, header.flags, header.schema, header.payload_hash)
            self._add("frame", repr((*place, *said)).encode())

    def rows(self, batch: int, sinks: Sequence[SinkRows]) -> None:
        for sink in sinks:
            made = sink_records(sink.task, sink.rows, batch)
            self._add("rows", sink.task.name.encode(), *(b"" if value is None else value for value in made.values))
            self._add("keys", *(b"-" if key is None else b"+" + key for key in made.keys or ()))
            self._add("partitions", repr(list(made.partitions or ())).encode())
            if made.headers is not None:
                self._add("headers", repr(made.headers).encode())

    def letters(self, dead: Sequence[DeadLetter]) -> None:
        self._add("dead", *map(encode_dead, dead))

    def _add(self, what: str, *parts: bytes) -> None:
        """Adds parts with their lengths, so that no two sequences of parts give the same bytes."""
        self._hash.update(f"{what} {len(parts)} ".encode())
        for part in parts:
            self._hash.update(len(part).to_bytes(8, "big"))
            self._hash.update(part)

"""The progress of each unit: published every 100 ms and on each checkpoint, compacted by unit.

Source: PROTOCOL 1 and 7. Readers take the maximum of the records that they have read.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.checkpoints import Position
from holdfast.schemas.decoders import Count, Micros, Strict, Whole
from holdfast.schemas.leaps import Leap


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of a unit.

    processed: last batch done.
    acked: batch of the valid marker up to which the unit's inputs may be trimmed: the newest one, or that of the newest
        global checkpoint if such are held.
    positions: that marker's input positions and, of a unit with source tasks, the cut log's position for a restart.
    records: number of records cut since the start of the generation.
    late, dead, lost: numbers of records since the start of the generation.
    step_ms, step_cpu_ms: longest time, and most CPU time, of a checkpoint step between batches since the record before.
    ended: true if the unit has processed its end and its marker is valid.
    late_dropped: of the late records, those that are gone and not in the dead-letter topic, each counted by one of the
        operators that dropped it, as of the batch. By stream: the sources (several with `+` between if a row does not
        state which), with `|` and an operator whose watermark waits for other sources, too; then, after `>` each, the
        operators that let only some of the records pass.
    retained: bytes of its frames that a reader has not acknowledged, of a job that bounds them.
    line: line of the unit; reports on an earlier line no longer count.
    marked: batch of the newest valid marker, if that is another one.
    marks: batches above `acked` of valid markers that may be part of a global checkpoint, the first MOST_MARKS.
    since: offset of the checkpoint policy under which these markers can be that; -1: of none.
    arrived: of a unit with source tasks, of the batches since the record before, the one whose oldest record has waited
        longest for its cut, or the next one while some records wait for it.
    arrived_ms: time of day of that record's arrival.
    newest: input positions of the marker `marked`, if intermediate topics may be trimmed to it.
    read: offset of `assignments` up to which the author had read; a reader that has read less ignores `newest`.
    leap: the record that moved the watermark of a source of the unit furthest.
    rests: of a unit with source tasks, the batch at which the job is paused, once every source has reached it.
    """

    unit: str
    processed: Count
    acked: Count
    positions: tuple[Position, ...] = ()
    watermark: Micros = -(2**63)
    records: Count = 0
    late: Count = 0
    dead: Count = 0
    lost: Count = 0
    step_ms: float = 0.0
    step_cpu_ms: float = 0.0
    ended: bool = False
    late_dropped: dict[str, int] = {}
    retained: Count = 0
    line: Count = 0
    marked: Count = 0
    marks: tuple[Count, ...] = ()
    since: Whole = -1
    arrived: Count = 0
    arrived_ms: Count = 0
    newest: tuple[Position, ...] = ()
    read: Whole = -1
    leap: Leap | None = None
    rests: Count = 0

    @property
    def durable(self) -> int:
        """The last batch under a valid marker."""
        return max(self.acked, self.marked)


MOST_MARKS = 64
"""Largest number of marks that a unit keeps while a unit without a place prevents complete global checkpoints."""

_decoder = Strict(msgspec.json.Decoder(Progress).decode)


def decode(data: bytes) -> Progress:
    """Decodes a progress. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: Progress) -> bytes:
    return msgspec.json.encode(record)

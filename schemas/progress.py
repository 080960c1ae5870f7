"""The progress of each unit: published every 100 ms and on each checkpoint, compacted by unit.

Source: PROTOCOL 1 and 7. Readers take the maximum of what they have read.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.checkpoints import Position
from holdfast.schemas.leaps import Leap
from holdfast.schemas.reading import Count, Micros, Strict, Whole


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """processed: last batch done. acked: batch of the valid marker up to which the unit's inputs may be trimmed: the
    newest one, or that of the newest global checkpoint where such are held; positions: that marker's input positions
    and, of a unit with source tasks, where a restart reads the cut log on. marked: batch of the newest valid marker, if
    that is another one. marks: batches above `acked` of valid markers that may be part of a global checkpoint, the
    first MOST_MARKS; since: of the checkpoint policy under which they can be that; -1: of none. line: on which the unit
    is; what was said on an earlier one counts no more.

    late, dead and lost count records since the start of the generation; records counts those cut.
    late_dropped: of the late ones those that are gone, and not in the dead-letter topic, each counted by one operator
    of those that saw it, as of the batch. By stream: the sources (several with `+` between where a row does not say
    which), with `|` and an operator whose watermark waits for other sources, too; then, after `>` each, the operators
    that let only some of the records pass. step_ms: the longest that checkpoint work kept the unit from its batches,
    since the record before; step_cpu_ms: the most CPU time that one such step took. ended: the unit has processed its
    end and its marker is valid. retained: bytes of its frames that a reader has not acknowledged, of a job that bounds
    them. arrived: of a unit with source tasks, of the batches since the record before, the one whose oldest record has
    waited longest for its cut, or the next one while some wait for it; arrived_ms: since when, time of day.
    newest: input positions of the marker `marked`, where intermediate topics may be trimmed to it; read: the offset of
    `assignments` up to which their author had read: whoever has read less does not go by them. leap: the record that
    moved the watermark of a source of the unit furthest.
    rests: of a unit with source tasks, the batch at which the job is paused, once every source has come to it.
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
"""While a unit without a place keeps global checkpoints from being complete, the others remember no more."""

_decoder = Strict(msgspec.json.Decoder(Progress).decode)


def decode(data: bytes) -> Progress:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: Progress) -> bytes:
    return msgspec.json.encode(record)

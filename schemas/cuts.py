"""Records of the cut log: the source records of each batch, the rows at which code raised, and controls between the
cuts.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.schemas.decided import Id
from holdfast.schemas.decoders import Count, Micros, Strict, Whole

NO_WATERMARK = -(2**63)
"""Watermark before any event time."""
END_WATERMARK = 2**63 - 1
"""Watermark after the end of the stream."""
LOADED_WATERMARK = 253_402_300_799_999_999
"""Watermark of a table that has been read to its end once, so that it holds no other stream back. It is the last moment
of the year 9999, so that no arithmetic on it overflows."""


class Range(msgspec.Struct, frozen=True, array_like=True):
    """The records [start, stop) of one partition of the user's topic.

    newest_us: the largest event time (microseconds since 1970) ever cut on the partition; None before the first.
    lost: number of records of the range that the log no longer held.
    """

    partition: Count
    start: Count
    stop: Count
    newest_us: Micros | None = None
    lost: Count = 0


class Cut(msgspec.Struct, frozen=True, tag="cut", tag_field="type", omit_defaults=True):
    """Batch `batch` of source task `task`; one Range for each partition the task owns.

    A partition that has appeared since the last cut joins after the others, with the empty range [0, 0).

    unknown: ids of schemas that records of the batch name and the registry did not know. These records are dead
        letters, also if the registry knows the id later; every other id is known.
    """

    task: str
    batch: Count
    ranges: tuple[Range, ...]
    watermark: Micros
    id: Id
    prev: Id | None = None
    idle: bool = False
    final: bool = False
    time_ms: Whole = 0
    unknown: tuple[Count, ...] = ()


Kind = Annotated[str, Meta(pattern="^(pause|resume|drain)$")]


class Beginning(msgspec.Struct, frozen=True):
    """The beginning of a source in a topic that was created again: first offset by source task and partition."""

    topic_id: str
    first: dict[str, dict[Count, Count]]


class Control(msgspec.Struct, frozen=True, tag="control", tag_field="type", omit_defaults=True):
    """Pause, resume or drain; valid iff `offset` (in jobs.submit) is above the last control's.

    ends: for drain, the end offset of each partition of each source task at the time of the drain.
    beginnings: for resume, by source whose topic was replaced; on Kafka the field is called `anew`.
    level: for pause, true if tasks that are behind still cut, up to the newest batch that any task has cut; written
        from format LEVEL on (schemas/formats.py).
    """

    kind: Kind
    offset: Whole
    ends: dict[str, dict[Count, Count]] = {}
    beginnings: dict[str, Beginning] = msgspec.field(default_factory=dict, name="anew")
    level: bool = False


class Replaced(msgspec.Struct, frozen=True, tag="replaced", tag_field="type", omit_defaults=True):
    """A replacement of the topic of source `operator`: `was` has become another one of the same name, `found`.

    Valid iff `was` is the topic that is read and `found` never was. Then no cut is valid until a resume names the
    beginning; in a drain the source ends at its present offsets.

    sure: by source task, the last batch that was cut while the topic was still known to be the old one. Later batches
        may lack records of the old topic, or hold some of the new one.
    """

    operator: str
    topic: str
    was: str
    found: str
    sure: dict[str, Count] = {}


class RaisedRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows [start, stop) of a batch, by place, at which a task's code raised.

    reason: place in TaskRaised.reasons: the code raised at each of the rows alone, and each is skipped. -1: it raised
        at these rows together, and at neither half of them: none is skipped.
    """

    start: Count
    stop: Count
    reason: Whole = -1


class TaskRaised(msgspec.Struct, frozen=True, array_like=True):
    """The smallest ranges of a batch at which a task's code raised, in order.

    The code, called with halves of halves of the batch, raised at every range that holds one of these, and at no other.
    """

    rows: tuple[RaisedRows, ...] = ()
    reasons: tuple[str, ...] = ()


class Leads(msgspec.Struct, frozen=True, tag="leads", tag_field="type"):
    """The announcement of the leader of a unit whose code may raise; it sends nothing before it has read this back.

    Valid iff no announcement of a higher epoch of the unit comes before.
    """

    unit: str
    epoch: Count
    id: Id


class Raised(msgspec.Struct, frozen=True, tag="raised", tag_field="type"):
    """A report that the code of these tasks raised in batch `batch` of the unit, and no other task's code did.

    Valid iff `lead` is the unit's last valid announcement, the batch is above that of the unit's last valid record of
    this kind, and some source task has cut it.
    """

    unit: str
    batch: Count
    lead: Id
    tasks: dict[str, TaskRaised]


class Gap(msgspec.Struct, frozen=True, tag="gap", tag_field="type"):
    """Batches (after, upto] that a copy skipped at its takeover: they are not in the unit's state.

    delivered: last batch whose rows were delivered before.
    records: number of records in the skipped batches.

    A fact, which the unit's checkpoint log has decided (schemas/checkpoints.py); it may be stated more than once.
    """

    unit: str
    after: Count
    upto: Count
    delivered: Count
    records: Count


class Answered(msgspec.Struct, frozen=True, tag="answered", tag_field="type"):
    """A part of the answer that code of task `task` got to its rows of batch `batch` (schemas/answers.py).

    A fact: for each task and batch the first complete answer counts, with all parts in order under one id. parts 0:
    only the announcement of a leader, which asks for no answer that is there.
    """

    unit: str
    task: str
    batch: Count
    id: Id
    part: Count
    parts: Count
    data: bytes


class Leading(msgspec.Struct, frozen=True, array_like=True):
    """The cut log's state for one unit whose code may raise: its last announcement, and the last batch in which it
    raised.

    batch: 0: none.
    """

    epoch: Count
    id: Id
    batch: Count = 0


class TaskCuts(msgspec.Struct, frozen=True):
    """The cut log's state for one source task: its last valid cut."""

    last: Id | None
    batch: Count
    ranges: tuple[Range, ...]
    watermark: Micros
    idle: bool
    final: bool


class KnownSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """A valid Snapshot in the cut log: its `upto`, and the time at which it was written."""

    upto: Count
    time_ms: Whole


class CutsSnapshot(msgspec.Struct, frozen=True):
    """The cut log's state after all records below offset `upto`.

    topics: by source, the ids of the topics that it has read, the present one last.
    replaced: by source, the record that stopped it.
    snapshots: the newest valid snapshots in the log, in order.
    leads: by unit whose code may raise.
    level: true if the pause lets tasks that are behind reach the newest batch.
    """

    upto: Count
    tasks: dict[str, TaskCuts]
    control_offset: Whole = -1
    paused: bool = False
    ends: dict[str, dict[Count, Count]] | None = None
    topics: dict[str, tuple[str, ...]] = {}
    replaced: dict[str, Replaced] = {}
    snapshots: tuple[KnownSnapshot, ...] = ()
    leads: dict[str, Leading] = {}
    level: bool = False


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot", tag_field="type"):
    """The state of the cut log a little before: a reader may begin there, and the log may be trimmed up to there.

    Valid iff the records below `state.upto` give that state, apart from its list of snapshots.
    """

    state: CutsSnapshot
    time_ms: Whole = 0


CutRecord = Cut | Control | Replaced | Snapshot | Leads | Raised | Gap | Answered

_decoder: Strict[CutRecord] = Strict(msgspec.json.Decoder(CutRecord).decode)
_encoder = msgspec.json.Encoder()


def decode(data: bytes) -> CutRecord:
    """Decodes a record. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: CutRecord) -> bytes:
    return _encoder.encode(record)

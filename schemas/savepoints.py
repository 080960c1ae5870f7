"""A savepoint: positions and state of a job as of one batch, as a directory or in a topic on Kafka; and its seed.

Source: JOBS "holdfast savepoint". The manifest describes the state files. On Kafka, the same pieces are in one topic,
followed by the manifest. A plan made from a savepoint holds the seed, which is all that readers of the job need.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.checkpoints import Entry
from holdfast.schemas.cuts import TaskCuts
from holdfast.schemas.decoders import Count, Micros, Strict, Text, Whole
from holdfast.schemas.plans import Plan

FORMAT = 1
"""Format of the manifest and of the state files. A release reads every format up to its own."""


class Task(msgspec.Struct, frozen=True):
    """A task as of the batch.

    watermark: of its inputs.
    tables: of its state.
    entries: number of entries in all tables.
    file: in the directory, with its size and checksum; empty: the task has no state.
    """

    watermark: Micros
    tables: tuple[str, ...] = ()
    entries: Count = 0
    file: str = ""
    bytes: Count = 0
    sha256: str = ""


class Savepoint(msgspec.Struct, frozen=True):
    """The manifest.

    id: of this savepoint alone.
    release: of holdfast that wrote it.
    cluster: prefix of its topics.
    batch: the batch that every unit has processed and delivered as its last.
    paused: offset in `jobs.submit` of the pause that held the job there.
    plan: of the generation, with the job file in it.
    sources: by source task, the cuts from which it continues.
    """

    format: Count
    id: str
    release: str
    cluster: str
    job: str
    generation: str
    batch: Count
    time_ms: Whole
    paused: Whole
    plan: Plan
    sources: dict[str, TaskCuts]
    tasks: dict[str, Task]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Some entries of a table; a later piece of a savepoint overrides an earlier one.

    adds: number of keys that each entry adds: 1, or 0 for another value of a key, or -1 for a key that is gone.
    """

    task: str
    table: str
    entries: list[Entry]
    adds: int = 1


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """Field `from_savepoint` of a record of `jobs.submit`: the savepoint with which the job begins.

    topic: topic that holds the savepoint.
    drop_state: operators whose state is left behind.
    reread: sources that begin at the place in the job file, and not at that of the savepoint.
    renamed: by operator or source, its name in the savepoint.
    replaces: generation of the job of that name that is to end for it, if the pause at offset `paused` of `jobs.submit`
        still holds it then; empty: none.
    rests: true if that generation was paused before, so that the job begins paused.
    waits: true if the job stands by until a command `switch` names the later changes.
    behind: offset in the topic at which these changes begin.
    proven_after: number of batches after which an update counts as proven healthy; 0: not stated.
    """

    topic: str
    id: str
    drop_state: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    replaces: str = ""
    paused: Whole = -1
    rests: bool = False
    waits: bool = False
    behind: Count = 0
    proven_after: Count = 0


FIELD = "from_savepoint"


def replaced_by(label: str) -> str:
    """Returns the reason of the end of a job whose place another one takes.

    label: of the other job, `<job>@<generation>`.
    """
    return f"replaced by {label}"


_manifest: Text[Savepoint] = Text(msgspec.json.Decoder(Savepoint).decode)
_piece: Strict[Piece] = Strict(msgspec.msgpack.Decoder(Piece).decode)
_encoder = msgspec.msgpack.Encoder()


def decode(data: bytes) -> Savepoint:
    """Decodes a manifest. Raises msgspec.DecodeError on malformed bytes."""
    return _manifest.decode(data)


def encode(manifest: Savepoint) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode_piece(data: bytes) -> Piece:
    """Decodes a piece. Raises msgspec.DecodeError on malformed bytes."""
    return _piece.decode(data)


def encode_piece(piece: Piece) -> bytes:
    return _encoder.encode(piece)

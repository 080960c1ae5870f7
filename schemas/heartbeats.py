"""Heartbeats and exit notices of workers.

Source: PROTOCOL 5.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.costs import Costs
from holdfast.schemas.decoders import Count, Strict, Whole
from holdfast.schemas.formats import FIRST

FAULTED = "faulted"
"""State of a copy that an unexpected error has stopped; the next assignment that names the copy starts it again."""
DID_NOTHING = 0
"""Digest of a batch without input, output and change."""


class CopyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one hosted copy, as its worker reports it.

    epoch: of the assignment whose flags the copy has reached or is on the way to.
    state: deploying, deployed (operators warm, no state), restoring, synced (image applied, suspended), opening,
        running (it processes), ended, fenced, failed, faulted.
    batch: last one processed or applied.
    durable: batch of the unit's newest valid marker that the copy has read.
    stopped: why the job continues only at a person's command.
    waits: the missing thing that the copy waits for.
    risk: the users' topics that may delete records which a recovery would read again.
    shows: the newest batches with a digest of their work, while a copy of the unit is to show equal bytes.
    """

    unit: str
    epoch: Count
    state: str
    batch: Count = 0
    error: str = ""
    durable: Count = 0
    stopped: str = ""
    waits: str = ""
    risk: str = ""
    shows: tuple[tuple[Count, Count], ...] = ()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn of a host's loop that takes long.

    ms: its duration so far.
    patience_ms: duration above which it counts as silence.
    unit: the unit whose work the loop does; empty: the loop's own work.
    """

    ms: Count
    patience_ms: Count
    unit: str = ""

    @property
    def stuck(self) -> bool:
        """True if the turn takes longer than any turn that is known to end."""
        return self.ms > self.patience_ms

    def __str__(self) -> str:
        return f"stuck for {self.ms / 1000:.1f} s" + (f" in {self.unit}" if self.unit else "")


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat", tag_field="type", omit_defaults=True):
    """A heartbeat, sent every interval by a thread of its own.

    decided: offset of the last assignment that the worker has read.
    cpu: CPU seconds of the process so far.
    rss_bytes: its resident memory.
    hosts: the kind of units it takes: those of the kernel (empty), or of Spark (`spark`).
    host: name of its supervisor, with which its own name begins.
    address: machine and directory it runs in, so that two workers of one name can be distinguished.
    standbys: largest number of standbys that it takes; -1: no limit.
    leaving: true if it was asked to stop; it ends once it commits for no unit any more.
    refused: number of records refused since its start, by topic.
    costs: of some of the copies; the heartbeats before and after hold the others'.
    turn: of its loop, if that takes long; with a stuck turn the heartbeat is no sign of life.
    reads: the newest format that it reads.
    """

    worker: str
    incarnation: str
    time_ms: Whole
    pid: Count = 0
    zone: str = ""
    slots: Count = 0
    decided: Whole = -1
    cpu: float = 0.0
    rss_bytes: Count = 0
    versions: dict[str, str] = {}
    copies: tuple[CopyState, ...] = ()
    hosts: str = ""
    host: str = ""
    address: str = ""
    leaving: bool = False
    refused: dict[str, Count] = {}
    costs: tuple[Costs, ...] = ()
    turn: Turn | None = None
    standbys: Whole = -1
    reads: Count = FIRST

    @property
    def stuck(self) -> bool:
        """True if its loop hangs: a thread beside the loop sent the heartbeat."""
        return self.turn is not None and self.turn.stuck

    @property
    def machine(self) -> str:
        """The machine on which it runs, if it is known."""
        return self.address.partition(":")[0] or self.host


LINE = "tentative rows of"
"""Work of a unit while others are out: an end at this work is no evidence against the unit's stable batches."""


class At(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a process when it ended.

    batch: of the unit; 0: other work for the unit.
    what: that other work, such as `loading`.
    """

    unit: str
    batch: Count = 0
    what: str = ""

    def __str__(self) -> str:
        return f"batch {self.batch} of {self.unit}" if self.batch else f"{self.what} {self.unit}"


class Exit(msgspec.Struct, frozen=True, tag="exit", tag_field="type", omit_defaults=True):
    """The report of the parent process that this incarnation has ended. It is final: a late heartbeat revives nothing.

    address: of a parent that claims the name by the end of incarnation "0", which never existed, and gives the name
        back by another notice with status 1.
    at: the work of the process, as far as it left traces; one of these may have ended it.
    dying: true if its status is not known yet; another notice states it.
    """

    worker: str
    incarnation: str
    time_ms: Whole
    status: Whole = 0
    address: str = ""
    at: tuple[At, ...] = ()
    dying: bool = False


class Echo(msgspec.Struct, frozen=True, tag="echo", tag_field="type", omit_defaults=True):
    """A heartbeat of a recovery replica to itself: if it comes late, the broker or the replica is slow, and not a
    worker.

    reads: the newest format that the replica reads.
    """

    replica: str
    reads: Count = FIRST


HeartbeatRecord = Heartbeat | Exit

_decoder: Strict[HeartbeatRecord | Echo] = Strict(msgspec.json.Decoder(HeartbeatRecord | Echo).decode)


def decode(data: bytes) -> HeartbeatRecord | Echo:
    """Decodes a record. Raises msgspec.DecodeError on malformed bytes."""
    return _decoder.decode(data)


def encode(record: HeartbeatRecord | Echo) -> bytes:
    return msgspec.json.encode(record)

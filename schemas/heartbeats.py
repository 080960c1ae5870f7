"""Signs of life and exit notices of workers.

Source: PROTOCOL 5.
"""

from __future__ import annotations

import msgspec

from holdfast.schemas.costs import Costs
from holdfast.schemas.formats import FIRST
from holdfast.schemas.reading import Count, Strict, Whole

FAULTED = "faulted"
"""State of a copy that an unexpected error has stopped; an assignment that names the copy once more starts it again."""
DID_NOTHING = 0
"""In place of a digest, of a batch that brought, made and changed nothing."""


class CopyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one hosted copy, as its worker reports it.

    epoch: of the assignment whose flags the copy has reached or is on the way to.
    state: deploying, deployed (operators warm, no state), restoring, synced (image applied, suspended), opening,
        running (it processes), ended, fenced, failed, faulted.
    batch: last one processed or applied.
    durable: batch of the unit's newest valid marker that the copy has read.
    stopped: why the job continues only when a person says so.
    waits: the thing that does not exist and that the copy waits for.
    risk: the users' topics that may delete what a recovery would read again.
    shows: the newest batches with a digest of what they did, while a copy of the unit is to show equal bytes.
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

    ms: so far. patience_ms: a longer one counts as silence. unit: whose work the loop does; empty: its own.
    """

    ms: Count
    patience_ms: Count
    unit: str = ""

    @property
    def stuck(self) -> bool:
        """Longer than any turn that is known to end."""
        return self.ms > self.patience_ms

    def __str__(self) -> str:
        return f"stuck for {self.ms / 1000:.1f} s" + (f" in {self.unit}" if self.unit else "")


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat", tag_field="type", omit_defaults=True):
    """Sent every heartbeat interval by a thread of its own.

    decided is the offset of the last assignment it has read. cpu is the process's CPU seconds so far, rss_bytes its
    resident memory. hosts: which units it takes, those of the kernel or those of Spark (`spark`). host: of its
    supervisor, which its name begins with; address: machine and directory it runs in, so that two workers of one name
    can be distinguished.
    standbys: units of others whose standbys it takes at most; -1: as many as are given.
    leaving: it was asked to stop, and ends once it commits for no unit any more. refused: so many records since its
    start, by topic.
    costs: of some of the copies, the others' are in the heartbeats before and after.
    turn: of its loop, if that takes long. One that is stuck makes the heartbeat no sign of life.
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
        """Its loop hangs: a thread beside the loop sent this."""
        return self.turn is not None and self.turn.stuck

    @property
    def machine(self) -> str:
        """On which it runs, as far as it says."""
        return self.address.partition(":")[0] or self.host


LINE = "tentative rows of"
"""Work of a unit while others are out: an end at it says nothing against the unit's stable batches."""


class At(msgspec.Struct, frozen=True, omit_defaults=True):
    """The work of a process when it ended. batch: of the unit; 0: other work for the unit, such as `loading`."""

    unit: str
    batch: Count = 0
    what: str = ""

    def __str__(self) -> str:
        return f"batch {self.batch} of {self.unit}" if self.batch else f"{self.what} {self.unit}"


class Exit(msgspec.Struct, frozen=True, tag="exit", tag_field="type", omit_defaults=True):
    """The parent process saw this incarnation end. Final: a heartbeat still in flight revives nothing.

    address: of a parent that claims the name by the end of incarnation "0", which never was, and gives it back by the
    same with status 1. at: what the process was at, as far as it left traces; one of these may have ended it.
    dying: its status is not known yet; another notice has it.
    """

    worker: str
    incarnation: str
    time_ms: Whole
    status: Whole = 0
    address: str = ""
    at: tuple[At, ...] = ()
    dying: bool = False


class Echo(msgspec.Struct, frozen=True, tag="echo", tag_field="type", omit_defaults=True):
    """A recovery replica's word to itself: when it comes late, the broker or the replica is slow, and not a worker.

    reads: the newest format that the replica reads.
    """

    replica: str
    reads: Count = FIRST


HeartbeatRecord = Heartbeat | Exit

_decoder: Strict[HeartbeatRecord | Echo] = Strict(msgspec.json.Decoder(HeartbeatRecord | Echo).decode)


def decode(data: bytes) -> HeartbeatRecord | Echo:
    """Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(data)


def encode(record: HeartbeatRecord | Echo) -> bytes:
    return msgspec.json.encode(record)

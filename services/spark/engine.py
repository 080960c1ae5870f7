"""Engine that runs the query of one copy: the contract between the host's loop and the engine behind it.

Source: PROTOCOL 12. Behind it is Spark (spark_engine.py), and in the simulation nothing but time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.schemas.commits import Heard, Named, Positions
from holdfast.services.decisions.commits import CommitLog
from holdfast.services.spark.core.lifecycle import Deployed, NothingRehearsed, Rehearsed, RunFailed, Started

# -- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deploy:
    """Wait until queries can run."""


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Run the query over the newest records, and write nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run the query of an epoch behind the last valid commit.

    log: the commit log up to the fence, or later. until_now: end once everything that has arrived is processed.
    closing: run one more batch, whose watermark is at the end of time, and end.
    """

    epoch: int
    log: CommitLog
    until_now: bool = False
    closing: bool = False


Task = Deploy | Rehearse | Run

# -- what a run says, and what it is answered -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchAsked:
    """A micro-batch, by the query's own count, waits for its verdict: answered by Write, Discard or Refused."""

    batch: int


@dataclass(frozen=True, slots=True)
class Reported:
    """Report of Spark on a micro-batch.

    batch: by the query's own count; -1: there was none. state_keys, state_bytes: that the query holds after it.
    late: rows that it dropped as older than the watermark.
    parts_ms: the times that it took, by Spark's names; `triggerExecution` is all of it.
    """

    batch: int = -1
    state_keys: int = 0
    state_bytes: int = 0
    late: int = 0
    parts_ms: Mapping[str, float] = field(default_factory=dict)


NOTHING = Reported()


@dataclass(frozen=True, slots=True)
class Output:
    """Micro-batch k is written, and waits for its commit: answered by Committed or Refused.

    As in schemas/commits.py. taken: records by topic. reported: what Spark says of the micro-batch before.
    """

    k: int
    attempt: int
    stop: Positions
    frames: tuple[Named, ...]
    watermark: int
    taken: Mapping[str, int] = field(default_factory=dict)
    dead: tuple[int, ...] = ()
    heard: tuple[Heard, ...] = ()
    reported: Reported = NOTHING

    @property
    def records(self) -> int:
        """Records of all topics."""
        return sum(self.taken.values())


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The query ended by itself. ends: of what it wrote, if it writes without commits."""

    ends: dict[int, int] | None = None


Told = Deployed | Rehearsed | NothingRehearsed | Started | RunFailed | RunEnded | BatchAsked | Output


@dataclass(frozen=True, slots=True)
class Write:
    """Write the micro-batch as number k. log: the commit log before it."""

    k: int
    attempt: int
    log: CommitLog


@dataclass(frozen=True, slots=True)
class Discard:
    """The micro-batch counts already: run it for its state alone."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit was read back."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The micro-batch does not count: the run fails."""

    cause: str


Answer = Write | Discard | Committed | Refused


class Engine(Protocol):
    """Does one task at a time; no method blocks. Each is for the host's loop."""

    def begin(self, task: Task) -> None:
        """Ends the task before it, then does this one."""
        ...

    def rest(self) -> None:
        """Ends the task; what it has written may still arrive."""
        ...

    def poll(self) -> Told | None:
        """The next thing that has come of the task that was begun last."""
        ...

    def answer(self, answer: Answer) -> None:
        """To the question that `poll` gave last."""
        ...

    def close(self) -> None:
        """After this no task is begun."""
        ...

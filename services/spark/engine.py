"""The engine that runs the query of one copy: the interface between the host's loop and an engine.

Source: PROTOCOL 12. Spark implements it (spark_engine.py); the simulation implements it with time only.
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
    """Waits until queries can run."""


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Runs the query over the newest records and writes nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Runs the query of an epoch behind the last valid commit.

    Attributes:
        epoch: the epoch.
        log: commit log up to the fence, or later.
        until_now: True to end when all present input is processed.
        closing: True for one more batch, with a watermark at the end of time.
    """

    epoch: int
    log: CommitLog
    until_now: bool = False
    closing: bool = False


Task = Deploy | Rehearse | Run

# -- what a run says, and what it is answered -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchAsked:
    """A micro-batch, by the query's own count, waits for the answer Write, Discard or Refused."""

    batch: int


@dataclass(frozen=True, slots=True)
class Reported:
    """Spark's report on a micro-batch.

    Attributes:
        batch: number by the query's own count; -1 for no report.
        state_keys, state_bytes: size of the query's state after it.
        late: rows dropped as older than the watermark.
        parts_ms: times by Spark's names; `triggerExecution` is the total.
    """

    batch: int = -1
    state_keys: int = 0
    state_bytes: int = 0
    late: int = 0
    parts_ms: Mapping[str, float] = field(default_factory=dict)


NOTHING = Reported()


@dataclass(frozen=True, slots=True)
class Output:
    """Micro-batch k is written and waits for the answer Committed or Refused. Fields are as in schemas/commits.py.

    Attributes:
        taken: number of records by topic.
        reported: Spark's report on the micro-batch before.
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
        """The number of records of all topics."""
        return sum(self.taken.values())


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The query ended by itself. `ends` are the ends of its output if it writes without commits."""

    ends: dict[int, int] | None = None


EngineEvent = Deployed | Rehearsed | NothingRehearsed | Started | RunFailed | RunEnded | BatchAsked | Output


@dataclass(frozen=True, slots=True)
class Write:
    """Answer: write the micro-batch as number k. `log` is the commit log before it."""

    k: int
    attempt: int
    log: CommitLog


@dataclass(frozen=True, slots=True)
class Discard:
    """Answer: the micro-batch is valid already, so run it only for its state."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Answer: the commit was read back."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer: the micro-batch is not valid, so the run fails."""

    cause: str


Answer = Write | Discard | Committed | Refused


class Engine(Protocol):
    """Does one task at a time. For the host's loop; no method blocks."""

    def begin(self, task: Task) -> None:
        """Ends the former task, then does this one."""
        ...

    def rest(self) -> None:
        """Ends the task; its output may still arrive."""
        ...

    def poll(self) -> EngineEvent | None:
        """The next event of the newest task; None if there is none."""
        ...

    def answer(self, answer: Answer) -> None:
        """Answers the last question from `poll`."""
        ...

    def close(self) -> None:
        """Ends the engine; no later task may begin."""
        ...

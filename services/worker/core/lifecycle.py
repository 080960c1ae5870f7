"""The life of one copy of a unit on a worker, from the first assignment with the copy to the first one without it.

Source: PROTOCOL 5, 6, 8 and 9. Each row of TRANSITIONS is the reaction of a copy in one state to one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from holdfast.schemas.assignments import Flags
from holdfast.schemas.heartbeats import FAULTED
from holdfast.services.kernel.lifecycle import Broke, Machine, Placed, Table, Unlisted, Unplaced

__all__ = ["Broke", "Placed", "Unlisted", "Unplaced"]


class State(Enum):
    """States of a copy; the value is in its heartbeats."""

    NEW = "new"
    DEPLOYING = "deploying"
    DEPLOYED = "deployed"
    RESTORING = "restoring"
    SUSPENDED = "synced"
    RUNNING = "running"
    ENDED = "ended"
    FENCED = "fenced"
    FENCED_LOST = "fenced-lost"
    FAULTED = FAULTED
    FAILED = "failed"
    CLOSED = "closed"


class Goal(Enum):
    """Goals that flags set for a copy."""

    DEPLOYED = "have the operators loaded"
    SUSPENDED = "follow the checkpoints, and hold the inputs if `receive` is on"
    ACTIVE = "process"

    @staticmethod
    def of(flags: Flags) -> Goal:
        if flags.process:
            return Goal.ACTIVE
        return Goal.DEPLOYED if flags.state == "virgin" else Goal.SUSPENDED


@dataclass(frozen=True, slots=True)
class Deployed:
    """Operators are loaded and warmed up."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The image holds the state as of `batch`."""

    batch: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The copy holds the transactional id and knows the delivered position."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end was processed and its marker read back."""


@dataclass(frozen=True, slots=True)
class OutputFenced:
    """Another copy has taken over the transactional id."""


@dataclass(frozen=True, slots=True)
class OutputIndefinite:
    """The outcome of the last transaction is unknown."""


@dataclass(frozen=True, slots=True)
class InputBroken:
    """A gap, or a position below the log start: image and inputs no longer match."""

    cause: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """An unexpected error.

    Attributes:
        cause: text of the error.
        batch: last batch processed; 0 for none, or for a copy that was not restored.
    """

    cause: str
    batch: int


@dataclass(frozen=True, slots=True)
class StillCommits:
    """`assignments` has been read to its end as of the moment of the fence: this copy holds commit."""


@dataclass(frozen=True, slots=True)
class CommitsNoMore:
    """`assignments` has been read to its end as of the moment of the fence: another copy holds commit."""


Event = (
    Placed | Unplaced | Deployed | Restored | Opened | Finished | OutputFenced | OutputIndefinite | InputBroken
    | StillCommits | CommitsNoMore | Broke | Faulted
)  # fmt: skip


class Action(Enum):
    """Actions for the shell, in the order given."""

    DEPLOY = "load and warm up the operators"
    RESTORE = "rebuild the image from the checkpoint log"
    OPEN_INPUTS = "read from the marker's positions what the flags ask for"
    FLAG = "do from now on what the flags say"
    OUTPUTS = "with commit: fence the transactional id and read the delivered position; without: be ready to"
    DELIVER = "deliver what was kept, then all that follows"
    CLOSE_INPUTS = "stop reading"
    KEEP_ROWS = "keep the rows that are not known to be committed until the outputs are open again"
    CLOSE_OUTPUTS = "drop the transactional producer"
    READ_DECISIONS = "read assignments to the end"
    DROP_IMAGE = "forget the state"
    REPORT = "publish the new state at once"


_A, _S = Action, State
_FORGET = (_A.CLOSE_INPUTS, _A.CLOSE_OUTPUTS, _A.DROP_IMAGE)
_REBUILD = (*_FORGET, _A.RESTORE)
_CLOSE = (*_FORGET, _A.REPORT)
_STOP = (_A.CLOSE_INPUTS, _A.CLOSE_OUTPUTS, _A.REPORT)

_DEPLOYED, _SUSPENDED, _ACTIVE = Goal.DEPLOYED, Goal.SUSPENDED, Goal.ACTIVE

TRANSITIONS: dict[tuple[State, type, Goal | None], tuple[State, tuple[Action, ...]]] = {
    (_S.NEW, Placed, None): (_S.DEPLOYING, (_A.DEPLOY,)),
    (_S.DEPLOYING, Deployed, _DEPLOYED): (_S.DEPLOYED, (_A.REPORT,)),
    (_S.DEPLOYING, Deployed, None): (_S.RESTORING, (_A.RESTORE,)),
    (_S.DEPLOYING, InputBroken, None): (_S.DEPLOYING, (_A.DEPLOY,)),
    (_S.DEPLOYED, Placed, _SUSPENDED): (_S.RESTORING, (_A.RESTORE,)),
    (_S.DEPLOYED, Placed, _ACTIVE): (_S.RESTORING, (_A.RESTORE,)),
    # Outputs are opened while the first batches are processed; their rows are kept until then.
    (_S.RESTORING, Restored, _SUSPENDED): (_S.SUSPENDED, (_A.OPEN_INPUTS, _A.OUTPUTS, _A.REPORT)),
    (_S.RESTORING, Restored, _ACTIVE): (_S.RUNNING, (_A.OPEN_INPUTS, _A.OUTPUTS, _A.REPORT)),
    (_S.RESTORING, Restored, _DEPLOYED): (_S.DEPLOYED, (_A.DROP_IMAGE, _A.REPORT)),
    (_S.SUSPENDED, Placed, _ACTIVE): (_S.RUNNING, (_A.FLAG, _A.OUTPUTS, _A.REPORT)),
    (_S.SUSPENDED, Placed, _SUSPENDED): (_S.SUSPENDED, (_A.FLAG,)),
    (_S.SUSPENDED, Placed, _DEPLOYED): (_S.DEPLOYED, (*_FORGET, _A.REPORT)),
    (_S.RUNNING, Opened, None): (_S.RUNNING, (_A.DELIVER,)),
    (_S.RUNNING, Placed, _ACTIVE): (_S.RUNNING, (_A.FLAG, _A.OUTPUTS)),
    (_S.RUNNING, Placed, _SUSPENDED): (_S.SUSPENDED, (_A.FLAG, _A.OUTPUTS, _A.REPORT)),
    (_S.RUNNING, Placed, _DEPLOYED): (_S.DEPLOYED, (*_FORGET, _A.REPORT)),
    (_S.RUNNING, Finished, None): (_S.ENDED, _STOP),
    (_S.SUSPENDED, Finished, None): (_S.ENDED, _STOP),
    # The delivered position alone shows the outcome of the last transaction; the copy keeps the rows behind it.
    (_S.RUNNING, OutputIndefinite, None): (_S.RUNNING, (_A.KEEP_ROWS, _A.CLOSE_OUTPUTS, _A.OUTPUTS)),
    (_S.SUSPENDED, InputBroken, None): (_S.RESTORING, _REBUILD),
    (_S.RESTORING, InputBroken, None): (_S.RESTORING, (_A.DROP_IMAGE, _A.RESTORE)),
    # A copy with broken inputs or fenced outputs may have been replaced: it first reads who holds commit.
    (_S.RUNNING, InputBroken, None): (_S.FENCED_LOST, (*_FORGET, _A.READ_DECISIONS, _A.REPORT)),
    (_S.RUNNING, OutputFenced, None): (_S.FENCED, (_A.READ_DECISIONS, _A.REPORT)),
    (_S.FENCED, StillCommits, None): (_S.RESTORING, _REBUILD),
    # The inputs were trimmed while the copy was stopped: the reader reports that once, and delivers nothing more.
    (_S.FENCED, InputBroken, None): (_S.FENCED_LOST, _FORGET),
    (_S.FENCED_LOST, StillCommits, None): (_S.RESTORING, (_A.RESTORE,)),
    (_S.FENCED_LOST, CommitsNoMore, None): (_S.RESTORING, (_A.RESTORE,)),
    (_S.FENCED, CommitsNoMore, _ACTIVE): (_S.RUNNING, (_A.FLAG, _A.OUTPUTS, _A.REPORT)),
    (_S.FENCED, CommitsNoMore, _SUSPENDED): (_S.SUSPENDED, (_A.FLAG, _A.OUTPUTS, _A.REPORT)),
    (_S.FENCED, CommitsNoMore, _DEPLOYED): (_S.DEPLOYED, (*_FORGET, _A.REPORT)),
    # Recovery has placed the unit again on this worker.
    (_S.FAULTED, Placed, None): (_S.DEPLOYING, (_A.DEPLOY,)),
} | {
    (state, event, None): (after, actions)
    for state in _S if state not in (_S.NEW, _S.CLOSED)
    for event, after, actions in (
        (Unplaced, _S.CLOSED, _CLOSE), (Broke, _S.FAILED, _STOP), (Faulted, _S.FAULTED, (*_FORGET, _A.REPORT)),
    )
    if event is Unplaced or state not in (_S.FAULTED, _S.FAILED, _S.ENDED)
}  # fmt: skip
"""(state, event, goal of the flags; None: any other) -> (next state, actions).

The flags count from their assignment on, whatever the state.
"""

_OVER = "the copy is over: what was under way may still be answered"
_FLAGS_LATER = "the flags are kept, and count once the state is left"

IGNORED: dict[tuple[State, type], str] = {
    (_S.DEPLOYING, Placed): _FLAGS_LATER,
    (_S.DEPLOYED, Placed): "the flags ask for no more than what is there",
    (_S.DEPLOYED, InputBroken): "a copy without an image has no inputs; those that it closes may fail",
    (_S.RESTORING, Placed): _FLAGS_LATER,
    (_S.RESTORING, Finished): "the turn that found the end failed as well; the rebuilt copy finds the end again",
    (_S.FENCED, Placed): _FLAGS_LATER,
    (_S.FENCED, OutputFenced): "the outputs are lost already",
    (_S.FENCED, OutputIndefinite): "the outputs are lost already",
    (_S.FENCED_LOST, Placed): _FLAGS_LATER,
    (_S.FENCED_LOST, InputBroken): "the inputs are closed already",
} | {
    (state, event): _OVER
    for state in (_S.ENDED, _S.FAULTED, _S.FAILED, _S.CLOSED)
    for event in Event.__args__
    if event is not Unplaced and (state, event) not in ((_S.CLOSED, Placed), (_S.FAULTED, Placed))
}  # fmt: skip
"""(state, event) -> the reason why nothing follows, for pairs without a row in TRANSITIONS."""


@dataclass(slots=True)
class Lifecycle(Machine[State, Goal, Action]):
    """The state machine of one copy on a worker. `reached` is the last batch before an unexpected error."""

    state: State = State.NEW
    reached: int = 0

    TABLE: ClassVar[Table[Any, Any, Any]] = Table(TRANSITIONS, IGNORED)

    def goal(self, event: Event) -> Goal:
        return Goal.of(event.flags if isinstance(event, Placed) else self.flags)

    def entered(self, event: Event) -> None:
        if isinstance(event, Broke | InputBroken | Faulted):
            self.error = event.cause
        if isinstance(event, Faulted):
            self.reached = event.batch

    def check_invariants(self) -> None:
        assert self.state not in (State.FAILED, State.FAULTED) or self.error, f"{self.unit}: failed without a cause"
        assert self.state is State.NEW or self.epoch > 0, f"{self.unit}: {self.state.value} without an assignment"

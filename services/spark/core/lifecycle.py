"""The life of one copy of a Spark unit, from the first assignment with the copy to the first one without it.

Source: PROTOCOL 3, 8 and 12. Each row of TRANSITIONS is the reaction of a copy in one state to one event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from holdfast.services.kernel.lifecycle import Broke, Machine, Placed, Table, Unlisted, Unplaced

__all__ = ["Broke", "Placed", "Unlisted", "Unplaced"]

AGAIN_MS = 40_000.0
"""Time between two rehearsals. Spark's tasks keep an unused Python process for a minute."""
RETRY_MS = 1_000.0
"""Wait after a failure, multiplied by the number of failures in a row."""
MAX_FAILURES = 3
"""Failures in a row without a commit at which the job reports the cause."""


class State(Enum):
    """States of a copy; heartbeats report REPORTED."""

    NEW = "new"
    DEPLOYING = "deploying"
    REHEARSING = "rehearsing"
    SUSPENDED = "synced"
    IDLE = "idle"
    REFRESHING = "refreshing"
    FENCING = "fencing"
    STARTING = "opening"
    RUNNING = "running"
    PAUSED = "paused"
    RETRYING = "retrying"
    ARRIVING = "arriving"
    FINISHING = "finishing"
    CLOSING = "closing"
    ENDED = "ended"
    FENCED = "fenced"
    FAILED = "failed"
    CLOSED = "closed"


_S = State
REPORTED = {state: state.value for state in State} | {
    _S.NEW: "deploying", _S.REHEARSING: "deploying",
    _S.IDLE: "synced", _S.REFRESHING: "synced",
    _S.FENCING: "opening",
    _S.PAUSED: "running", _S.RETRYING: "running",
    _S.ARRIVING: "running", _S.FINISHING: "running", _S.CLOSING: "running",
}  # fmt: skip
"""The state in heartbeats, by state."""


class Goal(Enum):
    """Goals that the flags and the job's controls set for a copy."""

    STAND_BY = "be ready to take over"
    RUN = "run the query"
    PAUSE = "lead without a query"
    DRAIN = "process what has arrived, then end"


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repaired:
    """A person has skipped records of the commit log."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """The job's cut log asks the leader to run, to pause or to drain."""

    asked: Goal


@dataclass(frozen=True, slots=True)
class Deployed:
    """Spark's session is open."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The query ran over the newest records or failed; the leader reports faults of the query."""


@dataclass(frozen=True, slots=True)
class NothingRehearsed:
    """There were no records for a rehearsal."""


@dataclass(frozen=True, slots=True)
class BatchRead:
    """A valid commit was read."""


@dataclass(frozen=True, slots=True)
class Due:
    """The waiting time of the state has passed."""


@dataclass(frozen=True, slots=True)
class FenceRead:
    """The fence of this copy was read back as the newest one."""


@dataclass(frozen=True, slots=True)
class EndRead:
    """The last commit of the job was read, with the fence before it."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A later epoch has begun, or another copy has committed."""

    cause: str


@dataclass(frozen=True, slots=True)
class NotAppended:
    """Kafka did not append a fence or the last commit."""

    cause: str


@dataclass(frozen=True, slots=True)
class Started:
    """The query runs."""


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The query ended with an error. `come` grows with progress."""

    cause: str
    come: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunDone:
    """The query ended by itself, and Spark holds no rows that a last batch would release."""


@dataclass(frozen=True, slots=True)
class RowsHeld:
    """The query ended by itself, and Spark holds rows that a last batch releases."""


@dataclass(frozen=True, slots=True)
class InputEnded:
    """All writers of the operator's input have ended."""


Event = (
    Placed | Unplaced | Repaired | Controlled | Deployed | Rehearsed | NothingRehearsed | BatchRead | Due | FenceRead
    | EndRead | Superseded | NotAppended | Started | RunFailed | RunDone | RowsHeld | InputEnded | Broke
)  # fmt: skip


class Action(Enum):
    """Actions for the shell, in the order given."""

    DEPLOY = "read the commit log from its start, and wait for Spark's session"
    REHEARSE = "run the query over the newest records, and write nothing"
    FENCE = "append a fence and read it back; follow the job's controls"
    START = "run the query from the last valid commit"
    STOP = "end the query"
    FINISH = "run the query over what has arrived"
    CLOSE_WINDOWS = "run one batch whose watermark is at the end of time"
    COMMIT_LAST = "append the commit behind which nothing follows"
    PUBLISH_END = "publish that the unit has ended"
    TAKEN_OVER = "publish how long the takeover took, once"
    CLOSE = "close readers and appenders"


_A = Action
_RUN, _PAUSE, _DRAIN, _STAND_BY = Goal.RUN, Goal.PAUSE, Goal.DRAIN, Goal.STAND_BY

STANDING_BY = (_S.REHEARSING, _S.SUSPENDED, _S.IDLE, _S.REFRESHING)
LEADING = (
    _S.FENCING, _S.STARTING, _S.RUNNING, _S.PAUSED, _S.RETRYING, _S.ARRIVING, _S.FINISHING, _S.CLOSING,
)  # fmt: skip
COLD = (_S.FENCING, _S.STARTING, _S.PAUSED, _S.RETRYING)
"""States of a leader that may not have processed a batch: as a standby it rehearses first."""
OVER = (_S.ENDED, _S.FENCED, _S.FAILED)

TRANSITIONS: dict[tuple[State, type, Goal | None], tuple[State, tuple[Action, ...]]] = {
    (_S.NEW, Placed, None): (_S.DEPLOYING, (_A.DEPLOY,)),
    (_S.DEPLOYING, Deployed, _STAND_BY): (_S.REHEARSING, (_A.REHEARSE,)),
    (_S.DEPLOYING, Deployed, None): (_S.FENCING, (_A.FENCE,)),
    # A standby rehearses before it reports `synced`, and then from time to time.
    (_S.SUSPENDED, Due, None): (_S.REFRESHING, (_A.REHEARSE,)),
    (_S.IDLE, Due, None): (_S.REFRESHING, (_A.REHEARSE,)),
    (_S.IDLE, BatchRead, None): (_S.REFRESHING, (_A.REHEARSE,)),
    # Nothing starts before the fence is read back: until then the former leader may commit.
    (_S.FENCING, FenceRead, None): (_S.STARTING, (_A.START,)),
    (_S.FENCING, FenceRead, _PAUSE): (_S.PAUSED, ()),
    (_S.FENCING, FenceRead, _DRAIN): (_S.ARRIVING, ()),
    (_S.FENCING, EndRead, None): (_S.ENDED, (_A.PUBLISH_END,)),
    (_S.FENCING, NotAppended, None): (_S.FENCING, (_A.FENCE,)),
    (_S.STARTING, Started, None): (_S.RUNNING, (_A.TAKEN_OVER,)),
    (_S.RUNNING, RunDone, None): (_S.STARTING, (_A.START,)),
    (_S.RUNNING, RowsHeld, None): (_S.STARTING, (_A.START,)),
    (_S.STARTING, Controlled, _PAUSE): (_S.PAUSED, (_A.STOP,)),
    (_S.RUNNING, Controlled, _PAUSE): (_S.PAUSED, (_A.STOP,)),
    (_S.RETRYING, Controlled, _PAUSE): (_S.PAUSED, ()),
    (_S.PAUSED, Controlled, _RUN): (_S.STARTING, (_A.START,)),
    (_S.STARTING, Controlled, _DRAIN): (_S.ARRIVING, (_A.STOP,)),
    (_S.RUNNING, Controlled, _DRAIN): (_S.ARRIVING, (_A.STOP,)),
    (_S.RETRYING, Controlled, _DRAIN): (_S.ARRIVING, ()),
    (_S.PAUSED, Controlled, _DRAIN): (_S.ARRIVING, ()),
    # Everything that arrived is processed, then what Spark holds comes out, then the last commit.
    (_S.ARRIVING, InputEnded, None): (_S.FINISHING, (_A.FINISH,)),
    (_S.FINISHING, RowsHeld, None): (_S.CLOSING, (_A.CLOSE_WINDOWS,)),
    (_S.FINISHING, RunDone, None): (_S.CLOSING, (_A.COMMIT_LAST,)),
    (_S.CLOSING, EndRead, None): (_S.ENDED, (_A.STOP, _A.PUBLISH_END)),
    (_S.CLOSING, RunDone, None): (_S.RETRYING, ()),
    (_S.CLOSING, RowsHeld, None): (_S.RETRYING, ()),
    (_S.CLOSING, NotAppended, None): (_S.RETRYING, ()),
    (_S.RETRYING, Due, None): (_S.STARTING, (_A.START,)),
    (_S.RETRYING, Due, _DRAIN): (_S.ARRIVING, ()),
} | {
    (state, event, None): (after, ())
    for state in (_S.REHEARSING, _S.REFRESHING)
    for event, after in ((Rehearsed, _S.SUSPENDED), (NothingRehearsed, _S.IDLE))
} | {
    (state, RunFailed, None): (_S.RETRYING, (_A.STOP,))
    for state in (_S.STARTING, _S.RUNNING, _S.FINISHING, _S.CLOSING)
} | {
    (state, Placed, goal): (after, actions)
    for state in STANDING_BY
    for goal, after, actions in ((_STAND_BY, state, ()), (None, _S.FENCING, (_A.STOP, _A.FENCE)))
} | {
    (state, Placed, _STAND_BY): (_S.REHEARSING, (_A.REHEARSE,)) if state in COLD else (_S.SUSPENDED, (_A.STOP,))
    for state in LEADING
} | {
    (state, Superseded, None): (_S.FENCED, (_A.STOP,)) for state in LEADING
} | {
    (state, Placed, None): (_S.DEPLOYING, (_A.DEPLOY,)) for state in (_S.FENCED, _S.FAILED)
} | {
    (state, event, None): (after, actions)
    for state in _S if state not in (_S.NEW, _S.CLOSED)
    for event, after, actions in (
        (Unplaced, _S.CLOSED, (_A.STOP, _A.CLOSE)),
        (Repaired, _S.DEPLOYING, (_A.STOP, _A.DEPLOY)),
        (Broke, _S.FAILED, (_A.STOP,)),
    )
    if not (event is Broke and state in (_S.FAILED, _S.ENDED))
}  # fmt: skip
"""(state, event, goal of flags and controls; None: any other) -> (next state, actions).

A task of the engine ends when the next one begins; later events of the former task are ignored.
"""

_OVER = "the copy is over: what was under way may still be answered"
_STAYS = "it stays the leader: no other copy fences, so its epoch is still valid"

IGNORED: dict[tuple[State, type], str] = {
    (_S.DEPLOYING, Placed): "the flags count once the session is open",
    (_S.FENCING, Controlled): "what is asked counts once the fence is read back",
    (_S.STARTING, Controlled): "it starts already",
    (_S.RUNNING, Controlled): "it runs already",
    (_S.PAUSED, Controlled): "it is paused already",
    (_S.RETRYING, Controlled): "it runs again as soon as it has waited",
    (_S.FINISHING, Started): "the run ends by itself",
    (_S.CLOSING, Started): "the run ends by itself",
} | {
    (state, Placed): _STAYS for state in LEADING
} | {
    (state, Controlled): "a drain continues to its end" for state in (_S.ARRIVING, _S.FINISHING, _S.CLOSING)
} | {
    (state, BatchRead): "only a standby without a rehearsal waits for records"
    for state in (_S.DEPLOYING, *STANDING_BY, *LEADING) if state is not _S.IDLE
} | {
    (_S.ENDED, Placed): _OVER, (_S.ENDED, Broke): _OVER, (_S.FAILED, Broke): _OVER,
} | {
    (state, BatchRead): _OVER for state in OVER
}  # fmt: skip
"""(state, event) -> the reason why nothing follows, for pairs without a row in TRANSITIONS."""

_WAITS = {_S.SUSPENDED: AGAIN_MS, _S.IDLE: AGAIN_MS, _S.RETRYING: RETRY_MS}


@dataclass(slots=True)
class Lifecycle(Machine[State, Goal, Action]):
    """The state machine of one copy on a Spark driver.

    `leading` is the epoch of its fence, `asked` the goal set by the job's controls, `failures` counts failures in a
    row.
    """

    state: State = State.NEW
    leading: int = 0
    asked: Goal = Goal.RUN
    failures: int = 0
    _come: tuple[int, ...] | None = None
    _entered_ms: float = 0.0

    TABLE: ClassVar[Table[Any, Any, Any]] = Table(TRANSITIONS, IGNORED)

    def at(self, event: Event, now_ms: float) -> tuple[Action, ...]:
        """Returns the actions to carry out now. Repeated failures without progress break the copy. Raises Unlisted."""
        if isinstance(event, RunFailed):
            self.failures = self.failures + 1 if event.come == self._come else 1
            self._come = event.come
            event = event if self.failures < MAX_FAILURES else Broke(event.cause)
        before = self.state
        actions = self.handle(event)
        if self.state is not before:
            self._entered_ms = now_ms
        if isinstance(event, Controlled):
            self.asked = event.asked
        return actions

    @property
    def next_deadline(self) -> float:
        """The clock time of the next Due."""
        wait_ms = _WAITS.get(self.state, math.inf)
        return self._entered_ms + wait_ms * (self.failures or 1 if self.state is State.RETRYING else 1)

    @property
    def reported(self) -> str:
        return REPORTED[self.state]

    def goal(self, event: Event) -> Goal:
        flags = event.flags if isinstance(event, Placed) else self.flags
        asked = event.asked if isinstance(event, Controlled) else self.asked
        return asked if flags.commit else Goal.STAND_BY

    def entered(self, event: Event) -> None:
        if isinstance(event, Broke | Superseded):
            self.error = event.cause
        elif self.state is State.DEPLOYING:
            self.error = ""
        if self.state is State.FENCING:
            self.leading = self.epoch
            self.asked = Goal.RUN
            self.failures = 0
            self._come = None

    def check_invariants(self) -> None:
        assert self.state is not State.FAILED or self.error, f"{self.unit}: failed without a cause"
        assert self.state is State.NEW or self.epoch > 0, f"{self.unit}: {self.state.value} without an assignment"
        assert self.state not in LEADING or 0 < self.leading <= self.epoch, f"{self.unit}: leads without a fence"
        assert self.state not in LEADING or self.flags.commit, f"{self.unit}: {self.state.value} without `commit`"

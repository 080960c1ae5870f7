"""The shell of one copy of a unit: its events go through its lifecycle, and its errors ask for a reaction.

Source: PROTOCOL 5, 8 and 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.schemas.assignments import Flags
from holdfast.schemas.costs import Costs
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import FramesMissing, Refused
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.core import lifecycle
from holdfast.services.worker.core.lifecycle import Lifecycle, State
from holdfast.services.worker.core.reactions import Reaction, cause_of, reaction
from holdfast.services.worker.core.rebuilds import Rebuilds
from holdfast.services.worker.host.subscriptions import Handler
from holdfast.services.worker.isolated.code import CodeCrashed
from holdfast.services.worker.unit.effects import Effects
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.facts.takeover import Takeover
from holdfast.services.worker.unit.reports import costs_of, happened, state_of
from holdfast.services.worker.unit.turns.running_copy import RunningCopy

MISSING_MS = 10_000.0
"""Time between two messages of a copy that waits for frames that Kafka has lost."""
_STEPS = (State.RUNNING, State.SUSPENDED)


class UnitCopy:
    """A copy of a unit, hosted by this worker. Implements Subscriber and Shell."""

    def __init__(self, unit: HostedUnit) -> None:
        self._job = unit.job
        self._layout = unit.layout
        self._around = unit.around
        self._spent = unit.spent
        self.key = unit.key
        self.core = Lifecycle(self.key)
        self._rebuilds = Rebuilds()
        self._missing_ms = -math.inf
        self._effects = Effects(self, unit, self._rebuilds)

    @property
    def running(self) -> RunningCopy | None:
        """The copy at work; None while it has no state."""
        return self._effects.running

    # -- events from outside ------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        effects = self._effects
        if not flags.commit:
            effects.takeover = None
        elif self.core.state in (State.NEW, State.FAULTED) or not self.core.flags.commit:
            before = partial(self._job.processed, self._layout.unit.name)
            effects.takeover = Takeover(self._around.clock_ms(), effects.reached(), before)
        if self.core.state is State.FAULTED:
            self._rebuilds.forget()
            effects.load_code()
        self.handle(lifecycle.Placed(epoch, flags))

    def follow(self, plan_of: Callable[[str], Plan | None]) -> None:
        """Updates the plan of its job; a job that stood by may begin. `plan_of` takes a generation."""
        self._job.plan = plan_of(self._job.plan.generation) or self._job.plan
        self._effects.begin()

    def unplace(self) -> None:
        self.handle(lifecycle.Unplaced())

    @property
    def epoch(self) -> int:
        return self.core.epoch

    def handler(self, partition: Partition) -> Handler:
        """The handler of a partition while the copy runs as now; errors end or rebuild the copy."""
        assert self.running is not None
        running, read = self.running, self.running.handlers.of(partition)

        def handle(chunk: Chunk) -> None:
            if self.running is running:
                self._effects.receiving.answered(partition)
                with self._around.doing.of(self.key), self._spent.cpu(self._around.cpu_ms):
                    self._guard(lambda: read(self._job.passed_over(chunk)))

        return handle

    def broken(self, cause: str, partition: Partition | None = None, unanswered: bool = False) -> None:
        """Rebuilds the copy, because inputs and image no longer match; fails after MAX_REBUILDS, unanswered calls not
        counted. A user's topic that lost a position may have been replaced, which is checked first."""
        if partition is not None and self.running is not None and self.running.handlers.position_lost(partition, cause):
            return
        self.happened("copy-rebuilds", cause)
        if too_many := self._rebuilds.again(cause, unanswered):
            self._faulted(too_many)
        else:
            self.handle(lifecycle.InputBroken(cause))

    @property
    def next_deadline(self) -> float:
        """The clock time of the next turn unless an event comes before."""
        running = self.running
        if running is None or self.core.state not in _STEPS:
            return math.inf
        turn_ms, return_ms = running.turns.next_deadline, self._effects.receiving.return_ms
        return turn_ms if turn_ms < return_ms else return_ms

    def step(self, now_ms: float) -> bool:
        """Takes a turn if one is due. True if a batch was processed."""
        effects = self._effects
        running = effects.running
        if running is None or self.core.state not in _STEPS:
            return False
        if effects.code.any and (ended := effects.code.ended(now_ms)):
            self.failed(ended)
            return False
        if now_ms >= effects.receiving.return_ms:
            effects.receiving.look_back(running, now_ms)
        due = running.turns.due(now_ms)
        if not due and effects.takeover is None:
            return False
        with self._around.doing.of(self.key):
            return self._turn(running, due, now_ms)

    def _turn(self, running: RunningCopy, due: bool, now_ms: float) -> bool:
        effects = self._effects
        with self._spent.cpu(self._around.cpu_ms):
            worked = due and self._guard(lambda: running.step(now_ms))
        effects.receiving.turned(running, now_ms)
        if worked:
            self._rebuilds.forget()
        takeover = effects.takeover
        if takeover is not None and takeover.follow(running.condition, self._around.clock_ms()):
            self._spent.replay_ms = takeover.phases.get("replay")
            self.happened("unit-active", phases=takeover.phases)
            effects.takeover = None
        if effects.gaps and now_ms - self._missing_ms >= MISSING_MS and (missing := running.intake.inputs.missing):
            self._missing_ms = now_ms
            self.happened("frames-missing", f"Kafka has lost them, their writer sends them again: {missing}")
        running.publisher.publish_end()
        if running.checkpoints.finished:
            self.handle(lifecycle.Finished())
        return bool(worked)

    def report(self) -> CopyState:
        waits = self._effects.opening.refusals.waits(self._around.clock_ms()) if self.core.flags.commit else ""
        return state_of(self.key, self.core, self.running, waits, self._effects.rebuilt)

    def costs(self) -> Costs:
        return costs_of(self.key, self._spent, self.running, self._around.clock_ms(), self.core.flags.commit)

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def handle(self, event: lifecycle.Event) -> None:
        """Carries out the actions for an event. An event missing in the table ends the copy with its story."""
        try:
            actions = self.core.handle(event)
        except lifecycle.Unlisted as error:
            actions = self.core.handle(lifecycle.Faulted(str(error), self._effects.reached()))
        for action in actions:
            self._guard(partial(self._effects.carry_out, action))

    def _guard(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: Exception, delivering: bool = False) -> None:
        """Reacts to an error. Raises errors that end the process."""
        asked = reaction(error, delivering=delivering)
        if asked is Reaction.END_PROCESS:
            raise error
        if isinstance(error, FramesMissing):
            self._effects.gaps[error.partition] = error.offset
        if isinstance(error, CodeCrashed):
            self.happened("code-crashed", str(error))
        if asked is Reaction.REBUILD:
            restoring = self.core.state is State.RESTORING
            self.broken(str(error), unanswered=self._rebuilds.unanswered(error, restoring, self._around.clock_ms()))
        elif asked is Reaction.FAULT:
            self._faulted(cause_of(error))
        else:
            self.handle(_SAID[asked](str(error)))

    def _faulted(self, cause: str) -> None:
        """Ends the copy; recovery tries the unit elsewhere (docs/failures.md)."""
        self.handle(lifecycle.Faulted(cause, self._effects.reached()))

    def delivery_failed(self, error: Exception) -> None:
        if isinstance(error, Refused):
            self.happened("delivery-refused", str(error))
        elif said := self._effects.opening.refusals.event(self._around.clock_ms()):
            self.happened("delivery-stands-still", said)
        self.failed(error, delivering=True)

    def happened(self, kind: str, detail: str = "", phases: dict[str, float] | None = None) -> None:
        of = self._job.plan.job, self._layout.unit.name
        batch = -1 if self.running is None else self._effects.reached()
        self._around.happened(happened(self._around.time_ms(), of, self.core.epoch, batch, kind, detail, phases))


_SAID: dict[Reaction, Callable[[str], lifecycle.Event]] = {
    Reaction.FENCE: lambda _: lifecycle.OutputFenced(),
    Reaction.REOPEN: lambda _: lifecycle.OutputIndefinite(),
    Reaction.FAIL: lifecycle.Broke,
}

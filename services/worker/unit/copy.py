"""The shell of one copy of a unit, which carries out the actions of its lifecycle.

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
from holdfast.services.kernel.errors import FramesMissing, Refused, Retriable
from holdfast.services.kernel.state.image import Image
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.checkpoint.restoring import Rebuilt
from holdfast.services.worker.core import lifecycle
from holdfast.services.worker.core.lifecycle import Action, Lifecycle, State
from holdfast.services.worker.core.reactions import Reaction, cause_of, reaction
from holdfast.services.worker.host.subscriptions import Handler
from holdfast.services.worker.isolated.code import CodeCrashed
from holdfast.services.worker.unit.beside import begun, code_of, load, restoring
from holdfast.services.worker.unit.hosted_unit import HostedUnit
from holdfast.services.worker.unit.opening import Opening
from holdfast.services.worker.unit.receiving import Receiving
from holdfast.services.worker.unit.reporting import costs_of, happened, state_of
from holdfast.services.worker.unit.running import Running
from holdfast.services.worker.unit.takeover import Takeover

MAX_REBUILDS = 20
PATIENT_MS = 1_000
"""Time without an answer after which a failed call shows that Kafka is away, and no fault of the copy."""
MISSING_MS = 10_000.0
"""Time between two messages of a copy that waits for frames that Kafka has lost."""
_STEPS = (State.RUNNING, State.SUSPENDED)
_OVER = (State.ENDED, State.FAULTED, State.FAILED, State.CLOSED)


class UnitCopy:
    """A copy of a unit, hosted by this worker. Implements Subscriber."""

    def __init__(self, unit: HostedUnit) -> None:
        self._job, self._layout, self._around, self._spent = unit.job, unit.layout, unit.around, unit.spent
        self.key = unit.key
        self.core = Lifecycle(self.key)
        self.running: Running | None = None
        self._rebuilt: Rebuilt | None = None
        self._image: Image | None = None
        self._receiving = Receiving(self, unit)
        self._opening = Opening(unit, self._reached, failed=self._delivery_failed, happened=self._happened)
        self._attempt = self._rebuilds = self._restored_batch = 0
        self._restored_from_ms = self._missing_ms = -math.inf
        self._takeover: Takeover | None = None
        self._gaps: dict[str, int] = {}
        self._run_from = partial(Running, unit, gaps=self._gaps)
        self._code = code_of(self._job, self._layout, self._around)

    # -- events from outside ------------------------------------------------------------------------------------------

    def place(self, epoch: int, flags: Flags) -> None:
        if not flags.commit:
            self._takeover = None
        elif self.core.state in (State.NEW, State.FAULTED) or not self.core.flags.commit:
            before = partial(self._job.processed, self._layout.unit.name)
            self._takeover = Takeover(self._around.clock_ms(), self._reached(), before)
        if self.core.state is State.FAULTED:
            self._rebuilds, self._code = 0, code_of(self._job, self._layout, self._around)
        self._handle(lifecycle.Placed(epoch, flags))

    def follow(self, plan_of: Callable[[str], Plan | None]) -> None:
        """Updates the plan of its job; a job that stood by may begin. `plan_of` takes a generation."""
        self._job.plan = plan_of(self._job.plan.generation) or self._job.plan
        if self._rebuilt is not None and not self._job.plan.stands_by:
            self._restored(self._rebuilt)

    def unplace(self) -> None:
        self._handle(lifecycle.Unplaced())

    @property
    def epoch(self) -> int:
        return self.core.epoch

    @property
    def closed(self) -> bool:
        return self.core.state is State.CLOSED

    def handler(self, partition: Partition) -> Handler:
        """The handler of a partition while the copy runs as now; errors end or rebuild the copy."""
        assert self.running is not None
        running, read = self.running, self.running.handlers.of(partition)

        def handle(chunk: Chunk) -> None:
            if self.running is running:
                self._receiving.answered(partition)
                with self._around.doing.of(self.key), self._spent.cpu(self._around.cpu_ms):
                    self._guard(lambda: read(self._job.passed_over(chunk)))

        return handle

    def broken(self, cause: str, partition: Partition | None = None, unanswered: bool = False) -> None:
        """Rebuilds the copy, because inputs and image no longer match; fails after MAX_REBUILDS, unanswered calls not
        counted. A user's topic that lost a position may have been replaced, which is checked first."""
        if partition is not None and self.running is not None and self.running.handlers.position_lost(partition, cause):
            return
        self._rebuilds += not unanswered
        self._happened("copy-rebuilds", cause)
        if self._rebuilds > MAX_REBUILDS:
            self._faulted(f"gave up after {MAX_REBUILDS} rebuilds without a batch: {cause}")
        else:
            self._handle(lifecycle.InputBroken(cause))

    @property
    def next_deadline(self) -> float:
        """The clock time of the next turn unless an event comes before."""
        running = self.running
        if running is None or self.core.state not in _STEPS:
            return math.inf
        turn_ms, return_ms = running.turns.next_deadline, self._receiving.return_ms
        return turn_ms if turn_ms < return_ms else return_ms

    def step(self, now_ms: float) -> bool:
        """Takes a turn if one is due. True if a batch was processed."""
        running = self.running
        if running is None or self.core.state not in _STEPS:
            return False
        if self._code.any and (ended := self._code.ended(now_ms)):
            self._failed(ended)
            return False
        if now_ms >= self._receiving.return_ms:
            self._receiving.look_back(running, now_ms)
        due = running.turns.due(now_ms)
        if not due and self._takeover is None:
            return False
        with self._around.doing.of(self.key):
            return self._turn(running, due, now_ms)

    def _turn(self, running: Running, due: bool, now_ms: float) -> bool:
        with self._spent.cpu(self._around.cpu_ms):
            worked = due and self._guard(lambda: running.step(now_ms))
        self._receiving.turned(running, now_ms)
        if worked:
            self._rebuilds = 0
        if self._takeover is not None and self._takeover.look(running.condition, self._around.clock_ms()):
            self._spent.replay_ms = self._takeover.phases.get("replay")
            self._happened("unit-active", phases=self._takeover.phases)
            self._takeover = None
        if self._gaps and now_ms - self._missing_ms >= MISSING_MS and (missing := running.intake.inputs.missing):
            self._missing_ms = now_ms
            self._happened("frames-missing", f"Kafka has lost them, their writer sends them again: {missing}")
        running.publisher.publish_end()
        if running.checkpoints.finished:
            self._handle(lifecycle.Finished())
        return bool(worked)

    def report(self) -> CopyState:
        waits = self._opening.refusals.waits(self._around.clock_ms()) if self.core.flags.commit else ""
        return state_of(self.key, self.core, self.running, waits, self._rebuilt)

    def costs(self) -> Costs:
        return costs_of(self.key, self._spent, self.running, self._around.clock_ms(), self.core.flags.commit)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _handle(self, event: lifecycle.Event) -> None:
        """Carries out the actions for an event. An event missing in the table ends the copy with its story."""
        try:
            actions = self.core.handle(event)
        except lifecycle.Unlisted as error:
            actions = self.core.handle(lifecycle.Faulted(str(error), self._reached()))
        for action in actions:
            self._guard(partial(_DO[action], self))

    def _deploy(self) -> None:
        """Loads every operator and runs a warm-up batch through it: a cold first batch takes 0.4 to 1.9 s."""
        began_ms = self._around.clock_ms()

        def deployed(found: list[tuple[str, str]]) -> None:
            self._spent.deploy_ms = self._around.clock_ms() - began_ms
            for kind, detail in found:
                self._happened(kind, detail)
            self._handle(lifecycle.Deployed())

        self._run(partial(load, self._layout, self._code), deployed, "loading")

    def _restore(self) -> None:
        self._attempt += 1  # only the latest restore counts
        image = self._around.image(f"{self.key}.{self.core.epoch}.{self._attempt}")
        self._restored_from_ms = self._around.clock_ms()
        self._run(restoring(self._job, self._layout, self._around, image, self._code), self._restored, "restoring")

    def _restored(self, rebuilt: Rebuilt) -> None:
        self._rebuilt, self._image = rebuilt, rebuilt.image
        if self._job.plan.stands_by:
            return
        if rebuilt.batch < self._job.plan.first_batch:  # what has changed while it stood by lies behind
            self._rebuilt = None
            return self._run(begun(self._job, self._layout, self._around, rebuilt), self._restored, "restoring")
        took = self._around.clock_ms() - self._restored_from_ms
        self._spent.restored(rebuilt.entries, rebuilt.bytes, took, rebuilt.cpu_ms)
        if rebuilt.batch > self._restored_batch:  # a suspended copy advances by the markers of another copy alone
            self._rebuilds, self._restored_batch = 0, rebuilt.batch
        self._handle(lifecycle.Restored(rebuilt.batch))

    def _open_inputs(self) -> None:
        assert self._rebuilt is not None
        placed, took_over = lifecycle.Placed(self.core.epoch, self.core.flags), self._takeover is not None
        self.running = self._run_from(self._rebuilt, placed, build=self._code.build, took_over=took_over)
        self._rebuilt = None
        self._around.control.add(self, self.running.handlers.control_positions())
        self._receive()

    def _flag(self) -> None:
        assert self.running is not None
        self.running.place(self.core.epoch, self.core.flags)
        self._receive()

    def _receive(self) -> None:
        """Reads the inputs from the image's positions if the flags say so."""
        assert self.running is not None
        self._receiving.place(self.running, self.core.flags.receive)

    def _outputs(self) -> None:
        """With commit, takes the transactional id; without, only connects."""
        self._opening.place(self.core.epoch, self.core.flags.commit, lambda: self._handle(lifecycle.Opened()))

    def _deliver(self) -> None:
        assert self.running is not None
        assert self._opening.delivery is not None
        self.running.deliver_by(self._opening.delivery)

    def _reached(self) -> int:
        return 0 if self.running is None else self.running.condition.batch

    def _keep_rows(self) -> None:
        assert self.running is not None
        self.running.outputs.keep_rows()

    def _close_inputs(self) -> None:
        self._attempt += 1
        if self._takeover is not None:
            self._takeover = self._takeover.again()
        self._receiving.close()
        self._around.control.remove(self)
        if self.running is not None:
            self.running.close()
            self._around.restores.run(self.running.store.release, lambda _: None, self.key)
            self._around.left()
        self.running = None

    def _close_outputs(self) -> None:
        self._opening.close()

    def _read_decisions(self) -> None:
        said: dict[bool, lifecycle.Event] = {True: lifecycle.StillCommits(), False: lifecycle.CommitsNoMore()}
        self._around.read_decisions(lambda: self._handle(said[self.core.flags.commit]))

    def _drop_image(self) -> None:
        self._attempt += 1
        self._rebuilt = None
        if self._image is not None:
            self._image.close()
            self._image = None

    def _report(self) -> None:
        kind = f"copy-{self.core.state.value}"
        self._happened(kind, self.core.error if self.core.state in (State.FAILED, State.FAULTED) else "")
        if self.core.state in _OVER:
            self._code.close()

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def _run(self, call: Callable[[], Any], done: Callable[[Any], None], what: str) -> None:
        """Runs a call beside the loop; its outcome is dropped if the copy was rebuilt or closed meanwhile."""
        attempt = self._attempt

        def finish(outcome: Any) -> None:
            if attempt != self._attempt or self.closed:
                return
            if isinstance(outcome, Exception):
                self._failed(outcome)
            else:
                done(outcome)

        self._around.restores.run(self._around.doing.traces.beside(self.key, what, call), finish, self.key)

    def _guard(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception, delivering: bool = False) -> None:
        """Reacts to an error. Raises errors that end the process."""
        asked = reaction(error, delivering=delivering)
        if asked is Reaction.END_PROCESS:
            raise error
        if isinstance(error, FramesMissing):
            self._gaps[error.partition] = error.offset
        if isinstance(error, CodeCrashed):
            self._happened("code-crashed", str(error))
        if asked is Reaction.REBUILD:
            waits = self.core.state is State.RESTORING and isinstance(error, Retriable)
            waited_ms = self._around.clock_ms() - self._restored_from_ms
            self.broken(str(error), unanswered=waits and waited_ms >= PATIENT_MS)
        elif asked is Reaction.FAULT:
            self._faulted(cause_of(error))
        else:
            self._handle(_SAID[asked](str(error)))

    def _faulted(self, cause: str) -> None:
        """Ends the copy; recovery tries the unit elsewhere (docs/failures.md)."""
        self._handle(lifecycle.Faulted(cause, self._reached()))

    def _delivery_failed(self, error: Exception) -> None:
        if isinstance(error, Refused):
            self._happened("delivery-refused", str(error))
        elif said := self._opening.refusals.event(self._around.clock_ms()):
            self._happened("delivery-stands-still", said)
        self._failed(error, delivering=True)

    def _happened(self, kind: str, detail: str = "", phases: dict[str, float] | None = None) -> None:
        of, batch = (self._job.plan.job, self._layout.unit.name), -1 if self.running is None else self._reached()
        self._around.happened(happened(self._around.time_ms(), of, self.core.epoch, batch, kind, detail, phases))


_SAID: dict[Reaction, Callable[[str], lifecycle.Event]] = {
    Reaction.FENCE: lambda _: lifecycle.OutputFenced(),
    Reaction.REOPEN: lambda _: lifecycle.OutputIndefinite(),
    Reaction.FAIL: lifecycle.Broke,
}
_DO: dict[Action, Callable[[UnitCopy], None]] = {
    Action.DEPLOY: UnitCopy._deploy,
    Action.RESTORE: UnitCopy._restore,
    Action.OPEN_INPUTS: UnitCopy._open_inputs,
    Action.FLAG: UnitCopy._flag,
    Action.OUTPUTS: UnitCopy._outputs,
    Action.DELIVER: UnitCopy._deliver,
    Action.CLOSE_INPUTS: UnitCopy._close_inputs,
    Action.KEEP_ROWS: UnitCopy._keep_rows,
    Action.CLOSE_OUTPUTS: UnitCopy._close_outputs,
    Action.READ_DECISIONS: UnitCopy._read_decisions,
    Action.DROP_IMAGE: UnitCopy._drop_image,
    Action.REPORT: UnitCopy._report,
}

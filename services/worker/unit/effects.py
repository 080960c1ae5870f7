"""Carries out the actions of a copy's lifecycle: on its image, its inputs and its outputs.

Source: PROTOCOL 5, 6, 8 and 9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from holdfast.services.kernel.state.image import Image
from holdfast.services.worker.checkpoint.restore import Rebuilt
from holdfast.services.worker.core import lifecycle
from holdfast.services.worker.core.lifecycle import Action, Lifecycle, State
from holdfast.services.worker.core.rebuilds import Rebuilds
from holdfast.services.worker.host.subscriptions import Subscriber
from holdfast.services.worker.unit.facts.beside import begun, code_of, load, restoring
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.facts.takeover import Takeover
from holdfast.services.worker.unit.input_choice import InputChoice
from holdfast.services.worker.unit.outputs.opener import OutputOpener
from holdfast.services.worker.unit.turns.running_copy import RunningCopy

_FAILED = (State.FAILED, State.FAULTED)
_OVER = (State.ENDED, *_FAILED, State.CLOSED)


class Shell(Subscriber, Protocol):
    """The copy whose actions are carried out, and which handles their outcomes."""

    core: Lifecycle

    def handle(self, event: lifecycle.Event) -> None:
        """Handles the event that an action has led to."""

    def failed(self, error: Exception) -> None:
        """Reacts to an error of a call beside the loop."""

    def delivery_failed(self, error: Exception) -> None:
        """Reacts to an error of the outputs."""

    def happened(self, kind: str, detail: str = "") -> None:
        """Publishes an event of the copy."""


class Effects:
    """The effects of one copy's actions.

    Attributes:
        running: the copy at work; None while it has no state.
        rebuilt: the state with which the copy is to begin, for example when its job no longer stands by.
        takeover: the takeover under way.
        gaps: offsets of the first frames that Kafka has lost, by partition; a restored copy waits for these frames.
        code: users' code in processes of its own.
    """

    def __init__(self, copy: Shell, unit: HostedUnit, rebuilds: Rebuilds) -> None:
        self._copy = copy
        self._unit = unit
        self._rebuilds = rebuilds
        self._job = unit.job
        self._layout = unit.layout
        self._around = unit.around
        self.running: RunningCopy | None = None
        self.rebuilt: Rebuilt | None = None
        self.takeover: Takeover | None = None
        self.gaps: dict[str, int] = {}
        self.receiving = InputChoice(copy, unit)
        self.opening = OutputOpener(unit, self.reached, failed=copy.delivery_failed, happened=copy.happened)
        self.load_code()
        self._image: Image | None = None
        self._attempt = 0

    def carry_out(self, action: Action) -> None:
        _DO[action](self)

    def load_code(self) -> None:
        """Prepares the copy's isolated code, which starts with the next deployment or restore."""
        self.code = code_of(self._job, self._layout, self._around)

    def reached(self) -> int:
        """The last batch done; 0 without state."""
        return 0 if self.running is None else self.running.condition.batch

    # -- its state ----------------------------------------------------------------------------------------------------

    def _deploy(self) -> None:
        """Loads every operator and runs a warm-up batch through it: a cold first batch takes 0.4 to 1.9 s."""
        began_ms = self._around.clock_ms()

        def deployed(found: list[tuple[str, str]]) -> None:
            self._unit.spent.deploy_ms = self._around.clock_ms() - began_ms
            for kind, detail in found:
                self._copy.happened(kind, detail)
            self._copy.handle(lifecycle.Deployed())

        self._run(partial(load, self._layout, self.code), deployed, "loading")

    def _restore(self) -> None:
        self._attempt += 1  # only the latest restore counts
        image = self._around.image(f"{self._unit.key}.{self._copy.core.epoch}.{self._attempt}")
        self._rebuilds.began_ms = self._around.clock_ms()
        self._run(restoring(self._job, self._layout, self._around, image, self.code), self._restored, "restoring")

    def _restored(self, rebuilt: Rebuilt) -> None:
        self.rebuilt = rebuilt
        self._image = rebuilt.image
        self.begin()

    def begin(self) -> None:
        """Begins with the restored state, if there is one and the job does not stand by."""
        rebuilt = self.rebuilt
        if rebuilt is None or self._job.plan.stands_by:
            return
        if rebuilt.batch < self._job.plan.first_batch:  # the cluster has moved on while the copy stood by
            self.rebuilt = None
            return self._run(begun(self._job, self._layout, self._around, rebuilt), self._restored, "restoring")
        took = self._around.clock_ms() - self._rebuilds.began_ms
        self._unit.spent.restored(rebuilt.entries, rebuilt.bytes, took, rebuilt.cpu_ms)
        self._rebuilds.restored(rebuilt.batch)
        self._copy.handle(lifecycle.Restored(rebuilt.batch))

    def _drop_image(self) -> None:
        self._attempt += 1
        self.rebuilt = None
        if self._image is not None:
            self._image.close()
            self._image = None

    def _run(self, call: Callable[[], Any], done: Callable[[Any], None], what: str) -> None:
        """Runs a call beside the loop; its outcome is dropped if the copy was rebuilt or closed meanwhile."""
        attempt = self._attempt

        def finish(outcome: Any) -> None:
            if attempt != self._attempt or self._copy.core.state is State.CLOSED:
                return
            if isinstance(outcome, Exception):
                self._copy.failed(outcome)
            else:
                done(outcome)

        key = self._unit.key
        self._around.restores.run(self._around.doing.traces.beside(key, what, call), finish, key)

    # -- its inputs ---------------------------------------------------------------------------------------------------

    def _open_inputs(self) -> None:
        assert self.rebuilt is not None
        core, took_over = self._copy.core, self.takeover is not None
        placed = lifecycle.Placed(core.epoch, core.flags)
        self.running = RunningCopy(
            self._unit, self.rebuilt, placed, self.gaps, build=self.code.build, took_over=took_over
        )
        self.rebuilt = None
        self._around.control.add(self._copy, self.running.handlers.control_positions())
        self.receiving.place(self.running, core.flags.receive)

    def _flag(self) -> None:
        assert self.running is not None
        core = self._copy.core
        self.running.place(core.epoch, core.flags)
        self.receiving.place(self.running, core.flags.receive)

    def _close_inputs(self) -> None:
        self._attempt += 1
        if self.takeover is not None:
            self.takeover = self.takeover.again()
        self.receiving.close()
        self._around.control.remove(self._copy)
        if self.running is not None:
            self.running.close()
            self._around.restores.run(self.running.checkpoints.store.release, lambda _: None, self._unit.key)
            self._around.left()
        self.running = None

    # -- its outputs --------------------------------------------------------------------------------------------------

    def _outputs(self) -> None:
        """With commit, takes the transactional id; without, only connects."""
        core = self._copy.core
        self.opening.place(core.epoch, core.flags.commit, lambda: self._copy.handle(lifecycle.Opened()))

    def _deliver(self) -> None:
        assert self.running is not None
        assert self.opening.delivery is not None
        self.running.deliver_by(self.opening.delivery)

    def _keep_rows(self) -> None:
        assert self.running is not None
        self.running.outputs.keep_rows()

    def _close_outputs(self) -> None:
        self.opening.close()

    # -- assignments and reports --------------------------------------------------------------------------------------

    def _read_decisions(self) -> None:
        core = self._copy.core
        said: dict[bool, lifecycle.Event] = {True: lifecycle.StillCommits(), False: lifecycle.CommitsNoMore()}
        self._around.read_decisions(lambda: self._copy.handle(said[core.flags.commit]))

    def _report(self) -> None:
        core = self._copy.core
        self._copy.happened(f"copy-{core.state.value}", core.error if core.state in _FAILED else "")
        if core.state in _OVER:
            self.code.close()


_DO: dict[Action, Callable[[Effects], None]] = {
    Action.DEPLOY: Effects._deploy,
    Action.RESTORE: Effects._restore,
    Action.OPEN_INPUTS: Effects._open_inputs,
    Action.FLAG: Effects._flag,
    Action.OUTPUTS: Effects._outputs,
    Action.DELIVER: Effects._deliver,
    Action.CLOSE_INPUTS: Effects._close_inputs,
    Action.KEEP_ROWS: Effects._keep_rows,
    Action.CLOSE_OUTPUTS: Effects._close_outputs,
    Action.READ_DECISIONS: Effects._read_decisions,
    Action.DROP_IMAGE: Effects._drop_image,
    Action.REPORT: Effects._report,
}

"""Users' code of a line, with instances and, for isolated code, processes of its own.

A process of the stable batches keeps values that it has read of their state, so the line shares none. The line's
processes are started beside the loop when an upstream unit is out, and end with the line. Source: MECHANISMS P12,
decision 0205.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.schemas.heartbeats import LINE
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.operators.kind import Fields
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.state.table import Tables
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.isolated.code import IsolatedCode
from holdfast.services.worker.unit.facts.beside import code_of


class LineCode:
    """The code of one copy's line. `ready` is True if all of it is loaded."""

    def __init__(self, job: JobView, layout: UnitLayout, around: HostServices) -> None:
        self._job = job
        self._layout = layout
        self._around = around
        self._code: IsolatedCode | None = None
        self.ready = False

    def start(self, failed: Callable[[str], None]) -> None:
        """Starts loading. `failed` is called with the cause if the code cannot be loaded."""
        self.close()
        code = self._code = code_of(self._job, self._layout, self._around)
        if not code.any:
            self.ready = True
            return

        def done(outcome: object) -> None:
            if self._code is not code:
                return
            self.ready = not isinstance(outcome, Exception)
            if isinstance(outcome, Exception):
                failed(f"{type(outcome).__name__}: {outcome}")

        key = self._job.key(self._layout.unit.name)
        self._around.restores.run(self._around.doing.traces.beside(key, LINE, code.start), done, key)

    def build(self, operator: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        """Builds one task; implements catalogue.Build."""
        assert self._code is not None
        return self._code.build(operator, inputs, tables)

    def close(self) -> None:
        if self._code is not None:
            self._code.close()
        self._code = None
        self.ready = False

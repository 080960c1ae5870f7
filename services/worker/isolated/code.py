"""The processes of one copy's isolated code, one for each task that asks for it, and the handling of their crashes.

Source: docs/decisions/0071. A crash costs the process and the copy's image: the copy begins again from its checkpoint
with a new process. A batch that ends three processes in a row fails the copy, and with it the job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from holdfast.schemas.plans import OperatorPlan
from holdfast.services.hosting.watchdog import COLD
from holdfast.services.kernel.errors import InvalidRecord, Retriable
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Fields
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.user_code import CodeUnavailable
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.state.table import Tables
from holdfast.services.worker.isolated.code_process import CodeEnded, CodeProcess
from holdfast.services.worker.isolated.isolation import Isolation
from holdfast.services.worker.isolated.messages import Open
from holdfast.services.worker.isolated.task import IsolatedTask

T = TypeVar("T")

LOOK_MS = 1_000.0
"""Time between two checks that a resting process has not ended."""
MOST_CRASHES = 3
"""Number of crashes in a row at one batch that fail the copy."""


class CodeCrashed(Retriable):
    """The process of a task's code has ended during its work. Its batch is tried again in a new process."""


class IsolatedCode:
    """The processes of one copy's isolated code, for the life of the copy. Without isolated tasks no method does
    anything.

    Args:
        rules: rules for the processes; None if no task gets a process.
        cold: returns True if the unit at hand has not done a batch in this worker yet.
        records: returns the records of the users' topics in a batch, as text for people; blocks.

    Attributes:
        any: True if a task asks for a process.
    """

    def __init__(
        self, layout: UnitLayout, rules: Isolation | None, cold: Callable[[], bool], records: Callable[[int], str]
    ) -> None:
        tasks = [] if rules is None else [task for task in layout.tasks if _isolated(task.operator)]
        self._rules = rules = rules or Isolation()
        self._cold = cold
        self._records = records
        allow = None if rules.allow is None else list(rules.allow)
        self._planned = {task.name: dict(task.operator.fields) for task in tasks}
        self._processes = {
            task.name: CodeProcess(Open(task.operator, dict(task.input_fields[0]), task.name, allow), rules)
            for task in tasks
        }
        self.any = bool(tasks)
        self._at = ("", 0)
        self._count = 0
        self._last = ""
        self._look_ms = -math.inf

    @property
    def pids(self) -> dict[str, int]:
        """The ids of running processes, by task."""
        return {name: pid for name, process in self._processes.items() if (pid := process.pid) is not None}

    def start(self) -> None:
        """Starts missing processes and returns when all code is loaded. For a thread beside the loop.

        Raises:
            InvalidRecord: a batch has ended three processes in a row.
            CodeCrashed: a process ended while it loaded its code.
            CodeUnavailable: code cannot be loaded, or its output columns have changed since the job was planned.
        """
        if self._count >= MOST_CRASHES:
            records = self._records(self._at[1]) if self._at[1] else ""
            named = f"; its records: {records}" if records else ""
            raise InvalidRecord(f"{self._last}, {plural(self._count, 'time')} in a row{named}")
        started = {name: process for name, process in self._processes.items() if process.pid is None}
        try:
            for name, process in started.items():
                self._loading(name, process.start)
            for name, process in started.items():
                self._check(name, self._loading(name, process.loaded))
        except BaseException:
            for process in started.values():  # their first answers are still unread
                process.end()
            raise

    def build(self, operator: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        """Builds one task; implements catalogue.Build."""
        process = self._processes.get(tables.task)
        if process is None:
            return catalogue.build(operator, inputs, tables)
        crashed, done = partial(self._crashed, tables.task), partial(self._done, tables.task)
        return IsolatedTask(
            operator, inputs[0], tables, process, patience_s=self._patience_s, crashed=crashed, done=done
        )

    def ended(self, now_ms: float) -> CodeCrashed | None:
        """The error of a process that has ended at rest, for example by the kernel for lack of memory; None if all run.
        Called in the turns of a copy, so that its standby stays ready and its next batch does not wait."""
        if not self._processes or now_ms < self._look_ms:
            return None
        self._look_ms = now_ms + LOOK_MS
        names = (name for name, process in self._processes.items() if process.pid is None)
        return next((CodeCrashed(f"the process of the code of {name} ended while it rested") for name in names), None)

    def close(self) -> None:
        """Ends all processes at the end of the copy."""
        for process in self._processes.values():
            process.close()

    def _loading(self, task: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except CodeEnded as ended:
            raise self._crashed(task, 0, ended) from None

    def _check(self, task: str, found: Fields) -> None:
        if found != (planned := self._planned[task]):
            raise CodeUnavailable(
                f"the code of {task} puts out {found} here, and put out {planned} when the job was planned: submit the "
                "job again, or give every worker the same code"
            )

    def _patience_s(self) -> float:
        return self._rules.patience_s * (COLD if self._cold() else 1)

    def _crashed(self, task: str, batch: int, ended: CodeEnded) -> CodeCrashed:
        self._count = self._count + 1 if self._at == (task, batch) else 1
        where = f"in batch {batch}" if batch else "while it loaded the code"
        self._at = (task, batch)
        self._last = f"the process of the code of {task} {ended}, {where}"
        return CodeCrashed(self._last)

    def _done(self, task: str, batch: int) -> None:
        """Forgets crashes at batches up to this one, which did not cause them."""
        if self._count and self._at[0] == task and batch >= self._at[1]:
            self._at = ("", 0)
            self._count = 0


def _isolated(operator: OperatorPlan) -> bool:
    kind = catalogue.OPERATORS.get(operator.kind)
    return kind is not None and kind.isolated(operator.settings)

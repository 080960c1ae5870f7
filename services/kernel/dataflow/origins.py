"""Origins: the record of a user's topic that a refused row came of.

Nothing is kept for a row on its way. Once an operator has refused rows of a batch, the operators above it compute the
batch again, with numbers in place of event times: filter, select and union pass these on. Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from schemas.dead_letters import NOWHERE, Position
from services.kernel.dataflow.fed import Fed
from services.kernel.operators import catalogue
from services.kernel.operators.operator import TIME, BatchContext, Operator, Refused
from services.kernel.plans.layout import LocalInput, TaskLayout

_UNKNOWN = -1


class Origins:
    """Of the rows of one batch.

    Args:
        operators: by task. outputs: by task, of those above the operator that refused.
    """

    def __init__(
        self,
        tasks: Sequence[TaskLayout],
        operators: Mapping[str, Operator],
        outputs: Mapping[str, Fed],
        context: BatchContext,
    ) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._operators, self._outputs, self._context = operators, outputs, context
        self._numbers: dict[str, np.ndarray] = {}
        self._numbered: list[tuple[int, Fed]] = []

    def of(self, task: TaskLayout, refused: Refused) -> Position:
        """NOWHERE if the row came from another unit, of several records, or out of state."""
        source = task.inputs[refused.slot]
        if refused.place < 0 or not isinstance(source, LocalInput):
            return NOWHERE
        number = int(self._of_rows(source.task)[refused.place])
        if number == _UNKNOWN:
            return NOWHERE
        first, fed = next(one for one in reversed(self._numbered) if one[0] <= number)
        return NOWHERE if fed.position is None else fed.position(number - first)

    def _of_rows(self, name: str) -> np.ndarray:
        """A number for each row that the task put out; equal numbers are one record's row."""
        if name not in self._numbers:
            self._numbers[name] = self._computed(self._tasks[name])
        return self._numbers[name]

    def _computed(self, task: TaskLayout) -> np.ndarray:
        fed = self._outputs[task.name]
        unknown = np.full(fed.rows.height, _UNKNOWN, dtype=np.int64)
        if task.source is not None:
            if fed.position is None or not fed.rows.height:
                return unknown
            first = sum(one.rows.height for _, one in self._numbered)
            self._numbered.append((first, fed))
            return np.arange(first, first + fed.rows.height, dtype=np.int64)
        local = [one.task for one in task.inputs if isinstance(one, LocalInput)]
        if not catalogue.KINDS[task.operator.kind].row_by_row or len(local) < len(task.inputs):
            return unknown
        asked = [
            self._outputs[above].rows.with_columns(pl.Series(TIME, self._of_rows(above), dtype=pl.Int64))
            for above in local
        ]
        numbers: np.ndarray = self._operators[task.name].on_batch(asked, self._context).rows[TIME].to_numpy()
        return numbers

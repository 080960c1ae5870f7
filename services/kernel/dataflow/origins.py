"""Origins: the record of a user's topic from which a refused row was made.

Rows carry no origin on their way. Once an operator has refused rows of a batch, the operators above it find the origin
of these rows. Filter, select and union compute the batch again, with numbers in place of event times, which they pass
on. For an operator that passes rows on but has a state, such as dedup, the output rows are found among the input rows
by their content. Source: PROTOCOL 3, docs/decisions/0155 and 0158.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from holdfast.schemas.dead_letters import NOWHERE, Position
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Passing
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Refused
from holdfast.services.kernel.plans.layout import LocalInput, TaskLayout

_REMOTE = "the row came in from another unit, which sends no offsets"
_HELD = "'{}' had kept the row since an earlier batch"
_MADE = "'{}' puts out {}"


class Origin(NamedTuple):
    """The record of a row, or the reason why it has none."""

    position: Position
    unnamed: str


class Origins:
    """The origins of the rows of one batch.

    Args:
        tasks: the tasks of the unit.
        operators: the operator of each task, by name of the task.
        outputs: by task, the output of the tasks above the operator that refused.
        context: the batch.
    """

    def __init__(
        self,
        tasks: Sequence[TaskLayout],
        operators: Mapping[str, Operator],
        outputs: Mapping[str, Fed],
        context: BatchContext,
    ) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._operators = operators
        self._outputs = outputs
        self._context = context
        self._numbers: dict[str, np.ndarray] = {}
        self._numbered: list[tuple[int, Fed]] = []
        self._reasons: list[str] = []

    def of(self, task: TaskLayout, refused: Refused) -> Origin:
        """The origin of a row that the task refused."""
        source = task.inputs[refused.slot]
        if not isinstance(source, LocalInput):
            return Origin(NOWHERE, _REMOTE)
        if refused.place < 0:
            return Origin(NOWHERE, _HELD.format(task.operator.name))
        number = int(self._of_rows(source.task)[refused.place])
        if number < 0:
            return Origin(NOWHERE, self._reasons[-1 - number])
        first, fed = next(one for one in reversed(self._numbered) if one[0] <= number)
        assert fed.position is not None
        return Origin(fed.position(number - first), "")

    def _of_rows(self, name: str) -> np.ndarray:
        """A number for each output row of the task. Rows with equal numbers come from one record; a number below 0 is a
        reason.
        """
        if name not in self._numbers:
            self._numbers[name] = self._computed(self._tasks[name])
        return self._numbers[name]

    def _computed(self, task: TaskLayout) -> np.ndarray:
        fed, kind = self._outputs[task.name], catalogue.KINDS[task.operator.kind]
        if task.source is not None:
            return self._of_source(fed)
        if kind.row_by_row:
            return self._again(task)
        if kind.passing(task.operator.settings) is not Passing.NONE:
            return self._by_content(task, fed.rows)
        return self._unknown(fed.rows.height, _MADE.format(task.operator.name, kind.made))

    def _of_source(self, fed: Fed) -> np.ndarray:
        if fed.position is None:
            return self._unknown(fed.rows.height, "")
        first = sum(one.rows.height for _, one in self._numbered)
        if fed.rows.height:
            self._numbered.append((first, fed))
        return np.arange(first, first + fed.rows.height, dtype=np.int64)

    def _again(self, task: TaskLayout) -> np.ndarray:
        """The numbers of the output rows of an operator that computes the batch again."""
        if not all(isinstance(one, LocalInput) for one in task.inputs):
            return self._unknown(self._outputs[task.name].rows.height, _REMOTE)
        asked = [
            self._outputs[one.task].rows.with_columns(pl.Series(TIME, self._of_rows(one.task), dtype=pl.Int64))
            for one in task.inputs
            if isinstance(one, LocalInput)
        ]
        numbers: np.ndarray = self._operators[task.name].on_batch(asked, self._context).rows[TIME].to_numpy()
        return numbers

    def _by_content(self, task: TaskLayout, rows: pl.DataFrame) -> np.ndarray:
        """The numbers of the output rows by content: the nth output row of some content is the nth such input row, or
        else the last.
        """
        source = task.inputs[0]
        if not isinstance(source, LocalInput):
            return self._unknown(rows.height, _REMOTE)
        given, held = self._outputs[source.task].rows, self._reason(_HELD.format(task.operator.name))
        places: dict[bytes, deque[int]] = defaultdict(deque)
        for line, number in zip(_lines(given, given.columns), self._of_rows(source.task).tolist(), strict=True):
            places[line].append(number)
        found = [_next(places.get(line), held) for line in _lines(rows, given.columns)]
        return np.array(found, dtype=np.int64)

    def _unknown(self, height: int, reason: str) -> np.ndarray:
        return np.full(height, self._reason(reason), dtype=np.int64)

    def _reason(self, text: str) -> int:
        self._reasons.append(text)
        return -len(self._reasons)


def _lines(rows: pl.DataFrame, columns: Sequence[str]) -> list[bytes]:
    return encode_json(rows, dict.fromkeys(columns, ""))


def _next(places: deque[int] | None, otherwise: int) -> int:
    if not places:
        return otherwise
    return places.popleft() if len(places) > 1 else places[0]

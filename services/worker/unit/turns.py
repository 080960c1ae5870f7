"""Turns of a copy: the time of the next one, and its tasks, follow from one list.

Source: PROTOCOL 5. A turn is due when the time of a task has come, or when there is news: a record was read, a flag
was changed, or a value that the copy waits for is another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.services.worker.unit.view import CopyView

Result = TypeVar("Result")


class Task(NamedTuple):
    """Something that a copy does in its turns.

    due_ms: given the view, when the task is due unless news come first. Now or earlier: at once. math.inf: only news
    make it due.
    do: given the view, does what is due; nothing if nothing is.
    changes: what it does may change the view.
    """

    name: str
    due_ms: Callable[[Any], float]
    do: Callable[[Any], object]
    changes: bool = False


class Watched(NamedTuple):
    """A value that others change. While `waits` is true a copy waits for the value to become another one."""

    name: str
    waits: Callable[[], bool]
    value: Callable[[], object]


class Turns:
    """The turns of one copy.

    Args:
        tasks: in the order in which a turn does them.
        watched: what makes a turn due when it changes from one turn to the next.
        view: given the time of a turn, what its tasks are given.

    next_deadline: when time alone makes a turn due, in milliseconds of the clock.
    """

    def __init__(
        self, tasks: Sequence[Task], watched: Sequence[Watched] = (), view: Callable[[float], Any] = float
    ) -> None:
        self._tasks, self._watched, self._view = tuple(tasks), tuple(watched), view
        self._do = [(task.do, task.changes) for task in tasks]
        self._dues = [task.due_ms for task in tasks if task.due_ms is not never]
        self.next_deadline = -math.inf
        self._awaited: list[tuple[Callable[[], object], object]] = []

    def stir(self) -> None:
        """There is news: a turn is due at once."""
        self.next_deadline = -math.inf

    def due(self, now_ms: float) -> bool:
        """True if a turn would find anything to do."""
        if now_ms >= self.next_deadline:
            return True
        # of each copy in each turn of the loop: a generator would take twice as long
        for value, seen in self._awaited:  # noqa: SIM110
            if value() != seen:
                return True
        return False

    def take(self, now_ms: float) -> None:
        """Takes a turn: every task in its order. An error of a task ends the turn."""
        self.next_deadline = math.inf
        seen = self._view(now_ms)
        for do, changes in self._do:
            do(seen)
            if changes:
                seen = self._view(now_ms)
        self._awaited = [(one.value, one.value()) for one in self._watched if one.waits()]
        first_ms = self._first_due_ms(seen, now_ms)
        if self.next_deadline == math.inf:  # nothing has stirred it meanwhile
            self.next_deadline = first_ms

    def _first_due_ms(self, seen: Any, now_ms: float) -> float:
        first_ms = math.inf
        for due in self._dues:
            if (due_ms := due(seen)) < first_ms:
                first_ms = due_ms
                if due_ms <= now_ms:  # a copy that has work does not ask when it will have some
                    break
        return first_ms

    def agenda(self, now_ms: float) -> list[tuple[str, float]]:
        """Every task and when it is due, for people and tests."""
        seen = self._view(now_ms)
        return [(task.name, task.due_ms(seen)) for task in self._tasks]


def by_time(call: Callable[[float], Result]) -> Callable[[CopyView], Result]:
    """The call, for a task that needs nothing of the view but the time."""
    return lambda seen: call(seen.now_ms)


def never(seen: object) -> float:
    """The time of a task that only news make due."""
    return math.inf

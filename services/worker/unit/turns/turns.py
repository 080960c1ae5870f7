"""The turns of a copy: its tasks, and the time of the next turn, from one list.

Source: PROTOCOL 5. A turn is due when the time of a task has come or after news: a record was read, a flag was changed,
or a watched value has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.services.worker.unit.facts.copy_view import CopyView

Result = TypeVar("Result")


class Task(NamedTuple):
    """A task of a copy's turns.

    Attributes:
        due_ms: returns when the task is due without news, from the view; now or earlier for at once, math.inf for
            never.
        do: does the due work, from the view; nothing if nothing is due.
        changes: True if the task may change the view.
    """

    name: str
    due_ms: Callable[[Any], float]
    do: Callable[[Any], object]
    changes: bool = False


class Watched(NamedTuple):
    """A value that other code changes. While `waits` returns True, the copy waits for a change of the value."""

    name: str
    waits: Callable[[], bool]
    value: Callable[[], object]


class Turns:
    """The turns of one copy.

    Args:
        tasks: tasks in the order of a turn.
        watched: values whose change makes a turn due.
        view: returns the view of the tasks, from the time of a turn.

    Attributes:
        next_deadline: clock time of the next turn without news.
    """

    def __init__(
        self, tasks: Sequence[Task], watched: Sequence[Watched] = (), view: Callable[[float], Any] = float
    ) -> None:
        self._tasks = tuple(tasks)
        self._watched = tuple(watched)
        self._view = view
        self._do = [(task.do, task.changes) for task in tasks]
        self._dues = [task.due_ms for task in tasks if task.due_ms is not never]
        self.next_deadline = -math.inf
        self._awaited: list[tuple[Callable[[], object], object]] = []

    def wake(self) -> None:
        """Makes a turn due at once, after news."""
        self.next_deadline = -math.inf

    def due(self, now_ms: float) -> bool:
        """True if a turn would have work."""
        if now_ms >= self.next_deadline:
            return True
        # runs for each copy in each turn of the loop: a generator would take twice as long
        for value, seen in self._awaited:  # noqa: SIM110
            if value() != seen:
                return True
        return False

    def take(self, now_ms: float) -> None:
        """Takes a turn: runs every task in order. An error of a task ends the turn."""
        self.next_deadline = math.inf
        seen = self._view(now_ms)
        for do, changes in self._do:
            do(seen)
            if changes:
                seen = self._view(now_ms)
        self._awaited = [(one.value, one.value()) for one in self._watched if one.waits()]
        first_ms = self._first_due_ms(seen, now_ms)
        if self.next_deadline == math.inf:  # no news came meanwhile
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
        """Every task and its due time, for people and tests."""
        seen = self._view(now_ms)
        return [(task.name, task.due_ms(seen)) for task in self._tasks]


def by_time(call: Callable[[float], Result]) -> Callable[[CopyView], Result]:
    """The call as a function of the view, for a task that needs only the time."""
    return lambda seen: call(seen.now_ms)


def never(seen: object) -> float:
    """The due time of a task that only news make due."""
    return math.inf

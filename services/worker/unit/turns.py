"""When a copy's turn is due, and what the turn does: both follow from one list of tasks.

Source: PROTOCOL 5. A turn is due when the time of a task has come, or when there is news: a record was read, a flag
was changed, or a value that the copy waits for is another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Task(NamedTuple):
    """Something that a copy does in its turns.

    due_ms: given the time, when the task is due unless news come first. Now or earlier: at once. math.inf: only news
    make it due.
    do: given the time, does what is due; nothing if nothing is.
    """

    name: str
    due_ms: Callable[[float], float]
    do: Callable[[float], object]


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
    """

    def __init__(self, tasks: Sequence[Task], watched: Sequence[Watched] = ()) -> None:
        self._tasks, self._watched = tuple(tasks), tuple(watched)
        self._news = True
        self._due_ms = -math.inf
        self._seen: list[tuple[Watched, object]] = []

    def stir(self) -> None:
        """There is news: a turn is due at once."""
        self._news = True

    def due(self, now_ms: float) -> bool:
        """Whether a turn would find anything to do."""
        if self._news or now_ms >= self._due_ms:
            return True
        # of each copy in each turn of the loop: a generator would take twice as long
        for one, value in self._seen:  # noqa: SIM110
            if one.value() != value:
                return True
        return False

    @property
    def next_deadline(self) -> float:
        """When time alone makes a turn due, in milliseconds of the clock."""
        return -math.inf if self._news else self._due_ms

    def take(self, now_ms: float) -> None:
        """One turn: every task in its order. Whatever a task raises ends the turn."""
        self._news = False
        for task in self._tasks:
            task.do(now_ms)
        self._seen = [(one, one.value()) for one in self._watched if one.waits()]
        self._due_ms = math.inf
        for task in self._tasks:
            if (due_ms := task.due_ms(now_ms)) < self._due_ms:
                self._due_ms = due_ms
                if due_ms <= now_ms:  # a copy that has work does not ask when it will have some
                    break

    def agenda(self, now_ms: float) -> list[tuple[str, float]]:
        """Every task and when it is due, for people and tests."""
        return [(task.name, task.due_ms(now_ms)) for task in self._tasks]


def never(now_ms: float) -> float:
    """Of a task that only news make due."""
    return math.inf

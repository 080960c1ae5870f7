"""The mechanics of the life of one copy: a table of transitions, the ignored events, and a story.

Source: PROTOCOL 5 and 8. Each host has its own table: worker/core/lifecycle.py, spark/core/lifecycle.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from holdfast.schemas.assignments import Flags

STORY_LINES = 100

S = TypeVar("S", bound=Enum)
G = TypeVar("G", bound=Enum)
A = TypeVar("A", bound=Enum)


@dataclass(frozen=True, slots=True)
class Placed:
    """A valid assignment names this copy."""

    epoch: int
    flags: Flags


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A valid assignment no longer names this copy."""


@dataclass(frozen=True, slots=True)
class Broke:
    """An error that no retry repairs."""

    cause: str


class Unlisted(Exception):
    """An error for an event that the table does not list for the state. Its message ends with the story."""


@dataclass(frozen=True, slots=True)
class Table(Generic[S, G, A]):
    """A table of transitions.

    rows: (state, event, goal; None: any other) -> (next state, actions in order).
    ignored: (state, event) -> the reason why the event has no effect, for pairs without a row.
    """

    rows: Mapping[tuple[S, type, G | None], tuple[S, tuple[A, ...]]]
    ignored: Mapping[tuple[S, type], str]


@dataclass(slots=True)
class Machine(ABC, Generic[S, G, A]):
    """The state machine of one copy.

    A pair of state and event outside the table cannot occur. `handle` raises for such a pair, because a copy that
    ignored it might hang for good.

    story: a line for each handled event that has a row.
    """

    unit: str
    state: S
    epoch: int = 0
    flags: Flags = field(default_factory=Flags)
    error: str = ""
    story: list[str] = field(default_factory=list)

    TABLE: ClassVar[Table[Any, Any, Any]]

    def handle(self, event: Any) -> tuple[A, ...]:
        """The actions to carry out now. Raises Unlisted, and changes nothing then."""
        at = (self.state, type(event))
        goal = self.goal(event)
        transition = self.TABLE.rows.get((*at, goal)) or self.TABLE.rows.get((*at, None))
        if transition is None and at not in self.TABLE.ignored:
            raise Unlisted(f"{self.unit}: {event} while {self.state.value}; before: {'; '.join(self.story[-10:])}")
        if isinstance(event, Placed):
            self.epoch = event.epoch
            self.flags = event.flags
        if transition is None:
            return ()
        before, (self.state, actions) = self.state, transition
        self.entered(event)
        self._record(before, event, actions)
        self.check_invariants()
        return actions

    @abstractmethod
    def goal(self, event: Any) -> G:
        """The goal of the copy once the event counts."""

    @abstractmethod
    def entered(self, event: Any) -> None:
        """Keeps the parts of the event that the new state needs."""

    @abstractmethod
    def check_invariants(self) -> None: ...

    def _record(self, before: S, event: Any, actions: tuple[A, ...]) -> None:
        then = ", ".join(action.name.lower() for action in actions) or "nothing"
        self.story.append(f"{self.unit}: {before.value} --{type(event).__name__}--> {self.state.value}: {then}")
        del self.story[:-STORY_LINES]

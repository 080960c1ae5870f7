"""The mechanics of the life of one copy: a table of transitions, what passes without one, a story.

Source: PROTOCOL 5 and 8. Each host has a table of its own: worker/core/lifecycle.py, spark/core/lifecycle.py.
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
    """An error that no retry mends."""

    cause: str


class Unlisted(Exception):
    """An event that neither a row nor an entry of the ignored names for the state. Its message ends with the story."""


@dataclass(frozen=True, slots=True)
class Table(Generic[S, G, A]):
    """Table of transitions.

    rows: (state, event, goal; None: any other) -> (next state, actions in order).
    ignored: (state, event) -> why nothing follows, where no row says what does.
    """

    rows: Mapping[tuple[S, type, G | None], tuple[S, tuple[A, ...]]]
    ignored: Mapping[tuple[S, type], str]


@dataclass(slots=True)
class Machine(ABC, Generic[S, G, A]):
    """The state machine of one copy. story: what happened, a line for each event that a row names.

    A pair of state and event that the table does not list cannot come. A copy that passes over such a pair may stand
    still for good: so `handle` raises.
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
            self.epoch, self.flags = event.epoch, event.flags
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
        """Keeps what the new state needs of the event."""

    @abstractmethod
    def check_invariants(self) -> None: ...

    def _record(self, before: S, event: Any, actions: tuple[A, ...]) -> None:
        then = ", ".join(action.name.lower() for action in actions) or "nothing"
        self.story.append(f"{self.unit}: {before.value} --{type(event).__name__}--> {self.state.value}: {then}")
        del self.story[:-STORY_LINES]

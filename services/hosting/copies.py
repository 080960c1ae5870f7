"""Keeps the copies of one host equal to the decisions.

Source: PROTOCOL 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from holdfast.schemas.assignments import Flags, split_unit_key
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.hosting.decisions import Decisions, Named


class Hosted(Protocol):
    """A copy of a unit on this host."""

    @property
    def epoch(self) -> int:
        """Epoch of its last assignment; 0 before the first."""
        ...

    def place(self, epoch: int, flags: Flags) -> None: ...
    def unplace(self) -> None: ...


C = TypeVar("C", bound=Hosted)


class Copies(Generic[C]):
    """The copies of one host, placed and removed as the decisions name them.

    Args:
        begin: creates a copy of a unit of a plan; None if the plan has no such unit for this host.
        skip: called with the skipped records of each job that has copies here.
    """

    def __init__(
        self,
        decisions: Decisions,
        begin: Callable[[Plan, str], C | None],
        skip: Callable[[str, Skipped], None],
    ) -> None:
        self._decisions = decisions
        self._begin = begin
        self._skip = skip
        self.here: dict[str, C] = {}
        self._lines: dict[str, int] = {}

    def reconcile(self) -> None:
        """Creates, places and removes copies so that the copies here are those that the decisions name."""
        named = self._decisions.named()
        for key in [key for key in self.here if key not in named]:
            self.here.pop(key).unplace()
        for generation in self.generations:
            self._skip(generation, self._decisions.skipped(generation))
        for key, one in named.items():
            self._place(key, one)

    def drop(self, generation: str) -> None:
        """Removes the copies of a job, so that they begin again."""
        for key in [key for key in self.here if split_unit_key(key)[1] == generation]:
            self.here.pop(key).unplace()

    @property
    def generations(self) -> list[str]:
        """Generations of the jobs that have copies here."""
        return list(dict.fromkeys(split_unit_key(key)[1] for key in self.here))

    def _place(self, key: str, named: Named) -> None:
        """Places a copy. A copy of a unit that was rolled back since then begins again without its state."""
        if key in self.here and self._lines.get(key, 0) < named.line:
            self.here.pop(key).unplace()
        self._lines[key] = named.line
        if key not in self.here:
            copy = self._begin(named.plan, named.unit)
            if copy is None:
                return  # any client may append to the topic, so a decision may name an unknown unit
            self.here[key] = copy
        if self.here[key].epoch < named.epoch:
            self.here[key].place(named.epoch, named.flags)

"""The copies of one host, kept those that the decisions name.

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
    """A copy."""

    @property
    def epoch(self) -> int:
        """Epoch of its last assignment; 0 before the first."""
        ...

    def place(self, epoch: int, flags: Flags) -> None: ...
    def unplace(self) -> None: ...


C = TypeVar("C", bound=Hosted)


class Copies(Generic[C]):
    """Follows the decisions.

    Args:
        begin: a new copy of a unit of a plan; None: the plan has no such unit for this host.
        skip: called for each job that has copies here with the records that a person has skipped.
    """

    def __init__(
        self,
        decisions: Decisions,
        begin: Callable[[Plan, str], C | None],
        skip: Callable[[str, Skipped], None],
    ) -> None:
        self._decisions, self._begin, self._skip = decisions, begin, skip
        self.here: dict[str, C] = {}
        self._lines: dict[str, int] = {}

    def reconcile(self) -> None:
        """Makes the copies here those that the decisions name."""
        named = self._decisions.named()
        for key in [key for key in self.here if key not in named]:
            self.here.pop(key).unplace()
        for generation in self.generations:
            self._skip(generation, self._decisions.skipped(generation))
        for key, one in named.items():
            self._place(key, one)

    def drop(self, generation: str) -> None:
        """The copies of a job begin again."""
        for key in [key for key in self.here if split_unit_key(key)[1] == generation]:
            self.here.pop(key).unplace()

    @property
    def generations(self) -> list[str]:
        """Generations of the jobs that have copies here."""
        return list(dict.fromkeys(split_unit_key(key)[1] for key in self.here))

    def _place(self, key: str, named: Named) -> None:
        """A copy of a unit that was rolled back since begins again, with nothing that it held."""
        if key in self.here and self._lines.get(key, 0) < named.line:
            self.here.pop(key).unplace()
        self._lines[key] = named.line
        if key not in self.here:
            copy = self._begin(named.plan, named.unit)
            if copy is None:
                return  # anybody may append anything
            self.here[key] = copy
        if self.here[key].epoch < named.epoch:
            self.here[key].place(named.epoch, named.flags)

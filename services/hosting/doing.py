"""Present work of a host's loop: written by the loop, read by threads beside it.

Source: PROTOCOL 5. An attribute or two for each piece of work: nothing here costs a call to the system.
"""

from __future__ import annotations

from holdfast.services.hosting.traces import Traces


class Doing:
    """turns: of the loop so far. unit: whose work the loop does, by key; empty: its own. traces: of this, for the
    parent."""

    def __init__(self, traces: Traces | None = None) -> None:
        self.traces = traces or Traces()
        self.turns = 0
        self.unit = ""
        self._outer: list[str] = []
        self._warm: set[str] = set()

    def turned(self) -> None:
        """A turn is over."""
        self.turns += 1

    def of(self, unit: str) -> Doing:
        """To be opened at once, for as long as the loop does the work of a unit."""
        self._outer.append(self.unit)
        self.unit = unit
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *of: object) -> None:
        self.unit = self._outer.pop()

    def warmed(self, unit: str) -> None:
        """The unit has done a batch here: the next one loads nothing any more."""
        self._warm.add(unit)

    @property
    def cold(self) -> bool:
        """The unit at hand has not done a batch here yet."""
        return bool(self.unit) and self.unit not in self._warm

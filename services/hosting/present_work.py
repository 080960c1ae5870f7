"""The present work of a host's loop. The loop writes it, and threads beside the loop read it.

Source: PROTOCOL 5. Each piece of work sets one or two attributes, so recording it costs no system call.
"""

from __future__ import annotations

from holdfast.services.hosting.traces import Traces


class PresentWork:
    """The present work of the loop.

    Attributes:
        turns: number of turns of the loop so far.
        unit: key of the unit whose work the loop does; empty for the loop's own work.
        traces: the same work, written for the parent process.
    """

    def __init__(self, traces: Traces | None = None) -> None:
        self.traces = traces or Traces()
        self.turns = 0
        self.unit = ""
        self._outer: list[str] = []
        self._warm: set[str] = set()

    def turned(self) -> None:
        """Counts a finished turn."""
        self.turns += 1

    def of(self, unit: str) -> PresentWork:
        """Sets the unit whose work the loop does until the end of a `with` block."""
        self._outer.append(self.unit)
        self.unit = unit
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *of: object) -> None:
        self.unit = self._outer.pop()

    def warmed(self, unit: str) -> None:
        """Marks the unit as warm: its first batch is done here, so the next one loads nothing."""
        self._warm.add(unit)

    @property
    def cold(self) -> bool:
        """True if the loop works for a unit that has not done a batch here yet."""
        return bool(self.unit) and self.unit not in self._warm

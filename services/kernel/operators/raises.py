"""The rows of a batch at which users' code raised: the skipped rows, and the parts in which the code was called.

The code gets the batch in one call. If the call raises, each half is a call of its own, down to the single row, which
is skipped. The smallest ranges at which the code raised determine all calls: a copy that has these ranges makes the
same calls without failed ones. Each call has its own random numbers, so this matters. Source: PROTOCOL 3.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from holdfast.schemas.cuts import RaisedRows, TaskRaised

MAX_REASONS = 256 * 1024
"""The most characters of all reasons of a task in one batch; beyond it each reason is cut."""
SHORTEST_REASON = 20
NOTHING = TaskRaised()
"""The code raised nowhere."""


class Places:
    """The rows of one batch at which code raised, for look-up."""

    def __init__(self, raised: TaskRaised) -> None:
        self._raised = raised
        self._stops = [rows.stop for rows in raised.rows]

    def within(self, start: int, stop: int) -> bool:
        """True if the code raised in the call with these rows."""
        found = self._at(start)
        if found is None or found.start >= stop:
            return False
        return found.reason >= 0 or (start <= found.start and found.stop <= stop)

    def reason(self, place: int) -> str:
        """The reason why a row is skipped. Raises LookupError if the cut log names no reason for it."""
        found = self._at(place)
        if found is None or not found.start <= place < found.stop or found.reason < 0:
            raise LookupError(f"nothing is said of the row at {place}")
        return self._raised.reasons[found.reason]

    def _at(self, place: int) -> RaisedRows | None:
        """The first range that ends after a position."""
        index = bisect_right(self._stops, place)
        return self._raised.rows[index] if index < len(self._stops) else None


@dataclass(slots=True)
class Found:
    """The rows of one batch at which the code raised so far, in order."""

    _places: list[tuple[int, int, str | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._places)

    def row(self, place: int, reason: str) -> None:
        """Adds a single row at which the code raised."""
        self._places.append((place, place + 1, reason))

    def together(self, start: int, stop: int) -> None:
        """Notes that the code raised at these rows together, and at neither half."""
        self._places.append((start, stop, None))

    def raised(self) -> TaskRaised:
        """The rows as ranges; adjacent rows with the same reason form one range."""
        most = self._most()
        reasons: dict[str, int] = {}
        ranges: list[RaisedRows] = []
        for start, stop, text in self._places:
            number = -1 if text is None else reasons.setdefault(text[:most], len(reasons))
            last = ranges[-1] if ranges else None
            if last is not None and number >= 0 and (last.stop, last.reason) == (start, number):
                ranges[-1] = RaisedRows(last.start, stop, number)
            else:
                ranges.append(RaisedRows(start, stop, number))
        return TaskRaised(tuple(ranges), tuple(reasons))

    def _most(self) -> int | None:
        """The most characters of a reason; None: no limit."""
        texts = {text for _, _, text in self._places if text is not None}
        if sum(map(len, texts)) <= MAX_REASONS:
            return None
        return max(SHORTEST_REASON, MAX_REASONS // len(texts))

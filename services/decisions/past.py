"""Values by key with their recent history, so that a snapshot of an earlier moment can be compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

REMEMBERED = 1_000
"""Number of values that can be taken back: a snapshot states the values a little before it is read."""

V = TypeVar("V")


class Past(Generic[V]):
    """Values by key.

    since: offset below which the values are not known.
    """

    def __init__(self, values: Mapping[str, V] | Iterable[tuple[str, V]] = (), since: int = 0) -> None:
        self._values: dict[str, V] = dict(values)
        self._since = since
        self._before: deque[tuple[int, str, V | None]] = deque(maxlen=REMEMBERED)

    def get(self, key: str) -> V | None:
        return self._values.get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def put(self, offset: int, key: str, value: V | None) -> None:
        """Sets the value from the record at this offset on; None removes it."""
        self._before.append((offset, key, self._values.get(key)))
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def now(self) -> dict[str, V]:
        return dict(self._values)

    def as_of(self, upto: int) -> dict[str, V] | None:
        """Returns the values after all records below `upto`; None if that is too long ago."""
        if upto < self.lowest:
            return None
        values: dict[str, V | None] = dict(self._values)
        for offset, key, before in reversed(self._before):
            if offset < upto:
                break
            values[key] = before
        return {key: value for key, value in values.items() if value is not None}

    @property
    def lowest(self) -> int:
        """The lowest offset as of which the values are known."""
        return self._before[0][0] + 1 if len(self._before) == REMEMBERED else self._since

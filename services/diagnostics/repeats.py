"""Repeats among the messages of a log: the first of a kind is written, and of what follows soon the number.

While a broker is away each client complains at each attempt: 3,100 lines in half a minute. No clock here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

FIRST_S, LAST_S = 10.0, 300.0
"""For so long repeats of a message are only counted; twice as long each time that there were any."""
MOST_KINDS = 256
"""Number of messages that are remembered; then the one that was written the longest time ago is forgotten."""


class Repeated(NamedTuple):
    """A message was left out so many times within so many seconds."""

    key: Hashable
    times: int
    seconds: float


@dataclass(slots=True)
class _Kind:
    written_s: float
    window_s: float = FIRST_S
    left_out: int = 0


class Repeats:
    """Repeats of one process."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def take(self, key: Hashable, now_s: float) -> bool:
        """True if a message of this kind is to be written now. Ask `due` first, so that its number is said."""
        kind = self._kinds.get(key)
        if kind is not None and now_s - kind.written_s < kind.window_s:
            kind.left_out += 1
            return False
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.pop(next(iter(self._kinds)))
            self._kinds[key] = _Kind(now_s)
        return True

    def due(self, now_s: float) -> Iterator[Repeated]:
        """Numbers of left out messages to be said, since their time is over. A message that has stopped is
        forgotten.
        """
        for key, kind in list(self._kinds.items()):
            if now_s - kind.written_s < kind.window_s:
                continue
            del self._kinds[key]
            if kind.left_out:
                yield Repeated(key, kind.left_out, now_s - kind.written_s)
                self._kinds[key] = _Kind(now_s, min(LAST_S, 2 * kind.window_s))

    def rest(self, now_s: float) -> Iterator[Repeated]:
        """The same at the end of the process."""
        for key, kind in self._kinds.items():
            if kind.left_out:
                yield Repeated(key, kind.left_out, now_s - kind.written_s)
        self._kinds.clear()

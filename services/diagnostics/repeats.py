"""Repeats among the messages of a log: the first of a kind is written, and the number of the following ones later.

While a broker is absent each client complains at each attempt: 3,100 lines in half a minute. Callers pass the time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

FIRST_S, LAST_S = 10.0, 300.0
"""Seconds for which repeats of a message are only counted: FIRST_S at first, twice as long after each period with
repeats.
"""
MOST_KINDS = 256
"""Number of remembered messages; beyond it the message written longest ago is dropped."""


class Repeated(NamedTuple):
    """Number of messages of a kind left out within a time in seconds."""

    key: Hashable
    times: int
    seconds: float


@dataclass(slots=True)
class _Kind:
    written_s: float
    window_s: float = FIRST_S
    left_out: int = 0


class Repeats:
    """Counts the repeats of one process's messages."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def take(self, key: Hashable, now_s: float) -> bool:
        """True if a message of this kind must be written now. Call `due` first, so that the number of earlier repeats
        is written.
        """
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
        """Numbers of left out messages whose time is over. A message that has stopped is dropped."""
        for key, kind in list(self._kinds.items()):
            if now_s - kind.written_s < kind.window_s:
                continue
            del self._kinds[key]
            if kind.left_out:
                yield Repeated(key, kind.left_out, now_s - kind.written_s)
                self._kinds[key] = _Kind(now_s, min(LAST_S, 2 * kind.window_s))

    def rest(self, now_s: float) -> Iterator[Repeated]:
        """Numbers of all left out messages, at the end of the process."""
        for key, kind in self._kinds.items():
            if kind.left_out:
                yield Repeated(key, kind.left_out, now_s - kind.written_s)
        self._kinds.clear()

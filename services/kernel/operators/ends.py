"""Keys that end at a time, to be checked when the watermark moves.

A later end than noted is not noted again: its key is checked too early, and then noted with its new end.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush


class Ends:
    """The ends of keys.

    Args:
        ends: by key, its end in microseconds of event time.
    """

    def __init__(self, ends: Mapping[bytes, int]) -> None:
        self._noted = dict(ends)
        self._heap = [(end, key) for key, end in ends.items()]
        heapify(self._heap)

    def note(self, key: bytes, end: int) -> None:
        noted = self._noted.get(key)
        if noted is None or end < noted:
            self._noted[key] = end
            heappush(self._heap, (end, key))

    def until(self, watermark: int) -> list[bytes]:
        """Removes and returns the keys noted up to the watermark, in order."""
        keys = []
        while self._heap and self._heap[0][0] <= watermark:
            end, key = heappop(self._heap)
            if self._noted.get(key) == end:
                del self._noted[key]
                keys.append(key)
        return sorted(keys)

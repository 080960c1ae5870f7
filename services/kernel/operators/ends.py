"""Keys to look at when the watermark moves: those for which something may be over.

What is over later than noted is not noted again. Its key is looked at too early, and noted again for when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush


class Ends:
    """ends: by key, in microseconds of event time."""

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
        """Keys noted for no later than the watermark, in order; their notes are gone."""
        keys = []
        while self._heap and self._heap[0][0] <= watermark:
            end, key = heappop(self._heap)
            if self._noted.get(key) == end:
                del self._noted[key]
                keys.append(key)
        return sorted(keys)

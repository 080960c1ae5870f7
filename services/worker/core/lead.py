"""How many bytes a writer is ahead of its slowest reader, by batch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MOST_STEPS = 512
"""Remembered at most: then two neighbours become one, which counts until the later of its batches is behind."""


@dataclass(slots=True)
class Lead:
    """Bytes of the batches that are not behind yet."""

    bytes: int = 0
    _steps: deque[tuple[int, int]] = field(default_factory=deque)

    def cut(self, batch: int, size: int) -> None:
        """More bytes of the newest batch, or of one after it."""
        self.bytes += size
        if self._steps and self._steps[-1][0] == batch:
            self._steps[-1] = (batch, self._steps[-1][1] + size)
            return
        if len(self._steps) >= MOST_STEPS:
            self._join()
        self._steps.append((batch, size))

    def behind(self, slowest: int) -> int:
        """The bytes of batches after `slowest`, the last that every reader has done."""
        while self._steps and self._steps[0][0] <= slowest:
            self.bytes -= self._steps.popleft()[1]
        return self.bytes

    def adopt(self, batch: int, size: int) -> None:
        """So many bytes are known of all batches up to this one, whatever was known before."""
        self.behind(batch)
        if size:
            self._steps.appendleft((batch, size))
            self.bytes += size

    def _join(self) -> None:
        steps = list(self._steps)
        odd = steps[len(steps) // 2 * 2 :]
        pairs = zip(steps[::2], steps[1::2], strict=False)
        self._steps = deque([*((later[0], early[1] + later[1]) for early, later in pairs), *odd])

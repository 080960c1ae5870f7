"""Outputs that a copy has made and must keep: frames while `send` is off, sink rows while `commit` is off.

Source: PROTOCOL 6, the keep rule: everything above the last valid marker is kept, and sent first when the flag is set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.services.kernel.dataflow.unit import Sent
from holdfast.services.worker.sinks.portions import Batch

MAX_KEPT_BATCHES = 4096
"""Most batches kept before the copy waits for the next marker: at 100 batches/s, ten times the longest time to a
marker."""


@dataclass(slots=True)
class KeptOutputs:
    """Kept outputs by batch, ascending."""

    sent: deque[tuple[int, Sequence[Sent]]] = field(default_factory=deque)
    rows: deque[Batch] = field(default_factory=deque)

    @property
    def full(self) -> bool:
        return len(self.sent) >= MAX_KEPT_BATCHES or len(self.rows) >= MAX_KEPT_BATCHES

    def forget(self, batch: int) -> None:
        """Drops outputs up to `batch`, which a valid marker confirms as sent."""
        while self.sent and self.sent[0][0] <= batch:
            self.sent.popleft()
        while self.rows and self.rows[0].number <= batch:
            self.rows.popleft()

"""The delivery of a copy whose outputs are closed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.tentative_rows import Ahead


class NothingAhead:
    """The tentative rows of a unit without rows."""

    full = False


class NoDelivery:
    """Keeps rows for the next Delivery; a unit without rows waits for nothing. Each member has the meaning of
    Delivery's.

    Args:
        waiting: rows that wait; None if the unit has none.
    """

    full = False
    ahead = NothingAhead()
    delivered = too_large = transactions = 0
    committed_ms = 0.0
    waits = ""
    look_ms = math.inf

    def __init__(self, waiting: deque[Batch] | None) -> None:
        self._waiting = waiting
        self.takes_rows = waiting is None

    def deliver(self, *batches: Batch) -> None:
        if self._waiting is not None:
            self._waiting += batches

    def deliver_tentative(self, ahead: Ahead) -> None:
        """Does nothing, because the unit has no rows."""

    def leftovers(self) -> Sequence[Batch]:
        return ()

    def committed(self, processed: int) -> int:
        return processed

    def look_again(self, now_ms: float) -> None:
        """Does nothing, because no topic is missing."""

    def commit_if_due(self, now_ms: float) -> None:
        """Does nothing, because no row has gathered."""

    def hurry(self) -> None:
        """Does nothing, because no row has gathered."""

"""Delivery of a copy whose outputs are closed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from holdfast.services.worker.sinks.portions import Batch
from holdfast.services.worker.sinks.tentative_rows import Ahead


class NothingAhead:
    """Tentative rows of a unit that has no rows."""

    full = False


class NoDelivery:
    """Rows wait for the next Delivery; a unit that has none waits for nothing. Every member means what Delivery's does.

    Args:
        waiting: where rows wait; None: the unit has none.
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
        """Nothing: the unit has no rows."""

    def leftovers(self) -> Sequence[Batch]:
        return ()

    def committed(self, processed: int) -> int:
        return processed

    def look_again(self, now_ms: float) -> None:
        """Nothing: no topic is missing."""

    def look(self, now_ms: float) -> None:
        """Nothing: no row has gathered."""

    def hurry(self) -> None:
        """Nothing: no row has gathered."""

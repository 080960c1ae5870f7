"""Rebuilds of a copy, counted until the copy gets further: too many in a row end it.

Source: docs/failures.md.
"""

from __future__ import annotations

import math

from holdfast.services.kernel.errors import Retriable

MAX_REBUILDS = 20
PATIENT_MS = 1_000
"""Time without an answer after which a failed restore shows that Kafka is away, and no fault of the copy."""


class Rebuilds:
    """The rebuilds of one copy since it last got further.

    Attributes:
        began_ms: clock time at which the newest restore began.
    """

    def __init__(self) -> None:
        self._count = self._restored_batch = 0
        self.began_ms = -math.inf

    def forget(self) -> None:
        """Counts from 0 again: the copy has processed a batch, or begins again."""
        self._count = 0

    def restored(self, batch: int) -> None:
        """Notes a restored image. A suspended copy gets further by the markers of another copy alone."""
        if batch > self._restored_batch:
            self._count = 0
            self._restored_batch = batch

    def unanswered(self, error: Exception, restoring: bool, now_ms: float) -> bool:
        """True if the error of a restore says only that Kafka did not answer."""
        return restoring and isinstance(error, Retriable) and now_ms - self.began_ms >= PATIENT_MS

    def again(self, cause: str, unanswered: bool) -> str:
        """Counts a rebuild, unless a call was unanswered. Returns why the copy gives up; empty if it may rebuild."""
        self._count += not unanswered
        return f"gave up after {MAX_REBUILDS} rebuilds without a batch: {cause}" if self._count > MAX_REBUILDS else ""

"""Costs of one Spark copy so far, as far as Spark says them.

Source: MECHANISMS C5 and A3; the meaning of each number is in schemas/costs.py. Spark counts no CPU time by query, and
writes its own checkpoints: neither is here. A query in real-time mode says nothing of its batches.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.schemas.costs import Costs


@dataclass(slots=True)
class Spent:
    """By one copy since it was placed here.

    batch_ms: when its micro-batch began, on the clock. marked_ms: when its last commit was read back.
    """

    processed: int = 0
    process_ms: float = 0.0
    state_keys: int = 0
    state_bytes: int = 0
    deploy_ms: float | None = None
    open_ms: float | None = None
    batch_ms: float = 0.0
    marked_ms: float | None = None

    def batch_written(self, records: int, state_keys: int, state_bytes: int, now_ms: float) -> None:
        """The micro-batch that began last is in the commit log. state: as of the one before it."""
        self.processed += records
        self.process_ms += now_ms - self.batch_ms
        self.state_keys, self.state_bytes = state_keys, state_bytes

    def costs(self, unit: str, now_ms: float) -> Costs:
        return Costs(
            unit=unit,
            processed=self.processed,
            process_ms=round(self.process_ms, 3),
            checkpoint_age_ms=None if self.marked_ms is None else round(now_ms - self.marked_ms, 1),
            state_keys=self.state_keys,
            state_bytes=self.state_bytes,
            deploy_ms=self.deploy_ms,
            open_ms=self.open_ms,
        )

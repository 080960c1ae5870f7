"""The costs of one Spark copy so far, as far as Spark reports them.

Source: MECHANISMS C5 and A3; schemas/costs.py defines each number. Spark counts no CPU time by query and writes its own
checkpoints, so both are missing here. A query in real-time mode reports nothing about its batches.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.schemas.costs import Costs, MicroBatches
from holdfast.services.spark.engine import NOTHING, Output, Reported

ALL = "triggerExecution"
"""Spark's name for the total time of a micro-batch."""


@dataclass(slots=True)
class Spent:
    """The costs of one copy since it was placed here.

    Attributes:
        batch_ms: clock time of the start of its micro-batch.
        marked_ms: clock time at which its last commit was read back.
        written, rows, late: as in schemas/costs.py.
        reported: Spark's last report.
    """

    processed: int = 0
    process_ms: float = 0.0
    written: int = 0
    rows: int = 0
    late: int = 0
    reported: Reported = NOTHING
    deploy_ms: float | None = None
    open_ms: float | None = None
    batch_ms: float = 0.0
    marked_ms: float | None = None

    def batch_written(self, output: Output, now_ms: float) -> None:
        """Counts the last micro-batch, which is in the commit log now."""
        self.processed += output.records
        self.process_ms += now_ms - self.batch_ms
        self.written += 1
        self.rows += sum(frame.rows for frame in output.frames)
        if output.reported.batch != self.reported.batch:
            self.late += output.reported.late
        self.reported = output.reported

    def costs(self, unit: str, now_ms: float) -> Costs:
        return Costs(
            unit=unit,
            processed=self.processed,
            process_ms=round(self.process_ms, 3),
            checkpoint_age_ms=None if self.marked_ms is None else round(now_ms - self.marked_ms, 1),
            state_keys=self.reported.state_keys,
            state_bytes=self.reported.state_bytes,
            deploy_ms=self.deploy_ms,
            open_ms=self.open_ms,
            micro_batches=self._micro_batches() if self.written else None,
        )

    def _micro_batches(self) -> MicroBatches:
        parts_ms = dict(self.reported.parts_ms)
        return MicroBatches(self.written, self.rows, self.late, parts_ms.pop(ALL, 0.0), parts_ms=parts_ms)

"""The rows of one input slot, or of one source, in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from holdfast.schemas.dead_letters import Position

RowPosition = Callable[[int], Position]
"""Returns the position of the record from which a row of the batch was decoded, given the row's number."""


@dataclass(frozen=True, slots=True)
class Fed:
    """Rows and the watermark after them.

    rows: the rows of the batch.
    watermark: the watermark after the batch, microseconds since 1970.
    bytes: the size of the frames that held the rows.
    position: the record of each row; None unless a source reads a user's topic.
    clock_us: the time at which the batch was cut, microseconds since 1970; 0: no operator of the job uses the time.
    """

    rows: pl.DataFrame
    watermark: int
    bytes: int = 0
    position: RowPosition | None = None
    clock_us: int = 0

"""Rows of one input slot, or one source, in a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from holdfast.schemas.dead_letters import Position

RowPosition = Callable[[int], Position]
"""The record that the row at a place of a batch came of."""


@dataclass(frozen=True, slots=True)
class Fed:
    """Rows and the watermark behind them.

    bytes: of the frames that the rows came in. position: only of a source that reads a user's topic. clock_us: when
    the batch was cut, microseconds since 1970; 0: nobody in the job asks.
    """

    rows: pl.DataFrame
    watermark: int
    bytes: int = 0
    position: RowPosition | None = None
    clock_us: int = 0

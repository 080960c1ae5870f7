"""Parts of which an aggregate of any sort is made: windows, sessions and running totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.services.kernel.operators.accumulators import Aggregate


@dataclass(frozen=True, slots=True)
class Aggregation:
    """key: columns of the input; none: there is one group. output: columns of the rows, without the event time."""

    key: Sequence[str]
    aggregates: Sequence[Aggregate]
    output: pl.Schema

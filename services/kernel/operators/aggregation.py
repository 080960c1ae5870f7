"""The parts of every aggregation: by windows, by sessions and as running totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.services.kernel.operators.accumulators import Aggregate


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The parts of an aggregation.

    key: the key columns of the input; empty: there is one group.
    aggregates: the aggregates to compute.
    output: the columns of the output rows, without the event time.
    """

    key: Sequence[str]
    aggregates: Sequence[Aggregate]
    output: pl.Schema

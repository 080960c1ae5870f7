"""Spark operators with state of their own that are measured, as users write them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState

TOTALS = "id long, user string, total long, at timestamp"


def once(events: DataFrame) -> DataFrame:
    """The first record of each number."""
    in_time = events.withWatermark("at", "1 second")
    return in_time.dropDuplicatesWithinWatermark(["number"]).select("number", "user", "at")


def totals(events: DataFrame) -> DataFrame:
    """Each record with the running total of its user."""
    return events.groupBy("user").applyInPandasWithState(_added, TOTALS, "total long", "append", "NoTimeout")


def _added(key: tuple[str], parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    rows = pd.concat(parts).sort_values("id")
    before = state.get[0] if state.exists else 0
    sums = before + rows["amount"].cumsum()
    state.update((int(sums.iloc[-1]),))
    yield pd.DataFrame({"id": rows["id"], "user": key[0], "total": sums, "at": rows["at"]})

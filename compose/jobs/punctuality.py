"""The operator of punctuality.yaml: at each airport and week, delay as a line over distance, by least squares."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

MODEL = StructType(
    [
        StructField("n", LongType()),
        StructField("slope", DoubleType()),
        StructField("intercept", DoubleType()),
        StructField("tenth_worst", LongType()),
    ]
)


def models(flights: DataFrame, days: int) -> DataFrame:
    """A row for each window and airport once the window is over; flights that never left do not count."""
    departed = flights.filter("dep_delay IS NOT NULL").withWatermark("time_hour", "1 hour")
    seen = departed.groupBy(F.window("time_hour", f"{days} days"), "origin").agg(
        F.collect_list(F.struct("distance", "dep_delay")).alias("seen")
    )
    model = _fitted(F.col("seen.distance"), F.col("seen.dep_delay")).alias("model")
    return seen.select("window", "origin", model).select("window", "origin", "model.*")


@pandas_udf(MODEL)  # type: ignore[call-overload, untyped-decorator, unused-ignore]
def _fitted(distance: pd.Series, delay: pd.Series) -> pd.DataFrame:
    return pd.DataFrame([line(x, y) for x, y in zip(distance, delay, strict=True)], columns=MODEL.names)


def line(x: Sequence[int], y: Sequence[int]) -> tuple[int, float, float, int]:
    """Sums of integers are the same in any order, so the model does not depend on how records came."""
    n, sx, sy = len(x), sum(map(int, x)), sum(map(int, y))
    sxx, sxy = sum(int(a) * int(a) for a in x), sum(int(a) * int(b) for a, b in zip(x, y, strict=True))
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return n, slope, (sy - slope * sx) / n, int(sorted(y)[9 * (n - 1) // 10])

"""Spark operators of the tests' jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf


def hourly(flights: DataFrame, hours: int = 1) -> DataFrame:
    """Counts and sums by window and origin. Spark's watermark is that of the newest row of all partitions."""
    timed = flights.withWatermark("time", "6 hours")
    return timed.groupBy(F.window("time", f"{hours} hours"), "origin").agg(
        F.count("*").alias("n"), F.sum("delay").alias("total")
    )


@pandas_udf("double")  # type: ignore[call-overload, untyped-decorator, unused-ignore]
def _squared(delay: pd.Series) -> pd.Series:
    return (delay * delay).astype(float)


def scored(flights: DataFrame) -> DataFrame:
    """A Python function on every row."""
    return flights.select("origin", "number", "time", _score(F.col("delay")))


def _score(delay: Column) -> Column:
    found: Column = _squared(delay)
    return found.alias("score")


def failing_once(flights: DataFrame, mark: str) -> DataFrame:
    """Every partition's first try of a task ends with an error once it has written rows; the next writes them again."""

    def fail(batches):  # type: ignore[no-untyped-def]
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            spot = Path(f"{mark}-{context.partitionId()}")
            if context.attemptNumber() == 0 and not spot.exists():
                spot.touch()
                raise RuntimeError(f"task {context.partitionId()} of process {os.getpid()} fails for the test")

    return flights.select("origin", "number", "time").mapInArrow(fail, "origin string, number long, time timestamp")


def split(flights: DataFrame, least: int) -> dict[str, DataFrame]:
    """Late flights with a text, and counts by window and origin."""
    late = flights.where(F.col("delay") >= least).select("number", "time", F.lit("late").alias("why"))
    return {"hourly": hourly(flights), "late": late}


def half_timed(flights: DataFrame) -> dict[str, DataFrame]:
    """An output without an event time beside one with it."""
    return {"number": flights.select("number"), "time": flights.select("time")}


def labelled(flights: DataFrame, bags: DataFrame, label: str) -> DataFrame:
    """Numbers of two inputs in one stream."""
    of_flights = flights.select(F.lit(f"{label} flight").alias("label"), "number", "time")
    of_bags = bags.select(F.lit(f"{label} bag").alias("label"), F.col("of").alias("number"), F.col("at").alias("time"))
    return of_flights.union(of_bags)


def raises(flights: DataFrame) -> DataFrame:
    return flights.select("nothing")


def forgets(flights: DataFrame) -> None:
    flights.select("origin")


def unsupported(flights: DataFrame) -> DataFrame:
    return flights.groupBy("origin").count()


def with_settings(flights: DataFrame, settings: list[str]) -> DataFrame:
    """What settings of Spark are for this operator; it changes one."""
    session = flights.sparkSession
    found = [F.lit(session.conf.get(setting)).alias(f"s{index}") for index, setting in enumerate(settings)]
    session.conf.set(settings[0], 77)
    return flights.select("number", *found)

"""Spark operators of the tests' jobs that keep state of every kind, and what each makes of flights in one piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd  # type: ignore[import-untyped, unused-ignore]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues


@dataclass(frozen=True, slots=True)
class Flight:
    number: int
    origin: str
    delay: int
    time: datetime


CITIES = {"JFK": "Queens", "EWR": "Newark"}
WITHIN = timedelta(minutes=10)


def distinct(flights: DataFrame) -> DataFrame:
    """A number that comes again is dropped for as long as it may come in time."""
    return flights.withWatermark("time", "1 hour").dropDuplicatesWithinWatermark(["number"])


def ever_distinct(flights: DataFrame) -> DataFrame:
    return flights.dropDuplicates(["number"])


def followed(flights: DataFrame) -> DataFrame:
    """Two streams made of the one: late flights, each with those that left the same airport within ten minutes."""
    timed = flights.withWatermark("time", "1 hour")
    late = timed.filter("delay > 80").select("origin", F.col("number").alias("late"), F.col("time").alias("at"))
    near = F.expr("here.origin = late.origin AND time >= at AND time <= at + INTERVAL 10 MINUTES")
    return timed.alias("here").join(late.alias("late"), near).select("late", "here.origin", "number", "time")


def lonely(flights: DataFrame) -> DataFrame:
    """Late flights which none followed within ten minutes: rows that come out because nothing came."""
    timed = flights.withWatermark("time", "1 hour")
    late = timed.filter("delay > 80").select("origin", F.col("number").alias("late"), F.col("time").alias("at"))
    early = timed.filter("delay < 10").alias("early")
    near = F.expr("early.origin = late.origin AND time >= at AND time <= at + INTERVAL 10 MINUTES")
    return late.alias("late").join(early, near, "leftOuter").select("late", "number", "at")


def placed(flights: DataFrame) -> DataFrame:
    """A table that never changes, at every task; a flight from nowhere else is left out."""
    table = flights.sparkSession.createDataFrame(list(CITIES.items()), "origin string, city string")
    return flights.join(F.broadcast(table), "origin").select("number", "city", "time")


def tallied(flights: DataFrame) -> DataFrame:
    """A Python function with a state for each airport: how many flights it has had, and their delay in all."""

    def tally(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        count, total = state.get if state.exists else (0, 0)
        for frame in frames:
            count, total = count + len(frame), total + int(frame["delay"].sum())
        state.update((count, total))
        yield pd.DataFrame({"origin": [key[0]], "n": [count], "total": [total]})

    row, kept = "origin string, n long, total long", "n long, total long"
    return flights.groupBy("origin").applyInPandasWithState(tally, row, kept, "append", GroupStateTimeout.NoTimeout)


class Tally(StatefulProcessor):
    """The same, with Spark's newer kind of state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._so_far = handle.getValueState("so_far", "n long, total long")

    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        count, total = self._so_far.get() or (0, 0)
        for frame in rows:
            count, total = count + len(frame), total + int(frame["delay"].sum())
        self._so_far.update((count, total))
        yield pd.DataFrame({"origin": [key[0]], "n": [count], "total": [total]})

    def close(self) -> None:
        pass


def tallied_again(flights: DataFrame) -> DataFrame:
    row = "origin string, n long, total long"
    return flights.groupBy("origin").transformWithStateInPandas(Tally(), row, "append", "none")


# -- in one piece -----------------------------------------------------------------------------------------------------

Rows = Counter[tuple[Any, ...]]


def numbers(flights: Iterable[Flight]) -> Rows:
    return Counter({(one.number,): 1 for one in flights})


def pairs(flights: list[Flight]) -> Rows:
    """(late, number)."""
    found: Rows = Counter()
    for late in flights:
        if late.delay > 80:
            near = (one for one in flights if one.origin == late.origin and late.time <= one.time <= late.time + WITHIN)
            found.update((late.number, one.number) for one in near)
    return found


def alone(flights: list[Flight]) -> Rows:
    """(late, number or None)."""
    found: Rows = Counter()
    for late in (one for one in flights if one.delay > 80):
        near: list[int | None] = [
            one.number
            for one in flights
            if one.origin == late.origin and one.delay < 10 and late.time <= one.time <= late.time + WITHIN
        ]
        found.update((late.number, number) for number in near or [None])
    return found


def cities(flights: list[Flight]) -> Rows:
    return Counter((one.number, CITIES[one.origin]) for one in flights if one.origin in CITIES)


def tallies(files: list[list[Flight]]) -> Rows:
    """(origin, n, total) after each micro-batch."""
    found, count, total = Counter[tuple[Any, ...]](), Counter[str](), Counter[str]()
    for flights in files:
        for one in flights:
            count[one.origin] += 1
            total[one.origin] += one.delay
        found.update((origin, count[origin], total[origin]) for origin in {one.origin for one in flights})
    return found

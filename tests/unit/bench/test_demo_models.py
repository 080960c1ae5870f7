"""The demo's model of delays, in one piece by polars, is the one that its operator on Spark fits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from bench.demo.check import models
from compose.jobs.punctuality import line

BEGIN = datetime(2013, 1, 3, tzinfo=UTC)
"""A Thursday, as the first of 1970: a week begins."""


def test_each_window_and_airport_has_its_line_from_flights_that_left() -> None:
    rows: list[dict[str, Any]] = [
        {
            "origin": ("JFK", "EWR")[number % 2],
            "distance": 200 + number * 37 % 1000,
            "dep_delay": None if number % 7 == 0 else number * 13 % 90 - 10,
            "time_hour": f"{BEGIN + timedelta(hours=number):%Y-%m-%dT%H:%M:%SZ}",
        }
        for number in range(300)
    ]
    want = models(pl.DataFrame(rows))["models"]
    found = {}
    for first in (BEGIN, BEGIN + timedelta(days=7)):
        for origin in ("JFK", "EWR"):
            start, end = (f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" for at in (first, first + timedelta(days=7)))
            chosen = [
                row
                for row in rows
                if row["origin"] == origin and start <= row["time_hour"] < end and row["dep_delay"] is not None
            ]
            found[origin, start] = line([r["distance"] for r in chosen], [r["dep_delay"] for r in chosen])
    columns = ("n", "slope", "intercept", "tenth_worst")
    assert {(r["origin"], r["window_start"]): tuple(r[name] for name in columns) for r in want.rows} == found

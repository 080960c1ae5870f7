"""aggregate with sliding windows: means of road traffic."""

from __future__ import annotations

import polars as pl

from tests.golden.recordings import traffic
from tests.golden.whole import assert_newest, assert_rows, delivered, finish, in_windows, late

MEANS = '{n: "count()", speed: "mean(speed)", cars: "sum(vehicles)", slowest: "min(speed)"}'
COLUMNS = ["sensor", "n", "speed", "cars", "slowest", "window_start", "window_end"]


def job(window: str, emit: str) -> str:
    return f"""
name: speeds
sources:
  traffic:
    topic: traffic
    fields: {{at: timestamp, sensor: int, vehicles: int, speed: int}}
    event_time: at
    parallelism: 2
    allowed_lateness_s: 300
operators:
  speeds: {{aggregate: {MEANS}, key: [sensor], input: traffic, window: {window}, emit: {emit}}}
queries:
  speeds: {{input: speeds}}
"""


def one_piece(some: pl.DataFrame, size_s: int, slide_s: int) -> pl.DataFrame:
    groups = in_windows(some, size_s, slide_s).group_by("sensor", "window_start", "window_end")
    found = groups.agg(
        n=pl.len().cast(pl.Int64), speed=pl.mean("speed"), cars=pl.sum("vehicles"), slowest=pl.min("speed")
    )
    return found.select(COLUMNS)


def test_final_sliding_windows_are_those_of_one_piece() -> None:
    got = finish(job("{size_s: 7200, slide_s: 1800}", "final"), {"traffic": traffic()})
    assert late(got) == 0
    assert_rows(got, "speeds", one_piece(traffic(), 7200, 1800))


def test_sliding_windows_whose_slide_does_not_divide_their_size_are_those_of_one_piece() -> None:
    some = traffic().head(60_000)
    got = finish(job("{size_s: 3000, slide_s: 1200}", "final"), {"traffic": some})
    assert_rows(got, "speeds", one_piece(some, 3000, 1200))


def test_updates_of_sliding_windows_grow_until_they_are_those_of_one_piece() -> None:
    some = traffic().head(60_000)
    got = finish(job("{size_s: 3600, slide_s: 900}", "updates"), {"traffic": some})
    expected = one_piece(some, 3600, 900)
    key = ["sensor", "window_start", "window_end"]
    assert late(got) == 0
    assert_newest(got, "speeds", expected, key)
    growth = delivered(got, "speeds", expected).select(pl.col("n").diff().over(key).drop_nulls())
    assert growth.height > 0
    assert (growth["n"] > 0).all()

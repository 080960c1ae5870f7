"""python: users' operators with keyed state give what one piece gives, however the rows were cut and divided."""

from __future__ import annotations

import polars as pl

from tests.golden.recordings import packets, requests
from tests.golden.whole import assert_rows, finish, timed

ALLOWED = ["tests.golden.sessions"]


def test_gaps_between_the_packets_of_a_source_are_those_of_one_piece_from_two_tasks() -> None:
    job = """
name: gaps
sources:
  packets: {topic: packets, fields: {id: int, at: timestamp, src: int}, event_time: at}
operators:
  gaps: {python: "tests.golden.sessions:Gaps", key: [src], input: packets, parallelism: 2}
queries:
  gaps: {input: gaps}
max_batch_records: 3000
"""
    some = timed(packets().head(60_000)).with_row_index("id").cast({"id": pl.Int64})
    got = finish(job, {"packets": some.select("id", "at", "src")}, ALLOWED)
    expected = some.select(
        "id",
        "src",
        nth=pl.int_range(1, pl.len() + 1).over("src"),
        after_us=pl.col("_us").diff().over("src"),
    )
    assert (expected["after_us"] < 0).any(), "some packets come before their time"
    assert_rows(got, "gaps", expected)


def test_visits_that_the_watermark_or_the_next_request_ends_are_those_of_one_piece() -> None:
    gap_s = 1800
    job = f"""
name: visits
sources:
  requests: {{topic: requests, fields: {{host: string, at: timestamp}}, event_time: at}}
operators:
  visits: {{python: "tests.golden.sessions:Visits", key: [host], input: requests, params: {{gap_s: {gap_s}}}}}
queries:
  visits: {{input: visits}}
max_batch_records: 2000
"""
    some = timed(requests()).sort("_us", maintain_order=True)
    got = finish(job, {"requests": some.select("host", "at")}, ALLOWED)
    begins = (pl.col("_us").diff() > gap_s * 1_000_000).fill_null(True)
    visits = some.with_columns(visit=begins.cum_sum().over("host")).group_by("host", "visit")
    expected = visits.agg(
        began_us=pl.min("_us"), lasted_us=pl.max("_us") - pl.min("_us"), requests=pl.len().cast(pl.Int64)
    )
    assert expected["visit"].max() != 1, "some hosts come again"
    assert_rows(got, "visits", expected.drop("visit"))

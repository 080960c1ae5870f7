"""dedup: the first request of each host of a web server within a time."""

from __future__ import annotations

import polars as pl
import pytest

from tests.golden.recordings import requests
from tests.golden.whole import assert_rows, finish, late, timed, utc

COLUMNS = ["host", "path", "status", "bytes", "at"]


def job(within_s: int) -> str:
    return f"""
name: visits
sources:
  requests:
    topic: requests
    fields: {{host: string, path: string, status: int, bytes: int?, at: timestamp}}
    event_time: at
operators:
  visits: {{dedup: {{within_s: {within_s}}}, key: [host], input: requests, parallelism: 2}}
queries:
  visits: {{input: visits}}
max_batch_records: 500
"""


def one_piece(frame: pl.DataFrame, within_s: int) -> pl.DataFrame:
    """Row after row, by content within a second: one passes if the last that passed for its host is long enough ago."""
    last, passes = dict[str, int](), list[bool]()
    for host, at_us in timed(frame).select("host", "_us").iter_rows():
        passes.append(host not in last or at_us - last[host] >= within_s * 1_000_000)
        if passes[-1]:
            last[host] = at_us
    return frame.filter(pl.Series(passes)).select(COLUMNS).with_columns(at=utc("at"))


@pytest.mark.parametrize("within_s", [60, 1_800, 86_400 * 365])
def test_the_first_rows_of_a_stream_in_order_are_those_of_one_piece(within_s: int) -> None:
    some = requests().sort("at", "host", "path", "status", "bytes", maintain_order=True)
    got = finish(job(within_s), {"requests": some})
    assert late(got) == 0
    assert_rows(got, "visits", one_piece(some, within_s))

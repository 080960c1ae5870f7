"""aggregate with sessions: visits to a web server, against DuckDB."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.golden.recordings import requests
from tests.golden.whole import assert_rows, finish, late, timed

duckdb: Any = pytest.importorskip("duckdb")

JOB = """
name: visits
sources:
  requests:
    topic: requests
    fields: {{host: string, path: string, status: int, bytes: int?, at: timestamp}}
    event_time: at
    allowed_lateness_s: {lateness_s}
operators:
  visits:
    aggregate: {{n: "count()", bytes: "sum(bytes)", worst: "max(status)"}}
    key: [host]
    window: {{gap_s: {gap_s}}}
    input: requests
    parallelism: 2
queries:
  visits: {{input: visits}}
max_batch_records: 700
"""
SQL = """
WITH marked AS (
  SELECT *, coalesce(_us - lag(_us) OVER (PARTITION BY host ORDER BY _us) >= {gap_us}, true) AS begins FROM given),
numbered AS (
  SELECT *, count(*) FILTER (WHERE begins) OVER (PARTITION BY host ORDER BY _us ROWS UNBOUNDED PRECEDING) AS nth
  FROM marked)
SELECT host, count(*) AS n, sum(bytes)::BIGINT AS bytes, max(status) AS worst,
  strftime(make_timestamp(min(_us)), '%Y-%m-%dT%H:%M:%S.%fZ') AS window_start,
  strftime(make_timestamp(max(_us) + {gap_us}), '%Y-%m-%dT%H:%M:%S.%fZ') AS window_end
FROM numbered GROUP BY host, nth
"""


@pytest.mark.parametrize("gap_s", [60, 1_800])
def test_sessions_are_those_of_one_piece_in_whichever_order_the_records_come(gap_s: int) -> None:
    some = requests().with_row_index("_row")
    order = timed(some).with_columns(_came=pl.col("_us") + pl.col("_row").hash(1) % 900_000_000).sort("_came")
    given = timed(requests())
    connection = duckdb.connect()
    connection.register("given", given.to_arrow())
    expected: Any = pl.from_arrow(connection.sql(SQL.format(gap_us=gap_s * 1_000_000)).to_arrow_table())
    connection.close()
    shuffled = order.select(requests().columns)
    got = finish(JOB.format(gap_s=gap_s, lateness_s=901), {"requests": shuffled})
    assert late(got) == 0
    assert_rows(got, "visits", expected)

"""top: the paths of a web server and the hashtags of posts that were asked for or used most."""

from __future__ import annotations

import polars as pl

from tests.golden.recordings import posts, requests
from tests.golden.whole import assert_newest, assert_rows, finish, in_windows, late, utc

REQUESTS = """
  requests:
    topic: requests
    fields: {host: string, path: string, status: int, bytes: int?, at: timestamp}
    event_time: at
    allowed_lateness_s: 60
"""


def ranked(rows: pl.DataFrame, by: str, k: int, within: list[str] | None = None) -> pl.DataFrame:
    """The k best, of each group if there are any: descending, nulls last; equal ones by the other columns."""
    groups = within or []
    others = [name for name in rows.columns if name not in (by, *groups)]
    descending = [False] * len(groups) + [True] + [False] * len(others)
    best = rows.sort([*groups, by, *others], descending=descending, nulls_last=True)
    rank = pl.int_range(1, pl.len() + 1)
    return best.with_columns(rank=rank.over(groups) if groups else rank).filter(pl.col("rank") <= k)


def counts(frame: pl.DataFrame, name: str, size_s: int) -> pl.DataFrame:
    found = in_windows(frame, size_s).group_by(name, "window_start", "window_end").agg(n=pl.len().cast(pl.Int64))
    return found.select(name, "n", "window_start", "window_end")


def test_the_top_of_each_window_is_that_of_one_piece_ties_by_the_other_columns() -> None:
    job = f"""
name: busiest
sources: {REQUESTS}
operators:
  paths: {{aggregate: {{n: "count()"}}, key: [path], input: requests, window: {{size_s: 600}}, parallelism: 2}}
  busiest: {{top: {{k: 10, by: n}}, input: paths}}
queries:
  busiest: {{input: busiest}}
"""
    got = finish(job, {"requests": requests()})
    best = ranked(counts(requests(), "path", 600), "n", 10, ["window_start", "window_end"])
    assert late(got) == 0
    assert best.select("n", "window_start").is_duplicated().any(), "there are ties"
    assert_rows(got, "busiest", best)


def test_the_top_of_each_day_is_that_of_one_piece_for_exploded_hashtags() -> None:
    job = """
name: hashtags
sources:
  tags: {topic: tags, fields: {at: timestamp, tag: string}, event_time: at, allowed_lateness_s: 86400}
operators:
  counts: {aggregate: {n: "count()"}, key: [tag], input: tags, window: {size_s: 86400}}
  trending: {top: {k: 5, by: n}, input: counts}
queries:
  trending: {input: trending}
"""
    tags = posts().explode("hashtags").drop_nulls().rename({"hashtags": "tag"})
    got = finish(job, {"tags": tags})
    assert late(got) == 0
    best = ranked(counts(tags, "tag", 86400), "n", 5, ["window_start", "window_end"])
    assert_rows(got, "trending", best)


def test_the_newest_row_of_each_rank_of_running_totals_is_that_of_one_piece() -> None:
    job = f"""
name: running
sources: {REQUESTS}
operators:
  paths: {{aggregate: {{n: "count()", sent: "sum(bytes)"}}, key: [path], input: requests, parallelism: 2}}
  busiest: {{top: {{k: 50, by: n}}, input: paths}}
  heaviest: {{top: {{k: 50, by: sent}}, input: paths}}
queries:
  busiest: {{input: busiest}}
  heaviest: {{input: heaviest}}
max_batch_records: 1000
"""
    got = finish(job, {"requests": requests()})
    sent = pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum())
    totals = requests().group_by("path").agg(n=pl.len().cast(pl.Int64), sent=sent)
    assert_newest(got, "busiest", ranked(totals, "n", 50), ["rank"])
    assert_newest(got, "heaviest", ranked(totals, "sent", 50), ["rank"])


def test_the_newest_row_of_each_rank_of_single_rows_is_that_of_one_piece() -> None:
    job = f"""
name: largest
sources: {REQUESTS}
operators:
  largest: {{top: {{k: 200, by: bytes}}, input: requests}}
queries:
  largest: {{input: largest}}
max_batch_records: 1000
"""
    best = ranked(requests(), "bytes", 200).with_columns(at=utc("at"))
    assert best.select("bytes").is_duplicated().any(), "there are ties"
    assert_newest(finish(job, {"requests": requests()}), "largest", best, ["rank"])

"""aggregate: running totals and tumbling windows over packets that do not come in the order of time."""

from __future__ import annotations

import msgspec
import polars as pl

from tests.golden.recordings import packets
from tests.golden.whole import assert_newest, assert_rows, delivered, finish, in_windows, late, timed, utc

SOURCE = """
  packets:
    topic: packets
    fields: {at: timestamp, host: string, src: int, proto: string, type: int?, spt: int?, dpt: int?}
    event_time: at
"""
EVERY = (
    '{n: "count()", ports: "count(dpt)", sum: "sum(dpt)", mean: "mean(dpt / 7)", low: "min(spt)", high: "max(spt)", '
    'since: "min(at)", widest: "max(proto)", first: "first(dpt)", last: "last(host)"}'
)
"""Every aggregate, over columns with and without nulls."""


def every(frame: pl.DataFrame, *key: str) -> pl.DataFrame:
    """The same in one piece; first and last go by time, and at equal times by arrival."""
    in_order = timed(frame).sort("_us", maintain_order=True)
    return in_order.group_by(key).agg(
        n=pl.len().cast(pl.Int64),
        ports=pl.col("dpt").count().cast(pl.Int64),
        sum=pl.when(pl.col("dpt").count() > 0).then(pl.col("dpt").sum()),
        mean=(pl.col("dpt") / 7).mean(),
        low=pl.min("spt"),
        high=pl.max("spt"),
        since=utc("at").min(),
        widest=pl.max("proto"),
        first=pl.col("dpt").drop_nulls().first(),
        last=pl.col("host").last(),
    )


def test_the_newest_running_totals_of_each_key_are_those_of_one_piece() -> None:
    job = f"""
name: running
sources: {SOURCE}
operators:
  totals: {{aggregate: {EVERY}, key: [src], input: packets}}
queries:
  totals: {{input: totals}}
"""
    some = packets().head(200_000)
    assert_newest(finish(job, {"packets": some}), "totals", every(some, "src"), ["src"])


def test_counts_of_all_packets_by_source_and_of_those_to_each_host_are_those_of_one_piece() -> None:
    job = f"""
name: counts
sources: {SOURCE}
operators:
  sources: {{aggregate: {{n: "count()"}}, key: [src], input: packets, emit: final, parallelism: 2}}
  hosts: {{aggregate: {{n: "count()", ports: "sum(dpt)"}}, key: [host, proto], input: packets, emit: final}}
queries:
  sources: {{input: sources}}
  hosts: {{input: hosts}}
"""
    n = pl.len().cast(pl.Int64)
    got = finish(job, {"packets": packets()})
    assert_rows(got, "sources", packets().group_by("src").agg(n=n))
    ports = pl.when(pl.col("dpt").count() > 0).then(pl.col("dpt").sum())
    assert_rows(got, "hosts", packets().group_by("host", "proto").agg(n=n, ports=ports))


def test_tumbling_windows_are_those_of_one_piece_when_nothing_is_late() -> None:
    job = f"""
name: tumbling
sources: {SOURCE}
    allowed_lateness_s: 1500
operators:
  hourly: {{aggregate: {EVERY}, key: [src], input: packets, window: {{size_s: 3600}}, parallelism: 2}}
queries:
  hourly: {{input: hourly}}
"""
    some = packets().head(60_000)
    got = finish(job, {"packets": some})
    expected = every(in_windows(some, 3600), "src", "window_start", "window_end")
    assert late(got) == 0
    assert_rows(got, "hourly", expected.select(pl.exclude("window_start", "window_end"), "window_start", "window_end"))


def test_each_row_is_either_counted_in_its_window_or_dead_lettered_as_late_and_only_late_ones_are() -> None:
    lateness_s = 60
    job = f"""
name: late
sources: {SOURCE}
    allowed_lateness_s: {lateness_s}
    late: topic
operators:
  minutes: {{aggregate: {{n: "count()", ids: "sum(id)"}}, key: [host], input: packets, window: {{size_s: 60}}}}
queries:
  minutes: {{input: minutes}}
max_batch_records: 500
""".replace("{at:", "{id: int, at:")
    some = timed(packets().head(60_000)).with_row_index("id").cast({"id": pl.Int64})
    got = finish(job, {"packets": some.drop("_us")})
    aside = [msgspec.json.decode(letter.row)["id"] for letter in got.dead]
    assert len(aside) == len(set(aside)) == late(got) > 0
    is_late = pl.col("id").is_in(aside)
    behind_s = (pl.col("_us").cum_max() - pl.col("_us")) / 1_000_000
    assert some.filter(is_late & (behind_s <= lateness_s)).is_empty(), "none of them was in time"
    counted = in_windows(some.filter(~is_late), 60).group_by("host", "window_start", "window_end")
    expected = counted.agg(n=pl.len().cast(pl.Int64), ids=pl.sum("id"))
    assert_rows(got, "minutes", expected.select("host", "n", "ids", "window_start", "window_end"))


def test_late_rows_are_dropped_and_counted_unless_they_are_asked_for() -> None:
    job = f"""
name: dropped
sources: {SOURCE}
    allowed_lateness_s: 5
operators:
  minutes: {{aggregate: {{n: "count()"}}, key: [host], input: packets, window: {{size_s: 60}}}}
queries:
  minutes: {{input: minutes}}
max_batch_records: 500
"""
    some = packets().head(60_000)
    got = finish(job, {"packets": some})
    like = pl.DataFrame(schema={"host": pl.String, "n": pl.Int64, "window_start": pl.String, "window_end": pl.String})
    assert late(got) > 0
    assert got.dead == []
    assert delivered(got, "minutes", like)["n"].sum() + late(got) == some.height


def test_after_each_packet_come_the_totals_of_its_source_up_to_it_in_the_order_of_the_packets() -> None:
    job = f"""
name: each
sources: {SOURCE}
operators:
  totals: {{aggregate: {{n: "count()", ports: "sum(dpt)", low: "min(dpt)", last: "last(host)"}}, key: [src],
            input: packets, emit: each}}
queries:
  totals: {{input: totals}}
"""
    some = packets().head(100_000)
    seen = pl.col("dpt").cum_count().over("src") > 0
    newest = pl.col("_us") >= pl.col("_us").cum_max().over("src")
    expected = timed(some).select(
        "src",
        n=pl.int_range(1, pl.len() + 1).over("src"),
        ports=pl.when(seen).then(pl.col("dpt").fill_null(0).cum_sum().over("src")),
        low=pl.col("dpt").cum_min().forward_fill().over("src"),
        last=pl.when(newest).then("host").forward_fill().over("src"),
    )
    assert_rows(finish(job, {"packets": some}), "totals", expected, in_order=True)


def test_distinct_counts_and_quantiles_by_host_are_those_of_one_piece_while_they_are_few() -> None:
    job = f"""
name: sketches
sources: {SOURCE}
operators:
  hosts: {{aggregate: {{sources: "count_distinct(src)", ports: "count_distinct(dpt)", p90: "quantile(spt, 0.9)"}},
           key: [host], input: packets, emit: final}}
  hourly: {{aggregate: {{protocols: "count_distinct(proto)", median: "quantile(dpt, 0.5)"}}, key: [host],
            input: packets, window: {{size_s: 7200, slide_s: 3600}}}}
queries:
  hosts: {{input: hosts}}
  hourly: {{input: hourly}}
"""
    some = packets().head(60_000)
    got = finish(job.replace("at\n", "at\n    allowed_lateness_s: 1500\n", 1), {"packets": some})
    expected = some.group_by("host").agg(
        sources=pl.col("src").drop_nulls().n_unique().cast(pl.Int64),
        ports=pl.col("dpt").drop_nulls().n_unique().cast(pl.Int64),
        p90=pl.col("spt").quantile(0.9, "linear"),
    )
    assert 0 < max(expected["sources"].to_list()) < 10_000
    assert_rows(got, "hosts", expected)
    windows = in_windows(some, 7200, 3600).group_by("host", "window_start", "window_end")
    hourly = windows.agg(
        protocols=pl.col("proto").n_unique().cast(pl.Int64), median=pl.col("dpt").quantile(0.5, "linear")
    )
    columns = ["host", "protocols", "median", "window_start", "window_end"]
    assert_rows(got, "hourly", hourly.select(columns))

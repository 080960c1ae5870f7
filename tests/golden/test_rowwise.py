"""filter, select and union: the rows of one piece, in the order of the input."""

from __future__ import annotations

import polars as pl

from tests.golden.recordings import packets, posts, weather
from tests.golden.whole import assert_rows, finish, utc

PACKETS = """
  packets:
    topic: packets
    fields: {at: timestamp, host: string, src: int, proto: string, type: int?, spt: int?, dpt: int?}
    event_time: at
"""


def test_a_filter_keeps_the_rows_that_are_true_in_order_and_null_is_not_true() -> None:
    job = f"""
name: low-ports
sources: {PACKETS}
operators:
  low: {{filter: "dpt < 1024 AND (proto = 'UDP' OR host LIKE 'groucho-%')", input: packets}}
queries:
  low: {{input: low}}
"""
    some = packets().head(100_000)
    kept = some.filter(
        (pl.col("dpt") < 1024) & ((pl.col("proto") == "UDP") | pl.col("host").str.starts_with("groucho-"))
    )
    assert some["dpt"].null_count() > 0
    assert_rows(finish(job, {"packets": some}), "low", kept.with_columns(utc("at")), in_order=True)


def test_a_select_computes_each_row_in_order_and_a_zero_divisor_gives_null() -> None:
    job = """
name: fahrenheit
sources:
  weather: {topic: weather, fields: {hum: float?, tempm: int?, wspdm: float?, at: timestamp}, event_time: at}
operators:
  shaped:
    select: ["at", "tempm * 1.8 + 32 AS tempf", "hum / wspdm AS calm", "EXTRACT(hour FROM at) * 100 AS clock",
             "CASE WHEN tempm >= 20 THEN 'warm' ELSE 'cold' END AS feels", "tempm % 7 AS odd"]
    input: weather
queries:
  shaped: {input: shaped}
"""
    some = weather().with_columns(pl.col("hum", "wspdm").cast(pl.Float64), pl.col("tempm").cast(pl.Int64))
    expected = some.select(
        utc("at"),
        tempf=pl.col("tempm") * 1.8 + 32,
        calm=pl.when(pl.col("wspdm") != 0).then(pl.col("hum") / pl.col("wspdm")),
        clock=pl.col("at").str.slice(11, 2).cast(pl.Int64) * 100,
        feels=pl.when(pl.col("tempm") >= 20).then(pl.lit("warm")).otherwise(pl.lit("cold")),
        odd=pl.col("tempm") % 7,
    )
    assert expected["calm"].null_count() > 0
    assert_rows(finish(job, {"weather": some}), "shaped", expected, in_order=True)


def test_lists_pass_through_and_are_counted() -> None:
    job = """
name: many-tags
sources:
  posts: {topic: posts, fields: {at: timestamp, hashtags: "list<string>"}, event_time: at}
operators:
  counted: {select: ["at", "hashtags", "ARRAY_LENGTH(hashtags) AS tags"], input: posts}
  many: {filter: "tags > 3", input: counted}
queries:
  many: {input: many}
"""
    expected = posts().select(utc("at"), "hashtags", tags=pl.col("hashtags").list.len().cast(pl.Int64))
    got = finish(job, {"posts": posts()})
    assert_rows(got, "many", expected.filter(pl.col("tags") > 3), in_order=True)


def test_a_union_has_every_row_of_each_of_its_inputs_as_often_as_they_have_it() -> None:
    job = f"""
name: both
sources: {PACKETS}
operators:
  udp: {{filter: "proto = 'UDP'", input: packets}}
  low: {{filter: "dpt < 1024", input: packets, parallelism: 2}}
  both: {{union: [udp, low]}}
queries:
  both: {{input: both}}
"""
    some = packets().head(100_000)
    udp, low = some.filter(pl.col("proto") == "UDP"), some.filter(pl.col("dpt") < 1024)
    assert udp.filter(pl.col("dpt") < 1024).height > 0, "some rows come twice"
    assert_rows(finish(job, {"packets": some}), "both", pl.concat([udp, low]).with_columns(utc("at")))

"""join: road traffic beside the weather and beside incidents."""

from __future__ import annotations

import polars as pl

from tests.golden.recordings import incidents, sensors, traffic, weather
from tests.golden.whole import assert_newest, assert_rows, finish, in_windows, late, timed, utc

TRAFFIC = "fields: {at: timestamp, sensor: int, vehicles: int, speed: int}, event_time: at"
WEATHER = "fields: {at: timestamp, hum: int?, tempm: int?, wspdm: float?}, event_time: at"


def _placed(source: str) -> str:
    return source.replace("at: timestamp", "at: timestamp, place: string")


def pairs(left: pl.DataFrame, right: pl.DataFrame, on: list[str], within_s: int) -> pl.DataFrame:
    """Every left row beside every right row of the same key whose time is near; an id for each left row."""
    sides = timed(left).with_row_index("_id").join(timed(right), on=on, maintain_order="left_right")
    return sides.filter((pl.col("_us") - pl.col("_us_right")).abs() <= within_s * 1_000_000)


def test_an_inner_join_of_traffic_and_weather_has_each_near_pair_once() -> None:
    job = f"""
name: weathered
sources:
  traffic: {{topic: traffic, parallelism: 2, allowed_lateness_s: 300, {_placed(TRAFFIC)}}}
  weather: {{topic: weather, {_placed(WEATHER)}}}
operators:
  beside: {{join: {{left: traffic, right: weather, on: [place], within_s: 900, kind: inner}}}}
queries:
  beside: {{input: beside}}
"""
    place = pl.lit("aarhus").alias("place")
    left, right = traffic().head(25_000).with_columns(place), weather().head(200).with_columns(place)
    got = finish(job, {"traffic": left, "weather": right})
    near = pairs(left, right, ["place"], 900)
    columns = ["at", "place", "sensor", "vehicles", "speed", "at_right", "hum", "tempm", "wspdm"]
    assert late(got) == 0
    assert near.height > 1.5 * left.height, "many rows have several partners"
    assert_rows(got, "beside", near.select(utc(name) if name.startswith("at") else name for name in columns))


def beside_incidents(left: pl.DataFrame, right: pl.DataFrame, within_s: int) -> pl.DataFrame:
    """The left join in one piece: pairs, and the rows of traffic that have no partner."""
    near = pairs(left, right, ["sensor"], within_s)
    alone = timed(left).with_row_index("_id").join(near, on="_id", how="anti")
    return pl.concat([near, alone], how="diagonal")


INCIDENTS = f"""
sources:
  traffic: {{topic: traffic, {TRAFFIC}}}
  incidents:
    topic: incidents
    fields: {{at: timestamp, sensor: int, slowed_to: int, free_flow_kmh: int}}
    event_time: at
operators:
  beside: {{join: {{left: traffic, right: incidents, on: [sensor], within_s: 900, kind: left}}, parallelism: 2}}
"""


def test_a_left_join_has_each_row_of_traffic_with_its_incidents_or_once_without() -> None:
    job = f"name: slowed\n{INCIDENTS}\nqueries:\n  beside: {{input: beside}}\n"
    some = traffic().head(100_000)
    got = finish(job, {"traffic": some, "incidents": incidents()})
    columns = ["at", "sensor", "vehicles", "speed", "at_right", "slowed_to", "free_flow_kmh"]
    expected = beside_incidents(some, incidents(), 900).select(columns)
    assert 0 < expected["slowed_to"].null_count() < expected.height
    assert late(got) == 0
    assert_rows(got, "beside", expected.with_columns(at=utc("at"), at_right=utc("at_right")))


def test_rows_that_wait_in_a_left_join_are_in_time_for_a_window_behind_it() -> None:
    job = f"""
name: shares
{INCIDENTS}
  hourly:
    aggregate: {{rows: "count()", near: "count(slowed_to)", speed: "mean(speed)"}}
    key: [sensor]
    input: beside
    window: {{size_s: 3600}}
queries:
  hourly: {{input: hourly}}
max_batch_records: 2000
"""
    some = traffic().head(60_000)
    got = finish(job, {"traffic": some, "incidents": incidents()})
    joined = beside_incidents(some, incidents(), 900)
    latest = joined.with_columns(at=pl.when(pl.col("_us_right") > pl.col("_us")).then("at_right").otherwise("at"))
    hourly = in_windows(latest, 3600).group_by("sensor", "window_start", "window_end")
    expected = hourly.agg(
        rows=pl.len().cast(pl.Int64), near=pl.col("slowed_to").count().cast(pl.Int64), speed=pl.mean("speed")
    )
    assert late(got) == 0
    assert_rows(got, "hourly", expected.select("sensor", "rows", "near", "speed", "window_start", "window_end"))


def test_a_join_with_a_table_has_each_row_of_traffic_with_what_is_known_of_its_sensor() -> None:
    job = f"""
name: known
sources:
  traffic: {{topic: traffic, parallelism: 2, {TRAFFIC}}}
  sensors: {{topic: sensors, fields: {{sensor: int, road_type: string, free_flow_kmh: int}}, table: [sensor]}}
operators:
  all: {{join: {{left: traffic, right: sensors, on: [sensor], kind: left}}, parallelism: 2}}
  some: {{join: {{left: traffic, right: sensors, on: [sensor]}}, parallelism: 2}}
queries:
  all: {{input: all}}
  some: {{input: some}}
max_batch_records: 5000
"""
    known, some = sensors().filter(pl.col("sensor") % 3 != 0), traffic().head(50_000)
    stale = known.with_columns(free_flow_kmh=pl.lit(-1, pl.Int64))
    got = finish(job, {"traffic": some, "sensors": pl.concat([stale, known.reverse()])})
    expected = some.join(known, on="sensor", how="left").with_columns(at=utc("at"))
    assert 0 < expected["road_type"].null_count() < expected.height
    assert_rows(got, "all", expected)
    assert_rows(got, "some", expected.drop_nulls("road_type"))


def test_a_join_of_two_tables_ends_with_the_newest_row_of_each_key_beside_its_partner() -> None:
    job = """
name: states
sources:
  traffic: {topic: traffic, table: [sensor], parallelism: 2, fields: {sensor: int, vehicles: int, speed: int}}
  incidents: {topic: incidents, table: [sensor], fields: {sensor: int, slowed_to: int}}
operators:
  states: {join: {left: traffic, right: incidents, "on": [sensor], kind: left}, parallelism: 2}
queries:
  states: {input: states, sink: {topic: states, delete_when: "op = 'd'"}}
"""
    left = traffic().head(30_000).select("sensor", "vehicles", "speed")
    right = incidents().select("sensor", "slowed_to").filter(pl.col("sensor") % 3 > 0)
    got = finish(job, {"traffic": left, "incidents": right})
    newest = [one.unique("sensor", keep="last", maintain_order=True) for one in (left, right)]
    expected = newest[0].join(newest[1], on="sensor", how="left").with_columns(op=pl.lit("u"))
    assert 0 < expected["slowed_to"].null_count() < expected.height
    assert_newest(got, "states", expected, ["sensor"])

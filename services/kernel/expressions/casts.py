"""Casts that polars does otherwise, or not at all, as expressions of one column `_value`.

Texts become times in the forms of timestamps.py, each by itself; digits that do not fit a decimal are rounded, half
away from zero, as ROUND does. What does not fit is null. Source: JOBS "Expressions".
"""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from holdfast.services.kernel.expressions import decimals

TIMESTAMP = pl.Datetime("us", "UTC")
_VALUE = pl.col("_value")
_FORM = (
    r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?\s?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?\s*$"
)
"""Date, hours, minutes, seconds, fraction, offset."""
_DAY, _HOURS, _MINUTES, _SECONDS, _FRACTION, _OFFSET = (_VALUE.str.extract(_FORM, group) for group in range(1, 7))
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def _number(digits: pl.Expr) -> pl.Expr:
    return digits.cast(pl.Int64, strict=False).fill_null(0)


def _local() -> pl.Expr:
    """Microseconds without regard to the offset."""
    day = _DAY.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")).to_physical()
    hours, minutes, seconds = map(_number, (_HOURS, _MINUTES, _SECONDS))
    micros = _number((_FRACTION + "000000").str.slice(0, 6))
    sound = (hours < 24) & (minutes < 60) & (seconds < 60)
    return pl.when(sound).then(day + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)


def _behind_utc() -> pl.Expr:
    minutes = _number(_OFFSET.str.slice(1, 2)) * 60 + _number(_OFFSET.str.slice(3).str.strip_chars(":"))
    return pl.when(_OFFSET.str.starts_with("-")).then(minutes).otherwise(-minutes) * 60_000_000


@lru_cache(64)
def cast(given: pl.DataType, wanted: pl.DataType) -> pl.Expr | None:
    """Cast of a column to the wanted type; None: as polars does it."""
    if isinstance(wanted, pl.Decimal):
        return _decimal(given, wanted)
    if given == pl.String:
        return _of_text(wanted)
    if wanted == pl.String and isinstance(given, pl.Datetime):
        return _VALUE.cast(TIMESTAMP).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    return None


def _of_text(wanted: pl.DataType) -> pl.Expr | None:
    if isinstance(wanted, pl.Datetime):
        return (_local() + _behind_utc()).cast(TIMESTAMP)
    if wanted == pl.Date:
        return _local().cast(pl.Datetime("us")).cast(pl.Date)
    if wanted == pl.Boolean:
        text = _VALUE.str.to_lowercase()
        return pl.when(text.is_in(_TRUE)).then(True).when(text.is_in(_FALSE)).then(False)
    return None


def _decimal(given: pl.DataType, wanted: pl.Decimal) -> pl.Expr | None:
    if given == pl.String:
        # Polars rounds half to even, so of a half it is told that it is more.
        half = rf"^([^.eE]*\.[0-9]{{{wanted.scale}}})5[0-9]*$"
        return _VALUE.str.replace(half, "${1}6").cast(wanted, strict=False)
    if given.is_float() or (isinstance(given, pl.Decimal) and given.scale > wanted.scale):
        fits = decimals.rounding(wanted.scale, given) if isinstance(given, pl.Decimal) else None
        return (
            (_VALUE if fits is None else fits)
            .round(wanted.scale, mode="half_away_from_zero")
            .cast(wanted, strict=False)
        )
    return None

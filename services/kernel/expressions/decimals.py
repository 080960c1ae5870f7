"""Decimals: an operation whose result has more digits than a decimal holds gives null.

Polars raises an error at such a row, while integers of more than 64 bits become null. So the operand is made null, and
with it the result. If the types guarantee that every result fits, nothing is added. Source: JOBS "Values of
expressions".
"""

from __future__ import annotations

import polars as pl

from holdfast.services.kernel.codecs.fields import MAX_PRECISION

_LEFT, _RIGHT = pl.col("_left"), pl.col("_right")
_INTEGER_DIGITS = 19
_MOST = 10**MAX_PRECISION - 1
_FAR = 1.5e38
"""Below this value a product of two integers fits into 128 bits."""
_NEARLY = 1 - 1e-12
"""A quotient is compared as a float."""


def fitting(operation: str, left: pl.DataType, right: pl.DataType, result: pl.DataType) -> pl.Expr | None:
    """The operand `_left`, null if the result for it and `_right` does not fit; None if every result fits."""
    assert isinstance(result, pl.Decimal)
    (whole, scale), (others, other_scale) = (_digits(one) for one in (left, right))
    if operation in ("Plus", "Add", "Minus", "Sub"):
        if max(whole, others) + 1 + result.scale <= MAX_PRECISION:
            return None
        return _where(_sum_fits(result.scale, operation in ("Minus", "Sub")))
    if operation in ("Multiply", "Mul"):
        return (
            None if whole + scale + others + other_scale <= MAX_PRECISION else _where(_product_fits(scale, other_scale))
        )
    if operation in ("Rem", "Modulus") or whole + other_scale + result.scale <= MAX_PRECISION:
        return None
    quotient = _LEFT.cast(pl.Float64).abs() / _RIGHT.cast(pl.Float64).abs()
    return _where(quotient < 10.0 ** (MAX_PRECISION - result.scale) * _NEARLY)


def rounding(digits: int, kind: pl.Decimal) -> pl.Expr | None:
    """The value `_value`, null if rounding to `digits` digits after the point exceeds the type's digits; None if it
    never does.
    """
    if kind.precision != MAX_PRECISION or digits >= kind.scale:
        return None
    most = _MOST - 5 * 10 ** (kind.scale - digits - 1)
    return _kept(_units(pl.col("_value"), kind.scale).abs() <= _limit(most))


def stepping(function: str, kind: pl.Decimal) -> pl.Expr | None:
    """The condition under which the result of Floor or Ceil fits the type; None if it always does."""
    if kind.precision != MAX_PRECISION or not kind.scale:
        return None
    units, most = _units(pl.col("_value"), kind.scale), 10**MAX_PRECISION - 10**kind.scale
    return _kept(units >= _limit(-most) if function == "Floor" else units <= _limit(most))


def _digits(kind: pl.DataType) -> tuple[int, int]:
    """The most digits before and after the point."""
    if isinstance(kind, pl.Decimal):
        precision = kind.precision or MAX_PRECISION
        return precision - kind.scale, kind.scale
    return _INTEGER_DIGITS, 0


def _units(value: pl.Expr, scale: int) -> pl.Expr:
    """The value as a whole number of its last digit; null if that number has too many digits."""
    return value.cast(pl.Decimal(MAX_PRECISION, scale), strict=False).to_physical()


def _sum_fits(scale: int, subtracts: bool) -> pl.Expr:
    one, other = _units(_LEFT, scale), _units(_RIGHT, scale)
    above, below = other.clip(0), other.clip(upper_bound=0)
    if subtracts:
        return (one <= _limit(_MOST) + below) & (one >= _limit(-_MOST) + above)
    return (one <= _limit(_MOST) - above) & (one >= _limit(-_MOST) - below)


def _product_fits(scale: int, other_scale: int) -> pl.Expr:
    one, other = _units(_LEFT, scale), _units(_RIGHT, other_scale)
    about = one.cast(pl.Float64).abs() * other.cast(pl.Float64).abs()
    return (about < _FAR) & ((one * other).abs() <= _limit(_MOST))


def _limit(number: int) -> pl.Expr:
    return pl.lit(number, dtype=pl.Int128)


def _where(fits: pl.Expr) -> pl.Expr:
    return pl.when(fits).then(_LEFT)


def _kept(fits: pl.Expr) -> pl.Expr:
    return pl.when(fits).then(pl.col("_value"))

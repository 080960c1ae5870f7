"""Casts that polars does differently, or not at all, as expressions of one column `_value`.

Texts become times in the forms of timestamps.py, each text alone. Digits that do not fit a decimal are rounded half
away from zero, as in ROUND. A value that does not fit becomes null. Source: JOBS "Expressions".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.maps import is_map
from holdfast.services.kernel.expressions import decimals
from holdfast.services.kernel.expressions.refused import Refused
from holdfast.services.kernel.expressions.type_words import in_words, item_of

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
    """Microseconds, ignoring the offset."""
    day = _DAY.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")).to_physical()
    hours, minutes, seconds = map(_number, (_HOURS, _MINUTES, _SECONDS))
    micros = _number((_FRACTION + "000000").str.slice(0, 6))
    sound = (hours < 24) & (minutes < 60) & (seconds < 60)
    return pl.when(sound).then(day + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)


def _behind_utc() -> pl.Expr:
    minutes = _number(_OFFSET.str.slice(1, 2)) * 60 + _number(_OFFSET.str.slice(3).str.strip_chars(":"))
    return pl.when(_OFFSET.str.starts_with("-")).then(minutes).otherwise(-minutes) * 60_000_000


def check(given: pl.DataType, wanted: pl.DataType, text: str | None) -> None:
    """Refuses a cast that gives no value, and one to a type that no column has.

    text: the value, if it is a literal.

    Raises:
        Refused: the cast is refused; the message has the replacement.
    """
    if isinstance(given, pl.List) and isinstance(wanted, pl.List) and not is_map(given):
        return check(item_of(given), item_of(wanted), None)
    if not _family(wanted):
        return  # the check of the whole expression reports a type that no column has
    if given not in (wanted, pl.Null) and _family(given) not in _FROM[_family(wanted)]:
        hint = {
            "list": ": take one item by its number in square brackets",
            "struct": ": take a member of the struct",
            "map": ": take one value, by MAP_GET",
        }.get(_family(given), "")
        raise Refused(f"casts {in_words(given)} to {in_words(wanted)}, which has no such value{hint}")
    if text is not None and _of_one(text, wanted) is None:
        raise Refused(f"casts '{text}' to {in_words(wanted)}, which it is not")


def _of_one(text: str, wanted: pl.DataType) -> Any:
    template = cast(pl.String(), wanted)
    value = _VALUE.cast(wanted, strict=False) if template is None else template
    return pl.DataFrame({"_value": [text]}).select(value).item()


def _family(kind: pl.DataType) -> str:
    """The family of types with the same possible casts; empty if no column has such a type."""
    if is_map(kind):
        return "map"
    if isinstance(kind, pl.List):
        return "list"
    if isinstance(kind, pl.Struct):
        return "struct"
    if isinstance(kind, pl.Datetime):
        return "timestamp"
    if kind.is_integer():
        return "int"
    names = {pl.String: "text", pl.Boolean: "bool", pl.Date: "date", pl.Binary: "bytes"}
    return "number" if kind.is_numeric() else next((name for one, name in names.items() if kind == one), "")


_FROM: dict[str, tuple[str, ...]] = {
    "int": ("int", "number", "text", "bool", "timestamp"),
    "number": ("int", "number", "text", "bool"),
    "bool": ("int", "number", "text"),
    "text": ("int", "number", "bool", "timestamp", "date"),
    "timestamp": ("text", "date", "timestamp", "int"),
    "date": ("text", "timestamp", "int"),
    "bytes": ("text",),
    "list": (),
    "struct": (),
    "map": (),
}
"""The families that a cast accepts, by family of the target type."""


@lru_cache(64)
def cast(given: pl.DataType, wanted: pl.DataType) -> pl.Expr | None:
    """The cast of a column to the wanted type; None if polars' own cast is right."""
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
    if given == pl.Boolean:
        return _VALUE.cast(pl.Int64).cast(wanted, strict=False)
    if given == pl.String:
        # Polars rounds half to even, so a half is passed as slightly more.
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

"""Times in users' forms, converted to microseconds since 1970.

ISO 8601 with or without an offset (without: UTC), date and time separated by T or a space, a fraction cut after six
digits; or integers with a unit. Source: JOBS "timestamps", PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

OLDEST_US = -62_135_596_800_000_000
"""The begin of 0001-01-01; NEWEST_US is the end of 9999: years have four digits."""
NEWEST_US = 253_402_300_799_999_999
US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_ZONED = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")
_TOO_FINE = r"(\.\d{6})\d+"
_HAS_OFFSET = r"[T ][^T ]*(Z|[+-][0-9:]+)$"


def parse(texts: Sequence[str | None]) -> pl.Series:
    """Microseconds since 1970; null if a text is null or not a time. The result of a text never depends on other
    texts.
    """
    # `pa.array` would load pandas, if that is installed, to recognize its types.
    array = pl.Series(texts, dtype=pl.String).to_arrow(compat_level=pl.CompatLevel.oldest())
    for kind in (_ZONED, _NAIVE):
        if (times := _parsed(array, kind)) is not None:
            return _in_range(pl.Series(times.cast(pa.int64())))
    return _in_range(_mixed(array))


def scaled(numbers: Sequence[int | None], unit: str) -> pl.Series:
    """Microseconds from integers in a unit; null outside the years 1 to 9999."""
    values = pl.Series(numbers, dtype=pl.Int64)
    if unit == "ns":
        return _in_range(values // 1_000)
    factor = US_PER_UNIT[unit]
    return _in_range(values, factor) * factor


def _parsed(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The texts as times of this kind; None if any text is not of this kind."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        return None


def _mixed(array: pa.Array) -> pl.Series:
    """The times of texts with and without offsets, with too fine a fraction, and of texts that are not times."""
    texts = pl.Series(pc.replace_substring_regex(array, _TOO_FINE, r"\1"))
    zoned = texts.str.contains(_HAS_OFFSET).fill_null(False)
    times = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(texts))
    for kind, mask in ((_ZONED, zoned), (_NAIVE, ~zoned)):
        times = times.scatter(mask.arg_true(), _halved(texts.filter(mask).to_arrow(), kind))
    return times


def _halved(array: pa.Array, kind: pa.DataType) -> list[int | None]:
    """The times of texts; finds by halving the texts that are not times."""
    if (times := _parsed(array, kind)) is not None:
        found: list[int | None] = times.cast(pa.int64()).to_pylist()
        return found
    if len(array) == 1:
        return [None]
    middle = len(array) // 2
    return _halved(array[:middle], kind) + _halved(array[middle:], kind)


def _in_range(values: pl.Series, factor: int = 1) -> pl.Series:
    """The values inside the years 1 to 9999, null for others.

    factor: microseconds in one unit of the values.
    """
    oldest, newest = OLDEST_US // factor, NEWEST_US // factor
    least, most = values.min(), values.max()
    if least is None or (int(least) >= oldest and int(most) <= newest):  # type: ignore[arg-type]
        return values
    fits = values.is_between(oldest, newest)
    return values.to_frame("us").select(pl.when(fits).then(pl.col("us"))).to_series()

"""Maps in the code of a user: columns of dicts, to read from a batch and to return in a frame.

Source: JOBS "Python operators".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.fields import dtype, required
from holdfast.services.kernel.codecs.maps import as_dicts
from holdfast.services.kernel.codecs.typed_columns import as_entries


def dicts_of(column: pl.Series) -> list[Any]:
    """The values of a column with a dict in place of each map, also inside of lists and structs."""
    return [as_dicts(value, column.dtype) for value in column.to_list()]


def map_column(values: Iterable[Mapping[str, Any] | None], type: str) -> pl.Series:
    """A column of dicts, such as `map_column([{"a": 1}, None], "map<string, int>")`.

    Raises:
        ValueError: the type is not that of a map.
        TypeError: a value does not have the type.
    """
    if not required(type).startswith("map<"):
        raise ValueError(f"'{type}' is no type of a map, such as map<string, int>")
    kind = dtype(type)
    return pl.Series([as_entries(value, kind) for value in values], dtype=kind)

"""Reading of decimals, dates and timestamps from text fields of Protobuf, as a sink writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.fields import dtype
from holdfast.services.kernel.codecs.typed_columns import EXACT, decimals

_DIGITS_OF_A_DATE = 10


def written_as(required: str) -> Callable[[str], Any] | None:
    """A function that reads a text as a value of the type or raises ValueError; None if the type is not written as
    text.
    """
    read: Callable[[str], Any]
    if required == "timestamp":
        read = _moment
    elif required == "date":
        read = _date
    elif required.startswith("decimal"):
        kind = dtype(required)
        assert isinstance(kind, pl.Decimal)
        column = decimals(kind)

        def read(text: str) -> Any:
            return column([Decimal(text)])[0] if EXACT.fullmatch(text) else None
    else:
        return None
    return lambda text: _fitting(text, required, read)


def _moment(text: str) -> Any:
    return timestamps.parse([text]).cast(pl.Datetime("us", "UTC"))[0]


def _date(text: str) -> Any:
    return date.fromisoformat(text) if len(text) == _DIGITS_OF_A_DATE else None


def _fitting(text: str, required: str, read: Callable[[str], Any]) -> Any:
    try:
        found = read(text)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"expected {required}, found '{text[:40]}'")
    return found

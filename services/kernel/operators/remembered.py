"""The state of an operator as rows for people: its entries for each key, as of a batch.

An operator with state yields it table by table, in pieces, so that a reader may stop early. Reading does not change the
state. Source: JOBS "holdfast state".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import SIMPLE
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.state.table import Table, Value

PIECE = 10_000
Wanted = Sequence[bytes] | None
"""The encoded keys to look up; None: all."""


class Remembered(NamedTuple):
    """Entries of a table, one row each.

    keys: columns that begin with those of the operator's key.
    """

    table: str
    keys: pl.DataFrame
    values: pl.DataFrame


@runtime_checkable
class Remembering(Protocol):
    """An operator whose state can be read."""

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields the state.

        watermark: the watermark of its inputs at the batch of the state.
        wanted: the encoded keys to read; None: all.
        """
        ...


def stored(table: Table, wanted: Wanted) -> Iterator[list[tuple[bytes, Value]]]:
    """Yields the entries of a table with the operator's keys, in pieces."""
    if wanted is None:
        entries = iter(table.scan(b""))
        while piece := list(islice(entries, PIECE)):
            yield piece
    elif found := [(key, one) for key, one in zip(wanted, table.get_many(wanted), strict=True) if one is not None]:
        yield found


def of_rows(table: str, rows: pl.DataFrame, key: Sequence[str], wanted: Wanted) -> Iterator[Remembered]:
    """Yields rows of the state that are not stored by key, with their event times."""
    if wanted is not None and rows.height:
        rows = rows.filter(pl.Series(_among(canonical_keys.encode(rows, key), set(wanted))))
    for start in range(0, rows.height, PIECE):
        piece = rows.slice(start, PIECE)
        values = piece.drop(key)
        yield Remembered(table, piece.select(key), readable(values) if TIME in values.columns else values)


def readable(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, with their event times as timestamps."""
    return rows.with_columns(moments(rows[TIME]))


def moments(times: pl.Series) -> pl.Series:
    """Microseconds as moments."""
    return times.cast(pl.Int64).cast(SIMPLE["timestamp"])


def _among(keys: Sequence[bytes], wanted: Collection[bytes]) -> list[bool]:
    return [key in wanted for key in keys]

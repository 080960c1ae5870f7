"""Late rows: all that they could count in was closed by the watermark after the batch before.

Source: PROTOCOL 3. Only operators that close something by time (windows, joins) judge lateness, each by what it has
closed. A row that is merely behind the watermark is in time, so how records fall into batches drops none of them.
"""

from __future__ import annotations

import polars as pl

from services.kernel.operators.operator import TIME, Refused


def split_late(rows: pl.DataFrame, closed_us: int, keep: bool) -> tuple[pl.DataFrame, int, tuple[Refused, ...]]:
    """(rows in time, number of late ones, late ones as refused rows if `keep`).

    Args:
        closed_us: for rows before this time everything is closed.
    """
    if not rows.height or int(rows[TIME].min()) >= closed_us:  # type: ignore[arg-type]
        return rows, 0, ()
    is_late = rows[TIME] < closed_us
    late = rows.filter(is_late)
    refused = tuple(Refused("late", line) for line in late.write_ndjson().splitlines()) if keep else ()
    return rows.filter(~is_late), late.height, refused

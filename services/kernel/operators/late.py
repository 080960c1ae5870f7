"""Late rows: older than the watermark after the batch before.

Source: PROTOCOL 3. Only operators that close something by time (windows, joins) judge lateness.
"""

from __future__ import annotations

import polars as pl

from services.kernel.operators.operator import TIME, Refused


def split_late(rows: pl.DataFrame, watermark: int, keep: bool) -> tuple[pl.DataFrame, int, tuple[Refused, ...]]:
    """(rows in time, number of late ones, late ones as refused rows if `keep`)."""
    if not rows.height or int(rows[TIME].min()) >= watermark:  # type: ignore[arg-type]
        return rows, 0, ()
    is_late = rows[TIME] < watermark
    late = rows.filter(is_late)
    refused = tuple(Refused("late", line) for line in late.write_ndjson().splitlines()) if keep else ()
    return rows.filter(~is_late), late.height, refused

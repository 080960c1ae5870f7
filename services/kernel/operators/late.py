"""Late rows: rows whose windows or matches were all closed by the watermark after the batch before.

Source: PROTOCOL 3. Only operators that close windows or matches by time judge lateness, each by its own closing. A row
that is only behind the watermark is in time, so the division into batches drops no row.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.operators.operator import TIME, Refused

_NO_TIMES = pl.Series(TIME, [], dtype=pl.Int64)


class Split(NamedTuple):
    """The rows of a batch without the late ones.

    rows: the rows in time.
    late: the number of late rows; each is either in `refused`, or its event time is in `dropped`.
    refused: the refused late rows.
    dropped: the event times of the dropped late rows.
    """

    rows: pl.DataFrame
    late: int = 0
    refused: tuple[Refused, ...] = ()
    dropped: pl.Series = _NO_TIMES


def split_late(rows: pl.DataFrame, closed_us: int, keep: bool, slot: int = 0) -> Split:
    """Removes late rows, and returns them as refused rows if `keep`.

    Args:
        closed_us: the time before which all windows or matches of a row are closed.
        slot: the operator's input of the rows.
    """
    if not rows.height or int(rows[TIME].min()) >= closed_us:  # type: ignore[arg-type]
        return Split(rows)
    is_late = rows[TIME] < closed_us
    late = rows.filter(is_late)
    if not keep:
        return Split(rows.filter(~is_late), late.height, dropped=late[TIME])
    places = is_late.arg_true().to_list()
    lines = encode_json(late, dict.fromkeys(late.columns, ""))
    refused = tuple(Refused("late", line.decode(), slot, place) for line, place in zip(lines, places, strict=True))
    return Split(rows.filter(~is_late), late.height, refused)

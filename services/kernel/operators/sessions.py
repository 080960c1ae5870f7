"""aggregate with sessions: groups rows of a key that are less than a gap apart, by event time.

A session begins with its first row and ends `gap` after its last one. A row between two sessions, less than the gap
from both, joins them. A session closes when the watermark reaches its end: no row in time can touch it then. So the
sessions of rows in time depend only on the rows, not on batches or the order of arrival. A row behind the watermark on
arrival counts in a session that is still open, or as a session of its own; it is late if that session would have ended.

A batch is divided into segments, the sessions of its rows alone, and each segment is reduced once. Then segments and
the open sessions of their key are merged, key by key. The state of a key is the tuple of its open sessions.
Source: JOBS "window", PROTOCOL 3 (late) and 4, docs/decisions/0163.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.operators.accumulators import Columns, as_list
from holdfast.services.kernel.operators.aggregation import Aggregation
from holdfast.services.kernel.operators.ends import Ends
from holdfast.services.kernel.operators.grouping import Grouping, State
from holdfast.services.kernel.operators.late import split_late
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, stored
from holdfast.services.kernel.operators.window_shapes import Session
from holdfast.services.kernel.operators.windows import BOUNDS, END, START
from holdfast.services.kernel.state.table import Tables

_SEGMENT = "_segment"
Open = tuple[int, int, State]
"""An open session: the times of its first and its last row, and the accumulators of its aggregates."""


class Sessions:
    """Aggregates by key and session; one row for each closed session, by (end, key).

    Args:
        keep_late: late rows are refused (to the dead letters) instead of dropped.
    """

    def __init__(self, made_of: Aggregation, shape: Session, keep_late: bool, tables: Tables) -> None:
        self._key = list(made_of.key)
        self._shape = shape
        self._keep_late = keep_late
        self._grouping = Grouping([_SEGMENT], made_of.aggregates)
        self._open = tables.table("sessions")
        self._schema = with_time(made_of.output)
        self._nothing = self._schema.to_frame()
        self._ends: Ends | None = None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        closed = self._shape.closed_us(context.watermark_before)
        rows, late, refused, dropped = split_late(inputs[0], closed, self._keep_late)
        ends = self._known_ends()
        if rows.height:
            self._add(rows, ends)
        ended = self._ended(ends, context.watermark) if context.watermark > context.watermark_before else self._nothing
        return Outcome(ended, late, refused, dropped=(dropped,))

    def _known_ends(self) -> Ends:
        """The ends of open sessions; read from the state at first use."""
        if self._ends is None:
            entries = self._open.scan(b"")
            self._ends = Ends({key: sessions[0][1] + self._shape.gap_us for key, sessions in entries})
        return self._ends

    # -- rows come in -------------------------------------------------------------------------------------------------

    def _add(self, rows: pl.DataFrame, ends: Ends) -> None:
        rows = rows.with_columns(canonical_keys.canonical_floats(rows[name]) for name in self._key)
        first, found = self._segments(rows)
        partial = self._grouping.reduce(rows.with_columns(pl.Series(_SEGMENT, found.of_row)), TIME)[1]
        encoded = canonical_keys.encode(rows[first], self._key)
        segments: list[list[Open]] = [[] for _ in encoded]
        alone = zip(found.first.tolist(), found.last.tolist(), self._grouping.states_of(partial), strict=True)
        for owner, segment in zip(found.owner.tolist(), alone, strict=True):
            segments[owner].append(segment)
        states = self._together(self._open.get_many(encoded), segments)
        self._open.put_many(encoded, states)
        for key, sessions in zip(encoded, states, strict=True):
            ends.note(key, sessions[0][1] + self._shape.gap_us)

    def _segments(self, rows: pl.DataFrame) -> tuple[Any, _Segments]:
        """The distinct keys, one row each, and the sessions of the batch alone, by key and time."""
        times = rows[TIME].to_numpy()
        if self._key:
            representative, owner = canonical_keys.groups(rows, self._key)
        else:
            representative, owner = np.zeros(1, dtype=np.int64), np.zeros(rows.height, dtype=np.int64)
        by_time = np.argsort(times, kind="stable")
        narrow = owner.astype(np.uint16) if len(representative) <= 2**16 else owner  # numpy has a radix sort for it
        order = by_time[np.argsort(narrow[by_time], kind="stable")]
        owners, ordered = owner[order], times[order]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = (owners[1:] != owners[:-1]) | (ordered[1:] - ordered[:-1] >= self._shape.gap_us)
        of_row = np.empty(len(order), dtype=np.int64)
        of_row[order] = np.cumsum(begins) - 1
        starts = np.flatnonzero(begins)
        lasts = np.append(starts[1:], len(order)) - 1
        return representative, _Segments(of_row, owners[starts], ordered[starts], ordered[lasts])

    def _together(self, states: Sequence[Sequence[Open] | None], segments: Sequence[Sequence[Open]]) -> list[Any]:
        """The open sessions of each key, in the order of time."""
        made: list[list[Open]] = []
        counts = []
        for state, new in zip(states, segments, strict=True):
            parts = [[one] for one in new] if state is None else self._touching([*state, *new])
            counts.append(len(parts))
            made += parts
        sessions = self._merged(made)
        found, start = [], 0
        for count in counts:
            found.append(tuple(sessions[start : start + count]))
            start += count
        return found

    def _touching(self, parts: Sequence[Open]) -> list[list[Open]]:
        """The groups of parts that form one session each; inside a group parts keep the given order of arrival."""
        found: list[list[int]] = []
        end = 0
        for at in sorted(range(len(parts)), key=lambda one: parts[one][0]):
            first, last, _ = parts[at]
            if found and first < end:
                found[-1].append(at)
                end = max(end, last + self._shape.gap_us)
            else:
                found.append([at])
                end = last + self._shape.gap_us
        return [[parts[at] for at in sorted(some)] for some in found]

    def _merged(self, parts: Sequence[Sequence[Open]]) -> list[Open]:
        """Merges each group of parts into one session; the second parts of all groups are added at once, then the third
        ones.
        """
        columns: Columns = [as_list(column) for column in self._grouping.columns_of([one[0][2] for one in parts])]
        left, nth = [at for at, one in enumerate(parts) if len(one) > 1], 1
        while left:
            old: Columns = [[column[at] for at in left] for column in columns]
            new = self._grouping.columns_of([parts[at][nth][2] for at in left])
            for column, values in zip(columns, self._grouping.merge_columns(old, new), strict=True):
                for at, value in zip(left, as_list(values), strict=True):
                    column[at] = value
            nth += 1
            left = [at for at in left if len(parts[at]) > nth]
        return [
            (min(part[0] for part in one), max(part[1] for part in one), state)
            for one, state in zip(parts, self._grouping.states_of(columns), strict=True)
        ]

    # -- sessions end -------------------------------------------------------------------------------------------------

    def _ended(self, ends: Ends, watermark: int) -> pl.DataFrame:
        keys = ends.until(watermark)
        if not keys:
            return self._nothing
        over: list[tuple[bytes, Open]] = []
        left: dict[bytes, tuple[Open, ...]] = {}
        for key, sessions in zip(keys, self._open.get_many(keys), strict=True):
            still = tuple(one for one in sessions or () if one[1] + self._shape.gap_us > watermark)
            over += [(key, one) for one in (sessions or ())[: len(sessions or ()) - len(still)]]
            if still:
                left[key] = still
                ends.note(key, still[0][1] + self._shape.gap_us)
        kept = [key for key in keys if key in left]
        self._open.put_many(kept, [left[key] for key in kept])
        self._open.delete_many([key for key in keys if key not in left])
        return self._rows(over) if over else self._nothing

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields open sessions with their present bounds."""
        names = [*self._key, *BOUNDS]
        for entries in stored(self._open, wanted):
            rows = self._rows([(key, one) for key, sessions in entries for one in sessions])
            yield Remembered("sessions", rows.select(names), rows.drop(*names, TIME))

    def _rows(self, over: Sequence[tuple[bytes, Open]]) -> pl.DataFrame:
        keys, sessions = [key for key, _ in over], [one for _, one in over]
        names = canonical_keys.decode(keys, self._key, self._schema).get_columns() if self._key else []
        values: Columns = self._grouping.columns_of([state for _, _, state in sessions])
        start = pl.Series(START, [first for first, _, _ in sessions], dtype=pl.Int64)
        end = pl.Series(END, [last + self._shape.gap_us for _, last, _ in sessions], dtype=pl.Int64)
        bounds = [one.cast(self._schema[one.name]) for one in (start, end)]
        rows = pl.DataFrame([*names, *self._grouping.values(values), *bounds, (end - 1).alias(TIME)])
        return rows.sort([TIME, *self._key, *BOUNDS], maintain_order=True)


class _Segments(NamedTuple):
    """The sessions of one batch.

    of_row: the session of each row.
    owner: the key of each session.
    first: the first time of each session.
    last: the last time of each session.
    """

    of_row: np.ndarray
    owner: np.ndarray
    first: np.ndarray
    last: np.ndarray

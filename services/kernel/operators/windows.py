"""aggregate with a window: tumbling, sliding and cumulative windows of event time, and windows of a calendar.

Rows are reduced into panes, each pane and key once. A window is merged from its panes when the watermark passes its end
(`final`) or when it was touched (`updates`). The shape of the window determines its panes. If some windows of a row
have closed, the row counts in the others; if all have, the row is late.
Source: JOBS "window", PROTOCOL 3 (late) and 4, MECHANISMS C10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from holdfast.schemas.cuts import END_WATERMARK
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.operators.aggregation import Aggregation
from holdfast.services.kernel.operators.grouping import Grouping
from holdfast.services.kernel.operators.late import split_late
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.panes import GrowingPane, Pane, Panes, merged
from holdfast.services.kernel.operators.remembered import Remembered, Wanted
from holdfast.services.kernel.operators.time_prefix import prefix_of, time_of
from holdfast.services.kernel.operators.window_shapes import Cumulative, Grid
from holdfast.services.kernel.state.table import Tables

BOUNDS = START, END = "window_start", "window_end"
"""The columns with the bounds of a row's window."""
_PANE = "_pane"


class Windows:
    """Aggregates by key and window.

    Args:
        keep_late: late rows are refused (to the dead letters) instead of dropped.
    """

    def __init__(self, made_of: Aggregation, shape: Grid, emit: str, keep_late: bool, tables: Tables) -> None:
        self._shape = shape
        self._key = list(made_of.key)
        self._emit = emit
        self._keep_late = keep_late
        self._grouping = Grouping([_PANE, *made_of.key], made_of.aggregates)
        self._totals = tables.table("panes", prefix_bytes=8)
        self._live = tables.table("live")
        self._schema = with_time(made_of.output)
        self._nothing = self._schema.to_frame()
        self._panes: set[int] | None = None
        self._settled = Panes(self._pane)
        self._growing = GrowingPane(self._settled.get, self._grouping) if isinstance(shape, Cumulative) else None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        closed = self._shape.closed_us(context.watermark_before)
        rows, late, refused, dropped = split_late(inputs[0], closed, self._keep_late)
        panes = self._known_panes()
        touched = self._add(rows, panes) if rows.height else []
        closes = self._shape.any_end(context.watermark_before, context.watermark)
        if self._emit == "updates":
            parts = [self._merged(end, keys) for end, keys in self._touched(touched, context.watermark_before)]
        else:
            parts = [self._merged(end, None) for end in self._due(panes, context)] if closes else []
        if closes:
            self._close(panes, context.watermark)
        found = [part for part in parts if part is not None]
        return Outcome(pl.concat(found) if found else self._nothing, late, refused, dropped=(dropped,))

    # -- panes --------------------------------------------------------------------------------------------------------

    def _known_panes(self) -> set[int]:
        """The non-empty panes; read from the state at first use."""
        if self._panes is None:
            self._panes = {time_of(key) for key, _ in self._live.scan(b"")}
        return self._panes

    def _add(self, rows: pl.DataFrame, panes: set[int]) -> list[tuple[int, bytes]]:
        times = rows[TIME].to_numpy()
        rows = pl.DataFrame([pl.Series(_PANE, self._shape.panes(times)), *rows.get_columns()])
        keys, partial = self._grouping.reduce(rows, TIME)
        starts = keys[_PANE].to_list()
        plain = canonical_keys.encode(keys, self._key) if self._key else [b""] * len(starts)
        encoded = [prefix_of(pane) + key for pane, key in zip(starts, plain, strict=True)]
        merged = self._grouping.merge(self._totals.get_many(encoded), partial)
        self._totals.put_many(encoded, self._grouping.states_of(merged))
        if new := sorted(set(starts) - panes):
            self._live.put_many([prefix_of(pane) for pane in new], [(1,)] * len(new))
            panes.update(new)
        self._forget(starts)
        return list(zip(starts, plain, strict=True))

    def _close(self, panes: set[int], watermark: int) -> None:
        """Forgets panes whose last window has closed."""
        gone = sorted(pane for pane in panes if self._shape.last_end(pane) <= watermark)
        if not gone:
            return
        self._totals.delete_many([key for pane in gone for key, _ in self._totals.scan(prefix_of(pane))])
        self._live.delete_many([prefix_of(pane) for pane in gone])
        panes.difference_update(gone)
        self._forget(gone)

    def _forget(self, panes: Sequence[int]) -> None:
        self._settled.forget(panes)
        if self._growing is not None:
            self._growing.forget(panes)

    # -- windows ------------------------------------------------------------------------------------------------------

    def _due(self, panes: Iterable[int], context: BatchContext) -> list[int]:
        """The ends that the watermark has passed, of non-empty windows, in order."""
        before, until = context.watermark_before, context.watermark
        return sorted({end for pane in panes for end in self._shape.ends(pane, before, until)})

    def _touched(self, touched: Sequence[tuple[int, bytes]], watermark_before: int) -> list[tuple[int, list[bytes]]]:
        """Pairs of window end and touched keys, in order."""
        by_end: dict[int, dict[bytes, None]] = {}
        for pane, key in touched:
            for end in self._shape.ends(pane, watermark_before, END_WATERMARK):
                by_end.setdefault(end, {})[key] = None
        return [(end, sorted(by_end[end])) for end in sorted(by_end)]

    def _merged(self, end: int, keys: list[bytes] | None) -> pl.DataFrame | None:
        """The rows of one window.

        keys: the touched keys; None: all keys, and the window has closed.
        """
        found = self._total(end, keys)
        if not found.keys:
            return None
        names = canonical_keys.decode(found.keys, self._key, self._schema) if self._key else pl.DataFrame()
        values = self._grouping.values(found.columns)
        rows = pl.DataFrame([*names.get_columns(), *values, *self._bounds(end, len(found.keys))])
        return rows.sort(self._key, maintain_order=True) if self._key else rows

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields the present rows of open windows, in the order of their ends."""
        panes, names = self._known_panes(), [*self._key, *BOUNDS]
        for end in sorted({end for pane in panes for end in self._shape.ends(pane, watermark, END_WATERMARK)}):
            rows = self._merged(end, None if wanted is None else list(wanted))
            if rows is not None:
                yield Remembered("windows", rows.select(names), rows.drop(*names, TIME))

    def _total(self, end: int, keys: list[bytes] | None) -> Pane:
        assert self._panes is not None
        starts = [pane for pane in self._shape.panes_of(end) if pane in self._panes]
        if keys is not None:
            return merged((self._pane(start, keys) for start in starts), self._grouping)
        if self._growing is not None:
            return self._growing.get(self._shape.begin(end), starts)
        return merged(map(self._settled.get, starts), self._grouping)

    def _bounds(self, end: int, count: int) -> list[pl.Series]:
        """The columns with the bounds of the window."""
        start = pl.Series(START, [self._shape.begin(end)], dtype=pl.Int64).cast(self._schema[START])
        stop = pl.Series(END, [end], dtype=pl.Int64).cast(self._schema[END])
        time = pl.Series(TIME, [end - 1], dtype=pl.Int64)
        return [one.new_from_index(0, count) for one in (start, stop, time)]

    def _pane(self, pane: int, keys: list[bytes] | None = None) -> Pane:
        """A pane from the state.

        keys: the keys to read; None: all.
        """
        prefix = prefix_of(pane)
        if keys is None:
            entries = [(key[8:], state) for key, state in self._totals.scan(prefix)]
        else:
            states = self._totals.get_many([prefix + key for key in keys])
            entries = [(key, state) for key, state in zip(keys, states, strict=True) if state is not None]
        return Pane([key for key, _ in entries], self._grouping.columns_of([state for _, state in entries]))

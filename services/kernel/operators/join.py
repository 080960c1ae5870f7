"""join: two streams on equal keys and near event times.

New right rows meet the old left ones, new left rows meet all right ones. Rows are held until the watermark is `within`
past them: a row before that is late, and one that is merely behind the watermark meets what is still held. What is held
is told by the watermark alone, not by what a run or the state has not yet forgotten.
Source: JOBS "join", PROTOCOL 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import polars as pl

from schemas.cuts import END_WATERMARK, NO_WATERMARK
from services.kernel.codecs.fields import with_time
from services.kernel.operators.kept_rows import KeptRows
from services.kernel.operators.late import split_late
from services.kernel.operators.operator import TIME, BatchContext, Outcome
from services.kernel.operators.sorted_runs import Numbers, Run, taken
from services.kernel.state.table import Tables

Half = tuple[Run, Numbers]
"""One side of pairs: rows of a run, by position."""


class Join:
    """inner: every pair; left: also left rows without a partner, once none can come any more.

    Pairs are ordered by the left row, then the right one, as they came; what has no partner follows.

    Args:
        on: key columns, in both sides. within_us: largest difference of event times.
        right_names: output name of each right column that is not a key.
    """

    def __init__(
        self,
        on: Sequence[str],
        within_us: int,
        kind: str,
        keep_late: bool,
        left: pl.Schema,
        right: pl.Schema,
        right_names: Mapping[str, str],
        output: Mapping[str, pl.DataType],
        tables: Tables,
    ) -> None:
        self._on, self._within, self._left_too, self._keep_late = list(on), within_us, kind == "left", keep_late
        self._left_names = [name for name in left if name != TIME]
        self._right_names = {name: as_name for name, as_name in right_names.items() if name != TIME}
        self._schema = with_time(output)
        self._nothing = self._schema.to_frame()
        table = tables.table("rows", prefix_bytes=1)
        self._left = KeptRows(b"L", left, on, table, self._left_too)
        self._right = KeptRows(b"R", right, on, table, False)
        self._loaded = False

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        self._load()
        held_us = _minus(context.watermark_before, self._within)
        (left, late_left, refused_left), (right, late_right, refused_right) = (
            split_late(rows, held_us, self._keep_late) for rows in inputs
        )
        parts = [self._joined(left, right, held_us, context.batch)] if left.height or right.height else []
        if context.watermark > context.watermark_before:
            if self._left_too:
                parts += self._alone(context)
            self._expire(context.watermark)
        parts = [part for part in parts if part.height]
        rows = pl.concat(parts) if len(parts) > 1 else parts[0] if parts else self._nothing
        # a left row that waits in vain comes out `within` after its time
        behind = _minus(context.watermark, self._within) if self._left_too else None
        dropped = (0, 0) if self._keep_late else (late_left, late_right)
        return Outcome(rows, late_left + late_right, refused_left + refused_right, behind, dropped)

    def _load(self) -> None:
        if not self._loaded:
            self._left.load()
            self._right.load()
            self._loaded = True

    # -- pairs --------------------------------------------------------------------------------------------------------

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame, held_us: int, batch: int) -> pl.DataFrame:
        lefts: list[Half] = []
        rights: list[Half] = []
        new_right = self._right.add(right, batch)
        for at, run, found in self._left.runs.matches(new_right, self._within, held_us):
            lefts.append((run, found))
            rights.append((new_right, at))
        new_left = self._left.add(left, batch)
        for at, run, found in self._right.runs.matches(new_left, self._within, held_us):
            lefts.append((new_left, at))
            rights.append((run, found))
        return self._pairs(lefts, rights, batch) if lefts else self._nothing

    def _pairs(self, lefts: Sequence[Half], rights: Sequence[Half], batch: int) -> pl.DataFrame:
        """Rows side by side, in order; an equal hash is not yet an equal key."""
        left, right = _gathered(lefts), _gathered(rights)
        left_numbers, right_numbers = _numbers(lefts), _numbers(rights)
        order = np.lexsort((right_numbers, left_numbers))
        same = np.logical_and.reduce([(left[name] == right[name]).to_numpy() for name in self._on])
        order = order[same[order]]
        left, right, numbers = taken(left, order), taken(right, order), left_numbers[order]
        if self._left_too and len(numbers):
            self._left.mark(numbers, int(left[TIME].to_numpy().max()), batch)
        times = np.maximum(left[TIME].to_numpy(), right[TIME].to_numpy())
        others = [right[name].alias(as_name) for name, as_name in self._right_names.items()]
        return pl.DataFrame([*left.select(self._left_names).get_columns(), *others, pl.Series(TIME, times)])

    # -- what has no partner, what is too old -------------------------------------------------------------------------

    def _alone(self, context: BatchContext) -> list[pl.DataFrame]:
        """Left rows for which the watermark says that no partner can come any more."""
        since, until = (_minus(one, self._within) for one in (context.watermark_before, context.watermark))
        return [self._with_nulls(rows) for rows in self._left.unmatched(since, until)]

    def _with_nulls(self, rows: pl.DataFrame) -> pl.DataFrame:
        nulls = [
            pl.Series(as_name, [None], dtype=self._schema[as_name]).new_from_index(0, rows.height)
            for as_name in self._right_names.values()
        ]
        return pl.DataFrame([*rows.select(self._left_names).get_columns(), *nulls, rows[TIME]])

    def _expire(self, watermark: int) -> None:
        oldest = _minus(watermark, self._within)
        self._left.expire(oldest)
        self._right.expire(oldest)


def _gathered(halves: Sequence[Half]) -> pl.DataFrame:
    """One look-up a run: a probe stands in several halves, one behind the other."""
    parts = []
    for _, some in groupby(halves, key=lambda half: id(half[0])):
        same = list(some)
        positions = same[0][1] if len(same) == 1 else np.concatenate([positions for _, positions in same])
        parts.append(taken(same[0][0].rows, positions))
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def _numbers(halves: Sequence[Half]) -> Numbers:
    return np.concatenate([run.numbers[positions] for run, positions in halves])


def _minus(watermark: int, within: int) -> int:
    """A row before this time has no partner to come. At the end of the stream nothing has."""
    if watermark == END_WATERMARK:
        return END_WATERMARK
    return NO_WATERMARK if watermark < NO_WATERMARK + within else watermark - within

"""join of two streams on equal keys and near event times.

New right rows are matched with old left rows, new left rows with all right rows. A row is held while the watermark
permits matching rows of the other side: an older row is late, and a row that is only behind the watermark is matched
with rows still held. The held rows follow from the watermark alone, not from the rows that the state still holds.

The output depends on the kind: pairs, rows of a side without a match (once none can arrive any more), or each left row
with a match, at its first match. A left row that is output alone, without or for its partner, keeps its time.
Source: JOBS "join", PROTOCOL 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.fields import with_time
from holdfast.services.kernel.operators.join_keys import Sides
from holdfast.services.kernel.operators.join_range import Range
from holdfast.services.kernel.operators.kept_rows import KeptRows
from holdfast.services.kernel.operators.late import split_late
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, of_rows
from holdfast.services.kernel.operators.sorted_runs import Numbers, Run, taken
from holdfast.services.kernel.state.table import Tables

Half = tuple[Run, Numbers]
"""A side of pairs: rows of a run, by position."""
LEFT_ONLY = ("semi", "anti")
"""Kinds that output unchanged left rows."""
_ALONE = {"left": (True, False), "right": (False, True), "full": (True, True), "anti": (True, False)}
"""By kind, True for each side (left, right) whose rows without a match are output."""


class Join:
    """A task of a join of two streams.

    inner: every pair; left, right, full: also rows of that side, or of both, without a partner; semi: left rows that
    have a partner; anti: left rows that have none. Pairs are ordered by the left row, then the right row, in order of
    arrival; rows without a partner follow.

    Args:
        sides: the columns of both sides.
        range: the range of event times that match.
        keep_late: late rows are refused (to the dead letters) instead of dropped.
        tables: the state of the task.
    """

    def __init__(self, sides: Sides, range: Range, keep_late: bool, tables: Tables) -> None:
        self._on = sides.on
        self._range = range
        self._kind = sides.kind
        self._keep_late = keep_late
        self._on_by_slot = (sides.left_on, sides.right_on)
        self._left_alone, self._right_alone = _ALONE.get(sides.kind, (False, False))
        self._left_names = list(sides.left)
        self._right_names = dict(sides.names)
        self._schema = with_time(sides.output)
        self._nothing = self._schema.to_frame()
        table = tables.table("rows", prefix_bytes=1)
        finds_left = self._left_alone or sides.kind == "semi"
        self._left = KeptRows(b"L", with_time(sides.left), sides.left_on, table, finds_unmatched=finds_left)
        self._right = KeptRows(b"R", with_time(sides.right), sides.right_on, table, finds_unmatched=self._right_alone)
        self._loaded = False

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        self._load()
        open_us = [self._range.open_us(slot, context.watermark_before) for slot in (0, 1)]
        left_split, right_split = (
            split_late(rows, since, self._keep_late, slot)
            for slot, (rows, since) in enumerate(zip(inputs, open_us, strict=True))
        )
        left, right = left_split.rows, right_split.rows
        parts = [self._joined(left, right, open_us, context.batch)] if left.height or right.height else []
        if context.watermark > context.watermark_before:
            parts += self._alone(open_us, context.watermark)
            self._expire(context.watermark)
        parts = [part for part in parts if part.height]
        rows = pl.concat(parts) if len(parts) > 1 else parts[0] if parts else self._nothing
        late, refused = left_split.late + right_split.late, left_split.refused + right_split.refused
        return Outcome(
            rows, late, refused, self._behind(context.watermark), dropped=(left_split.dropped, right_split.dropped)
        )

    def _behind(self, watermark: int) -> int | None:
        """The oldest time that an output row may have: a row with its own time is output at the latest when its side is
        no longer open; None: no row keeps its own time.
        """
        slots = [slot for slot, own in enumerate((self._left_alone or self._kind == "semi", self._right_alone)) if own]
        return min((self._range.open_us(slot, watermark) for slot in slots), default=None)

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields the rows of each side that may still match."""
        self._load()
        for slot, (side, rows) in enumerate((("left", self._left), ("right", self._right))):
            for some in rows.kept(self._range.open_us(slot, watermark)):
                yield from of_rows(side, some, self._on_by_slot[slot], wanted)

    def _load(self) -> None:
        if not self._loaded:
            self._left.load()
            self._right.load()
            self._loaded = True

    # -- pairs --------------------------------------------------------------------------------------------------------

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame, open_us: Sequence[int], batch: int) -> pl.DataFrame:
        lefts: list[Half] = []
        rights: list[Half] = []
        least, most = self._range.least_us, self._range.most_us
        new_right = self._right.add(right, batch)
        for at, run, found in self._left.runs.matches(new_right, (least, most), open_us[0]):
            lefts.append((run, found))
            rights.append((new_right, at))
        new_left = self._left.add(left, batch)
        for at, run, found in self._right.runs.matches(new_left, (-most, -least), open_us[1]):
            lefts.append((new_left, at))
            rights.append((run, found))
        return self._pairs(lefts, rights, batch) if lefts else self._nothing

    def _pairs(self, lefts: Sequence[Half], rights: Sequence[Half], batch: int) -> pl.DataFrame:
        """The pairs of rows, in order; keys are compared, because equal hashes may belong to different keys."""
        left, right = _gathered(lefts), _gathered(rights)
        left_numbers, right_numbers = _numbers(lefts), _numbers(rights)
        order = np.lexsort((right_numbers, left_numbers))
        same = np.logical_and.reduce([(left[pair.left] == right[pair.right]).to_numpy() for pair in self._on])
        order = order[same[order]]
        left, right, numbers = taken(left, order), taken(right, order), left_numbers[order]
        right_numbers = right_numbers[order]
        if self._right_alone:
            self._right.mark(right_numbers, right, batch)
        if self._left_alone or self._kind == "semi":
            first = self._left.mark(numbers, left, batch)
            if self._kind == "semi":
                return taken(left, first).select(*self._left_names, TIME)
        if self._kind == "anti":
            return self._nothing
        times = np.maximum(left[TIME].to_numpy(), right[TIME].to_numpy())
        others = [right[name].alias(as_name) for name, as_name in self._right_names.items()]
        return pl.DataFrame([*left.select(self._left_names).get_columns(), *others, pl.Series(TIME, times)])

    # -- what has no partner, what is too old -------------------------------------------------------------------------

    def _alone(self, since: Sequence[int], watermark: int) -> list[pl.DataFrame]:
        """The rows for which the watermark permits no partner any more.

        since: by side, the time before which such rows were already output.
        """
        until, found = [self._range.open_us(slot, watermark) for slot in (0, 1)], []
        if self._left_alone:
            found += [self._with_nulls(rows, self._left_names) for rows in self._left.unmatched(since[0], until[0])]
        if self._right_alone:
            names = {**{pair.right: pair.left for pair in self._on}, **self._right_names}
            found += [
                self._with_nulls(rows.select(pl.col(name).alias(to) for name, to in [*names.items(), (TIME, TIME)]), [])
                for rows in self._right.unmatched(since[1], until[1])
            ]
        return found

    def _with_nulls(self, rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """The rows with the columns of the output; null for columns that they lack.

        names: the output names of their columns, if only some are used.
        """
        given = set(names or rows.columns)
        columns = [
            rows[name] if name in given or name == TIME
            else pl.Series(name, [None], dtype=kind).new_from_index(0, rows.height)
            for name, kind in self._schema.items()
        ]  # fmt: skip
        return pl.DataFrame(columns)

    def _expire(self, watermark: int) -> None:
        self._left.expire(self._range.open_us(0, watermark))
        self._right.expire(self._range.open_us(1, watermark))


def _gathered(halves: Sequence[Half]) -> pl.DataFrame:
    """The rows of all halves, with one look-up per run: the rows of a run are in several halves."""
    parts = []
    for _, some in groupby(halves, key=lambda half: id(half[0])):
        same = list(some)
        positions = same[0][1] if len(same) == 1 else np.concatenate([positions for _, positions in same])
        parts.append(taken(same[0][0].rows, positions))
    return parts[0] if len(parts) == 1 else pl.concat(parts)


def _numbers(halves: Sequence[Half]) -> Numbers:
    return np.concatenate([run.numbers[positions] for run, positions in halves])

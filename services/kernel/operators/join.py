"""join: two streams on equal keys and near event times.

New right rows meet the old left ones, new left rows meet all right ones. Rows are held until the watermark is `within`
past them: a row before that is late, and one that is merely behind the watermark meets what is still held. What is held
follows from the watermark alone, not from what a run or the state has not yet forgotten.
Source: JOBS "join", PROTOCOL 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import polars as pl

from schemas.cuts import END_WATERMARK, NO_WATERMARK
from schemas.job_operators import Join as JoinSpec
from schemas.plans import OperatorPlan, Problem
from services.kernel.codecs.fields import DELETED, dtype, optional, schema, with_time
from services.kernel.operators.kept_rows import KeptRows
from services.kernel.operators.kind import Fields, Held, OperatorKind, Params, Passing, Problems, Stream
from services.kernel.operators.late import split_late
from services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from services.kernel.operators.sorted_runs import Numbers, Run, taken
from services.kernel.operators.table_join import TableJoin
from services.kernel.state.table import Tables
from services.kernel.suggestions import suggest

_SECOND_US = 1_000_000
Half = tuple[Run, Numbers]
"""One side of pairs: rows of a run, by position."""


class JoinKind(OperatorKind):
    """Columns side by side. Beside a table each left row stays what it was, so it keeps its key."""

    model = JoinSpec
    made = "rows of two records each"
    table_slots = frozenset({1})

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems, (left, right), on = Problems(), inputs, params["join"]["on"]
        for index, name in enumerate(on):
            path = f"join.on[{index}]"
            if not _on_both_sides(problems, path, name, left.fields, right.fields):
                continue
            if dtype(left.fields[name]) != dtype(right.fields[name]):
                message = f"'{name}' is {left.fields[name]} on the left and {right.fields[name]} on the right"
                problems.add(path, message, "give both sources the same type")
        problems.check()
        names = _right_names(on, left.fields, right.fields)
        for name, as_name in names.items():
            if as_name in left.fields or list(names.values()).count(as_name) > 1:
                message = f"its column '{name}' would be a second '{as_name}'"
                problems.add("join.right", message, "rename it with a select")
        problems.check()
        outer = params["join"].get("kind") == "left"
        others = {to: optional(right.fields[name]) if outer else right.fields[name] for name, to in names.items()}
        fields = {**left.fields, **others}
        return Stream(fields, left.row_key, left.windowed) if DELETED in right.fields else Stream(fields)

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        join, (left, right) = plan.params["join"], inputs
        names, output = _right_names(join["on"], left, right), schema(plan.fields)
        if DELETED in right:
            return TableJoin(join["on"], join["kind"], schema(left), schema(right), names, output, tables)
        keep_late, sides = plan.params.get("late") == "topic", (with_time(schema(left)), with_time(schema(right)))
        return Join(join["on"], _within(plan.params), join["kind"], keep_late, *sides, names, output, tables)

    def problems(self, params: Params, tables: Mapping[int, Sequence[str]]) -> Iterator[Problem]:
        join, key = params["join"], tables.get(1)
        right, timed = join["right"], join.get("within_s") is not None
        if key is None:
            if not timed:
                hint = "give the largest difference of event times, or make the right side a table"
                yield Problem("join.within_s", "is missing: two streams are joined within a time", hint)
            return
        if timed:
            yield Problem("join.within_s", f"{right} is a table: its rows count at any time", "leave it out")
        if key and sorted(join["on"]) != sorted(key):
            message = f"is {', '.join(join['on'])}, but the key of table {right} is {', '.join(key)}"
            yield Problem("join.on", message, f"on: [{', '.join(key)}]")

    def needs(self, params: Params) -> tuple[str, ...]:
        return ("late",)

    def key(self, params: Params) -> tuple[str, ...]:
        return tuple(params["join"]["on"])

    def stateful(self, params: Params) -> bool:
        return True

    def correlated(self, params: Params) -> bool:
        return True

    def passing(self, params: Params) -> Passing:
        return Passing.NONE if _timed(params) else Passing.SOME

    def closes(self, params: Params) -> bool:
        return _timed(params)

    def closed_us(self, params: Params, watermark: int) -> int:
        return _minus(watermark, _within(params))

    def horizon_us(self, params: Params) -> int | None:
        return _within(params) if _timed(params) else None

    def held(self, params: Params, newest_us: int) -> Held:
        """A left row that meets none comes out `within` after its time."""
        until, newest, _ = super().held(params, newest_us)
        waits = until is not None and params["join"].get("kind") == "left"
        return Held(until, newest, _within(params) if waits else 0)


def _on_both_sides(problems: Problems, path: str, name: str, left: Fields, right: Fields) -> bool:
    """Notes a column that is not on both sides, with the select that gives it one name; True: both may be joined."""
    if match := re.fullmatch(r"\s*(?:\w+\.)?(\w+)\s*==?\s*(?:\w+\.)?(\w+)\s*", name):
        one, other = match[1], match[2]
        hint = f"on: [{one}]"
        if one != other:
            hint = f"give one side the other's name by a select before the join, `{other} AS {one}`, then on: [{one}]"
        problems.add(path, f"'{name}' is a condition: a join is on columns that have one name on both sides", hint)
        return False
    absent = [side for side, fields in (("left", left), ("right", right)) if name not in fields]
    if not absent:
        return all([problems.key(path, name, side) for side in (left, right)])
    known = left if absent == ["left"] else right
    near = suggest(name, known)
    rename = f"a column of another name gets this one by a select before the join, `{next(iter(known))} AS {name}`"
    hint = near if absent == ["left", "right"] else f"{near}; {rename}" if near else rename
    if len(absent) == 2:
        problems.add(path, f"there is no column '{name}' on either side", hint)
    else:
        problems.add(path, f"there is no column '{name}' on the {absent[0]}, only on the other side", hint)
    return False


def _timed(params: Params) -> bool:
    """Both sides are streams; otherwise the right one is a table."""
    return params["join"].get("within_s") is not None


def _within(params: Params) -> int:
    """Microseconds."""
    within_s: float = params["join"]["within_s"]
    return round(within_s * _SECOND_US)


def _right_names(on: Sequence[str], left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """Output names of the right columns; one that clashes gets a suffix."""
    return {name: f"{name}_right" if name in left else name for name in right if name not in (*on, DELETED)}


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
        left_split, right_split = (split_late(rows, held_us, self._keep_late, slot) for slot, rows in enumerate(inputs))
        left, right = left_split.rows, right_split.rows
        parts = [self._joined(left, right, held_us, context.batch)] if left.height or right.height else []
        if context.watermark > context.watermark_before:
            if self._left_too:
                parts += self._alone(context)
            self._expire(context.watermark)
        parts = [part for part in parts if part.height]
        rows = pl.concat(parts) if len(parts) > 1 else parts[0] if parts else self._nothing
        # a left row that meets none comes out `within` after its time
        behind = _minus(context.watermark, self._within) if self._left_too else None
        late, refused = left_split.late + right_split.late, left_split.refused + right_split.refused
        return Outcome(rows, late, refused, behind, (left_split.dropped, right_split.dropped))

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

"""asof_join: joins each row of a stream with the newest row of its key that is not later, such as the price at that
time.

A left row waits until the watermark has passed it, so that all right rows in time that are not later are known: its
match depends only on the rows, not on their division into batches. Of right rows with equal key and time the last one
counts. For each key the state holds the right rows that may still match: the newest one that the watermark has passed,
and all newer ones. A right row behind the watermark counts for left rows that still wait. Source: JOBS "asof_join",
PROTOCOL 3 (late) and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.job_operators import AsOfJoin as AsOfJoinSpec
from holdfast.schemas.operator_settings import AsOfJoinSettings
from holdfast.schemas.plans import OperatorPlan, Problem
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import optional, with_time
from holdfast.services.kernel.operators import join_keys
from holdfast.services.kernel.operators.content_order import ContentOrder
from holdfast.services.kernel.operators.ends import Ends
from holdfast.services.kernel.operators.held_rows import HeldRows
from holdfast.services.kernel.operators.join_keys import Sides
from holdfast.services.kernel.operators.kind import Fields, HeldInput, OperatorKind, Problems, Stream
from holdfast.services.kernel.operators.late import split_late
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, moments, of_rows, stored
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Tables

Version = tuple[int, Any]
"""The time of a right row, and its columns as stored."""


class AsOfJoinKind(OperatorKind[AsOfJoinSettings]):
    """The kind of operators that output left rows with the columns of the matching right row, at the left row's
    time.
    """

    model = AsOfJoinSpec
    made = "rows of two records each"

    def describe(self, settings: AsOfJoinSettings, inputs: Sequence[Stream]) -> Stream:
        problems, (left, right), join = Problems(), inputs, settings.asof_join
        join_keys.check(problems, join.on, left.fields, right.fields, "asof_join.on")
        problems.check()
        names = join_keys.right_names(join_keys.pairs(join.on), left.fields, right.fields)
        for name, as_name in names.items():
            if as_name in left.fields or list(names.values()).count(as_name) > 1:
                message = f"its column '{name}' would be a second '{as_name}'"
                problems.add("asof_join.right", message, "rename it with a select")
        problems.check()
        outer = join.kind == "left"
        others = {to: optional(right.fields[name]) if outer else right.fields[name] for name, to in names.items()}
        return Stream({**left.fields, **others})

    def build(
        self, plan: OperatorPlan, settings: AsOfJoinSettings, inputs: Sequence[Fields], tables: Tables
    ) -> Operator:
        left, right = inputs
        sides = Sides.of(settings.asof_join, left, right, plan.fields)
        return AsOfJoin(sides, _within_us(settings), settings.keeps_late, tables)

    def problems(self, settings: AsOfJoinSettings, tables: Mapping[int, Sequence[str]]) -> Iterator[Problem]:
        if 1 in tables:
            message = f"{settings.asof_join.right} is a table, which has no row of an earlier time"
            yield Problem("asof_join.right", message, "leave out `table`: the join keeps the rows that count")

    def needs(self, settings: AsOfJoinSettings) -> tuple[str, ...]:
        return ("late",)

    def key(self, settings: AsOfJoinSettings) -> tuple[str, ...]:
        return self.key_of(settings, 0)

    def key_of(self, settings: AsOfJoinSettings, slot: int) -> tuple[str, ...]:
        return tuple(pair[slot] for pair in join_keys.pairs(settings.asof_join.on))

    def stateful(self, settings: AsOfJoinSettings) -> bool:
        return True

    def correlated(self, settings: AsOfJoinSettings) -> bool:
        return True

    def closes(self, settings: AsOfJoinSettings) -> bool:
        return True

    def closed_us(self, settings: AsOfJoinSettings, watermark: int, slot: int = 0) -> int:
        return NO_WATERMARK if slot else watermark

    def horizon_us(self, settings: AsOfJoinSettings) -> int | None:
        """The longest time that a right row counts, in microseconds; None: it counts until a newer one arrives."""
        return _within_us(settings)

    def held(self, settings: AsOfJoinSettings, newest_us: int) -> HeldInput:
        return HeldInput(newest_us + 1, newest_us)


def _within_us(settings: AsOfJoinSettings) -> int | None:
    within_s = settings.asof_join.within_s
    return None if within_s is None else round(within_s * 1_000_000)


class AsOfJoin:
    """A task of an as-of join. Rows are in the order of event time, then content.

    An inner join outputs left rows with a match, a left join all left rows, with nulls.

    Args:
        sides: the columns of both sides.
        within_us: a right row matches left rows that are later by at most this time; None: until a newer one arrives.
        keep_late: late left rows are refused (to the dead letters) instead of dropped.
        tables: the state of the task.
    """

    def __init__(self, sides: Sides, within_us: int | None, keep_late: bool, tables: Tables) -> None:
        self._sides = sides
        self._within = within_us
        self._keep_late = keep_late
        self._versions = tables.table("versions")
        # a stored row needs a column, even if the right side has only its key
        self._stored = list(sides.names) or sides.right_on[:1]
        self._rows = StoredRows(pl.Schema({name: sides.right[name] for name in self._stored}))
        self._held = HeldRows(with_time(sides.left), tables.table("held"))
        self._order = ContentOrder(with_time(sides.left))
        self._nothing = with_time(sides.output).to_frame()
        self._ends: Ends | None = None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        if self._ends is None:
            self._ends = self._load(context.watermark_before)
        left, late, refused, dropped = split_late(inputs[0], context.watermark_before, self._keep_late)
        if inputs[1].height:
            self._add(inputs[1], context.watermark_before, self._ends)
        due = self._held.due(left, context)
        rows = self._joined(self._order.of(due)) if due.height else self._nothing
        self._forget(self._ends, context.watermark)
        return Outcome(rows, late, refused, dropped=(dropped,))

    def _load(self, watermark: int) -> Ends:
        """Loads the waiting left rows, and the ends of right rows."""
        self._held.load(watermark)
        found = self._versions.scan(b"") if self._within is not None else ()
        return Ends({key: versions[-1][0] + (self._within or 0) for key, versions in found})

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields right rows that may still match, by key and time, then waiting left rows."""
        if self._ends is None:
            self._ends = self._load(watermark)
        names = self._sides.right_on
        for entries in stored(self._versions, wanted):
            one_by_one = [(key, time, values) for key, versions in entries for time, values in versions]
            keys = canonical_keys.decode([key for key, _, _ in one_by_one], names, self._sides.right)
            times = moments(pl.Series(TIME, [time for _, time, _ in one_by_one], dtype=pl.Int64))
            values = self._rows.decode([values for _, _, values in one_by_one])
            yield Remembered("right", keys.with_columns(times), values.select(list(self._sides.names)))
        yield from of_rows("left", self._held.rows(), self._sides.left_on, wanted)

    # -- right rows ---------------------------------------------------------------------------------------------------

    def _add(self, rows: pl.DataFrame, watermark: int, ends: Ends) -> None:
        """Adds rows, key by key in the order of time; a null is not a key."""
        rows = rows.drop_nulls(self._sides.right_on)
        if not rows.height:
            return
        rows = rows[np.argsort(rows[TIME].to_numpy(), kind="stable")]
        first, group = canonical_keys.groups(rows, self._sides.right_on)
        encoded = canonical_keys.encode(rows[first], self._sides.right_on)
        new: dict[bytes, list[Version]] = {}
        stored = zip(group.tolist(), rows[TIME].to_list(), self._rows.encode(rows.select(self._stored)), strict=True)
        for at, time, values in stored:
            new.setdefault(encoded[at], []).append((time, values))
        keys = sorted(new)
        kept = [
            _kept([*(old or ()), *new[key]], watermark)
            for key, old in zip(keys, self._versions.get_many(keys), strict=True)
        ]
        self._versions.put_many(keys, kept)
        if self._within is not None:
            for key, versions in zip(keys, kept, strict=True):
                ends.note(key, versions[-1][0] + self._within)

    def _forget(self, ends: Ends, watermark: int) -> None:
        """Forgets keys whose newest row can match no left row any more."""
        if self._within is None or not (keys := ends.until(watermark - 1)):
            return
        known = [versions for versions in self._versions.get_many(keys) if versions is not None]
        newest = [versions[-1][0] + self._within for versions in known]
        self._versions.delete_many([key for key, end in zip(keys, newest, strict=True) if end < watermark])
        for key, end in zip(keys, newest, strict=True):
            if end >= watermark:
                ends.note(key, end)

    # -- left rows ----------------------------------------------------------------------------------------------------

    def _joined(self, left: pl.DataFrame) -> pl.DataFrame:
        first, group = canonical_keys.groups(left, self._sides.left_on)
        encoded = canonical_keys.encode(left[first], self._sides.left_on)
        known = [versions or () for versions in self._versions.get_many(encoded)]
        owners = np.repeat(np.arange(len(known)), [len(versions) for versions in known])
        times = np.array([time for versions in known for time, _ in versions], dtype=np.int64)
        found = self._rows.decode([values for versions in known for _, values in versions])
        at = self._met(owners, times, group, left[TIME].to_numpy())
        if self._sides.kind == "inner":
            there = at >= 0
            left, at = left.filter(pl.Series(there)), at[there]
        places = pl.Series(at, dtype=pl.Int64)
        places = places.set(places < 0, None)
        beside = found.select(pl.col(name).gather(places).alias(to) for name, to in self._sides.names.items())
        return pl.DataFrame([*left.select(list(self._sides.left)).get_columns(), *beside.get_columns(), left[TIME]])

    def _met(self, owners: np.ndarray, times: np.ndarray, group: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """For each left row, the position of the matching right row; negative: none.

        Args:
            owners: the keys of the right rows, ascending.
            times: the times of the right rows, ascending within a key.
            group: the keys of the left rows.
            wanted: the times of the left rows.
        """
        if not len(times):
            return np.full(len(wanted), -1, dtype=np.int64)
        moments = np.unique(times)
        width = len(moments) + 1
        codes = owners * width + np.searchsorted(moments, times) + 1
        at: np.ndarray = np.searchsorted(codes, group * width + np.searchsorted(moments, wanted, "right"), "right") - 1
        met = (at >= 0) & (owners[at] == group)
        if self._within is not None:
            met &= wanted - times[at] <= self._within
        return np.where(met, at, -1)


def _kept(versions: list[Version], watermark: int) -> tuple[Version, ...]:
    """The rows that left rows may match from the watermark on, in the order of time."""
    versions.sort(key=lambda version: version[0])  # stable: of one time the last that came is the last
    last = sum(time <= watermark for time, _ in versions) - 1
    return tuple(versions[max(last, 0) :])

"""top: the k largest or smallest rows, of each window or of all rows so far, and of each key.

Rows are ranked by one column, nulls and NaN last; ties by the other columns, ascending, in their order: the ranking
depends only on the rows. Source: JOBS "operators", PROTOCOL 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import xxhash

from holdfast.schemas.job_operators import Top as TopSpec
from holdfast.schemas.operator_settings import TopSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.operators import ranking
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Problems, Stream
from holdfast.services.kernel.operators.lifespans import Lifespans
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.ranked_pools import GROUP
from holdfast.services.kernel.operators.ranking import PREFIX_BYTES, Growing, Kept, Order, Ranking, Replacing
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, of_rows
from holdfast.services.kernel.operators.windows import BOUNDS, END, START
from holdfast.services.kernel.state.table import Tables

RANK = "rank"
_SECOND_US = 1_000_000
MOST_OF_A_KEY = 1_000
"""The most rows of a key: a batch processes all rows of each touched key."""


class TopKind(OperatorKind[TopSettings]):
    """The kind of ranking operators. A rank identifies a row, in its window or among all. Compared rows must reach one
    task.
    """

    model = TopSpec
    made = "rows of earlier batches, too"

    def describe(self, settings: TopSettings, inputs: Sequence[Stream]) -> Stream:
        problems, given, key = Problems(), inputs[0], settings.key
        problems.key("top.by", settings.top.by, given.fields)
        known = [problems.key(f"key[{index}]", name, given.fields) for index, name in enumerate(key)]
        if RANK in given.fields:
            problems.add("top", f"its input has a column '{RANK}' already", "rename it with a select")
        if given.changes:
            message = "rows of its input that are gone come once more, with op d, and would stay ranked"
            problems.add("top", message, "rank rows of a stream, of windows, or of a running total")
        if key and settings.top.k > MOST_OF_A_KEY:
            problems.add("top.k", f"is at most {MOST_OF_A_KEY:,} with a key", "leave out the key")
        if settings.forget_after_s is not None and given.windowed:
            problems.add("forget_after_s", "does not go with windows, whose ranking is over with them", "leave it out")
        if all(known) and not given.windowed and not given.once and given.row_key:
            self._moving(problems, key, given.row_key)
        problems.check()
        bounds = BOUNDS if given.windowed else ()
        row_key = (*bounds, *(name for name in key if name not in bounds), RANK)
        return Stream({**given.fields, RANK: "int"}, row_key, given.windowed, once=given.windowed)

    def _moving(self, problems: Problems, key: Sequence[str], row_key: Sequence[str]) -> None:
        """Notes columns in which a row may differ from the row that it replaces: it would be ranked twice."""
        for index, name in enumerate(key):
            if name not in row_key:
                problems.add(
                    f"key[{index}]",
                    f"'{name}' may change when a newer row of the same {', '.join(row_key)} comes",
                    f"make '{name}' a part of the key of the operator that replaces rows",
                )

    def build(self, plan: OperatorPlan, settings: TopSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        top, key, columns = settings.top, settings.key, schema(inputs[0])
        order = Order(top.by, list(columns), columns[top.by].is_float(), top.order == "ascending")
        windowed = settings.input_windowed
        if START in plan.row_key if windowed is None else windowed:  # plans of former versions lack it
            return TopOfWindows(top.k, order, [name for name in key if name not in BOUNDS], columns)
        forget_s = settings.forget_after_s
        forget_us = None if forget_s is None else round(forget_s * _SECOND_US)
        return Top(top.k, order, key, columns, tables=tables, row_key=settings.input_row_key, forget_us=forget_us)

    def needs(self, settings: TopSettings) -> tuple[str, ...]:
        return ("input_row_key", "input_windowed")

    def key(self, settings: TopSettings) -> tuple[str, ...]:
        return tuple(settings.key or BOUNDS)

    def tasks(self, settings: TopSettings, wanted: int | None, widest: int) -> int:
        return super().tasks(settings, wanted, widest) if settings.key else wanted or 1

    def one_task(self, settings: TopSettings, windowed: bool) -> str:
        return "" if windowed or settings.key else "without windows or a key all rows are compared in one task"

    def stateful(self, settings: TopSettings) -> bool:
        return True


class TopOfWindows:
    """Adds `rank` to rows that come once a window, with its bounds: the best of each window and key in the batch, by
    (end, key, rank). Nothing is kept.
    """

    def __init__(self, k: int, order: Order, key: Sequence[str], columns: pl.Schema) -> None:
        self._k = k
        self._order = order
        self._within = (END, START, *key)
        self._floats = [name for name, kind in columns.items() if kind.is_float()]
        self._nothing = with_time({**columns, RANK: pl.Int64()}).to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._nothing)
        rows = _canonical(rows, self._floats)
        best = self._order.sort(rows, self._within)
        best = best.with_columns((pl.int_range(pl.len()).over(self._within) + 1).alias(RANK))
        return Outcome(best.filter(pl.col(RANK) <= self._k).select(*_typed(self._nothing.schema)))


class Top:
    """A task of top. It adds the column `rank`, 1 to k.

    Without windows it outputs the rows whose rank or values changed, at the newest time of the batch.

    Args:
        key: rows with equal values in these columns are ranked together.
        row_key: the columns by which rows replace each other; empty: rows are only added.
        forget_us: the time after its newest row at which a ranking ends, in microseconds; None: never.
    """

    def __init__(
        self,
        k: int,
        order: Order,
        key: Sequence[str],
        columns: pl.Schema,
        tables: Tables,
        *,
        row_key: Sequence[str] = (),
        forget_us: int | None = None,
    ) -> None:
        self._key = list(key)
        self._columns = list(columns)
        self._others = [name for name in columns if name not in key]
        self._floats = [name for name, kind in columns.items() if kind.is_float()]
        self._nothing = with_time({**columns, RANK: pl.Int64()}).to_frame()
        self._order = order
        self._kept = kept = Kept(k, order, columns, bool(key), table=tables.table("rows", PREFIX_BYTES if key else 0))
        self._ranking: Ranking = Replacing(kept, row_key) if row_key else Growing(kept)
        self._lifespans: Lifespans | None = None
        if forget_us is not None:
            self._newest = tables.table("newest")
            self._lifespans = Lifespans(key, forget_us, self._newest, _time_of)

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        rows = _canonical(rows, self._floats) if rows.height else rows
        if self._lifespans is None:
            return Outcome(self._ranked(rows, context.batch) if rows.height else self._nothing)
        found = self._living(rows, self._lifespans, context.batch) if rows.height else self._nothing
        self._kept.end([self._group(key) for key in self._lifespans.end(context.watermark)])
        return Outcome(found)

    def _ranked(self, rows: pl.DataFrame, batch: int) -> pl.DataFrame:
        groups, numbers = self._grouped(rows)
        before = self._ranking.best(groups)
        self._ranking.update(groups, rows.select(self._columns).with_columns(numbers), batch)
        found = ranking.changed(before, ranking.ranked(self._ranking.best(groups), RANK))
        time = pl.lit(rows[TIME].max(), pl.Int64).alias(TIME)
        return found.with_columns(time).select(*_typed(self._nothing.schema))

    def _living(self, rows: pl.DataFrame, lifespans: Lifespans, batch: int) -> pl.DataFrame:
        """The changes of rankings, if some begin again within the batch."""
        found = list[pl.DataFrame]()
        for part in lifespans.parts(rows):
            self._kept.end([self._group(key) for key in part.begin])
            self._newest.delete_many(part.begin)
            some = rows[part.at]
            found.append(self._ranked(some, batch))
            self._note(some, lifespans)
        return pl.concat(found)

    def _note(self, rows: pl.DataFrame, lifespans: Lifespans) -> None:
        """Notes the newest event time of each ranking."""
        groups, numbers = self._grouped(rows)
        keys = [group[PREFIX_BYTES:] for group in groups]
        times = (
            pl.DataFrame({"group": numbers, "time": rows[TIME]})
            .group_by("group")
            .agg(pl.col("time").max())
            .sort("group")
        )
        stored = self._newest.get_many(keys)
        pairs = zip(times["time"].to_list(), stored, strict=True)
        newest = [time if was is None else max(time, int(was[0])) for time, was in pairs]
        self._newest.put_many(keys, [(time,) for time in newest])
        lifespans.note(keys, newest)

    def _group(self, key: bytes) -> bytes:
        """The name of a group by its encoded key."""
        return xxhash.xxh3_64_digest(key) + key if self._key else b""

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields rows with their ranks, best first. If rows replace each other, rows beyond the k-th are kept, too."""
        table, rows = self._kept.table, self._kept.rows
        if wanted is None:
            found = rows.decode([row for _, row in table.scan(b"")])
        else:
            groups = [xxhash.xxh3_64_digest(key) + key for key in wanted]
            scanned = [(group, *entry) for group in groups for entry in table.scan(group[:PREFIX_BYTES])]
            found = rows.decode([row for group, name, row in scanned if name.startswith(group)])
        best = self._order.sort(found, self._key)
        place = pl.int_range(1, pl.len() + 1)
        best = best.with_columns((place.over(self._key) if self._key else place).alias(RANK))
        yield from of_rows("rows", best.select(*self._key, RANK, *self._others), [*self._key, RANK], None)

    def _grouped(self, rows: pl.DataFrame) -> tuple[list[bytes], pl.Series]:
        """The groups of a batch by name, in order, and the number of each row's group."""
        if not self._key:
            return [b""], pl.Series(GROUP, np.zeros(rows.height, dtype=np.int64))
        first, group = canonical_keys.groups(rows, self._key)
        encoded = [self._group(key) for key in canonical_keys.encode(rows[first], self._key)]
        names = sorted(set(encoded))
        at = {name: number for number, name in enumerate(names)}
        return names, pl.Series(GROUP, np.array([at[name] for name in encoded], dtype=np.int64)[group])


def _time_of(state: Any) -> int:
    """The newest event time of a ranking, from its entry."""
    return int(state[0])


def _canonical(rows: pl.DataFrame, floats: Sequence[str]) -> pl.DataFrame:
    return rows.with_columns(canonical_keys.canonical_floats(rows[name]) for name in floats) if floats else rows


def _typed(kinds: pl.Schema) -> list[pl.Expr]:
    return [pl.col(name).cast(kind) for name, kind in kinds.items()]

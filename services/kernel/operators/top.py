"""top: the k largest rows, of each window or of all that came so far.

Descending by one column, nulls and NaN last; ties by the other columns, ascending, in their order: the ranking is a
function of the rows alone. Source: JOBS "operators", PROTOCOL 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from holdfast.schemas.job_operators import Top as TopSpec
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Params, Problems, Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.operators.windows import BOUNDS, END, START
from holdfast.services.kernel.state.table import Table, Tables

RANK = "rank"
_KEY = "_key"
_MIN_POOL = 1024


class TopKind(OperatorKind):
    """A rank identifies a row, in its window or among all. Rows that are compared must meet in one task."""

    model = TopSpec
    made = "rows of earlier batches, too"

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems, given = Problems(), inputs[0]
        problems.key("top.by", params["top"]["by"], given.fields)
        if RANK in given.fields:
            problems.add("top", f"its input has a column '{RANK}' already", "rename it with a select")
        problems.check()
        row_key = (*BOUNDS, RANK) if given.windowed else (RANK,)
        return Stream({**given.fields, RANK: "int"}, row_key, given.windowed)

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        top, row_key = plan.params["top"], tuple(plan.params.get("input_row_key") or ())
        return Top(top["k"], top["by"], inputs[0], row_key, START in plan.row_key, tables)

    def needs(self, params: Params) -> tuple[str, ...]:
        return ("input_row_key",)

    def key(self, params: Params) -> tuple[str, ...]:
        return BOUNDS

    def tasks(self, params: Params, wanted: int | None, widest: int) -> int:
        return wanted or 1

    def one_task(self, params: Params, windowed: bool) -> str:
        return "" if windowed else "without windows all rows are compared in one task"

    def stateful(self, params: Params) -> bool:
        return True


class Order:
    """Order in which rows are ranked."""

    def __init__(self, by: str, columns: Sequence[str], floating: bool) -> None:
        others = [name for name in columns if name != by]
        self._by = [pl.col(by).fill_nan(None) if floating else pl.col(by), *others, by]
        self._descending = [True] + [False] * len(others) + [True]

    def sort(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        """Best first, `within` groups that themselves come in ascending order; equal rows stay as they are."""
        descending = [False] * len(within) + self._descending
        return rows.sort([*within, *self._by], descending=descending, nulls_last=True, maintain_order=True)


class Ranking(Protocol):
    """Rows kept from batch to batch. The frames have the columns of the input without its time."""

    def best(self) -> pl.DataFrame: ...
    def update(self, rows: pl.DataFrame, batch: int) -> None: ...


class Top:
    """Adds `rank`, 1 to k.

    Args:
        fields: of the input. row_key: columns by which its rows replace each other; none: rows are only added.
        windowed: rows come once a window, with its bounds: the best of each window in the batch, by (end, rank), and
            nothing is kept. Otherwise the ranks whose row changed, at the largest event time of the batch.
    """

    def __init__(
        self, k: int, by: str, fields: Mapping[str, str], row_key: Sequence[str], windowed: bool, tables: Tables
    ) -> None:
        columns = schema(fields)
        self._k, self._windowed = k, windowed
        self._columns = list(columns)
        self._order = Order(by, self._columns, columns[by].is_float())
        self._nothing = with_time({**columns, RANK: pl.Int64()}).to_frame()
        self._ranking: Ranking | None = None
        if not windowed:
            kept = Kept(k, self._order, columns, tables.table("rows"))
            self._ranking = Replacing(kept, row_key) if row_key else Growing(kept)

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._nothing)
        rows = rows.with_columns(canonical_keys.canonical_floats(rows[name]) for name in self._columns)
        if self._ranking is None:
            return Outcome(self._of_windows(rows))
        before = self._ranking.best()
        self._ranking.update(rows.select(self._columns), context.batch)
        changed = _changed(before, self._ranking.best().with_row_index(RANK, 1))
        time = pl.lit(rows[TIME].max(), pl.Int64).alias(TIME)
        return Outcome(changed.with_columns(time).select(pl.col(name).cast(kind) for name, kind in self._shape()))

    def _of_windows(self, rows: pl.DataFrame) -> pl.DataFrame:
        ranked = self._order.sort(rows, within=(END, START))
        ranked = ranked.with_columns((pl.int_range(pl.len()).over(START, END) + 1).alias(RANK))
        return ranked.filter(pl.col(RANK) <= self._k).select(pl.col(name).cast(kind) for name, kind in self._shape())

    def _shape(self) -> list[tuple[str, pl.DataType]]:
        return list(self._nothing.schema.items())


class Kept:
    """Rows in a table, and in memory those of them that may be among the best.

    The pool holds the best rows; those outside are no better than its last one. So the best k of the pool are the best
    of all, and only when too many of its rows were replaced by worse ones is the table read again.
    """

    def __init__(self, k: int, order: Order, columns: pl.Schema, table: Table) -> None:
        self.k, self.table = k, table
        self.rows = StoredRows(columns)
        self.order, self._columns = order, list(columns)
        self._size = max(4 * k, _MIN_POOL)
        self._pool: pl.DataFrame | None = None
        self._whole = True

    def pool(self) -> pl.DataFrame:
        """Best first, with the table's keys."""
        if self._pool is None:
            entries = list(self.table.scan(b""))
            rows = self.rows.decode([value for _, value in entries])
            pool = self.order.sort(rows.with_columns(pl.Series(_KEY, [key for key, _ in entries], dtype=pl.Binary)))
            self._whole = pool.height <= self._size
            self._pool = pool.head(self._size)
        return self._pool

    def best(self) -> pl.DataFrame:
        return self.pool().head(self.k).select(self._columns)

    def put(self, rows: pl.DataFrame, keys: Sequence[bytes]) -> None:
        """Adds rows, in place of those with the same keys."""
        pool, keyed = self.pool(), rows.with_columns(pl.Series(_KEY, keys, dtype=pl.Binary))
        self.table.put_many(keys, self.rows.encode(rows))
        stay = pool.join(keyed.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        merged = pl.concat([stay, keyed])
        merged = self.order.sort(merged) if self._whole else self._above(merged, pool.tail(1))
        if not self._whole and merged.height < self.k:
            self._pool = None
            return
        self._whole = self._whole and merged.height <= 2 * self._size
        self._pool = merged if merged.height <= 2 * self._size else merged.head(self._size)

    def replace(self, best: pl.DataFrame) -> None:
        """Holds these rows, best first, and no others; the table gets what entered and loses what left."""
        pool = self.pool()
        entered = best.join(pool.select(_KEY), on=_KEY, how="anti", maintain_order="left")
        self.table.put_many(entered[_KEY].to_list(), self.rows.encode(entered.select(self._columns)))
        self.table.delete_many(pool.join(best.select(_KEY), on=_KEY, how="anti")[_KEY].sort().to_list())
        self._pool = best

    def _above(self, rows: pl.DataFrame, floor: pl.DataFrame) -> pl.DataFrame:
        """The rows that are no worse than the floor."""
        marked = pl.concat([rows.with_columns(pl.lit(False).alias(RANK)), floor.with_columns(pl.lit(True).alias(RANK))])
        ranked = self.order.sort(marked)
        return ranked.head(ranked[RANK].arg_max() or 0).drop(RANK)


class Replacing:
    """Rows replace earlier ones of the same key; all stay, for a row may fall."""

    def __init__(self, kept: Kept, row_key: Sequence[str]) -> None:
        self._kept, self._row_key = kept, list(row_key)

    def best(self) -> pl.DataFrame:
        return self._kept.best()

    def update(self, rows: pl.DataFrame, batch: int) -> None:
        latest = rows.unique(self._row_key, keep="last", maintain_order=True)
        self._kept.put(latest, canonical_keys.encode(latest, self._row_key))


class Growing:
    """Rows are only added: no row outside the best k can ever rise."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def best(self) -> pl.DataFrame:
        return self._kept.best()

    def update(self, rows: pl.DataFrame, batch: int) -> None:
        order, k = self._kept.order, self._kept.k
        candidates = order.sort(rows).head(k)
        keys = [batch.to_bytes(8, "big") + position.to_bytes(4, "big") for position in range(candidates.height)]
        added = candidates.with_columns(pl.Series(_KEY, keys, dtype=pl.Binary))
        self._kept.replace(order.sort(pl.concat([self._kept.pool(), added])).head(k))


def _changed(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The rows of `after` that differ from those `before` at their rank."""
    known = after.head(before.height)
    different = pl.Series([False]).new_from_index(0, known.height)
    for name in before.columns:
        different |= known[name].ne_missing(before[name])
    return pl.concat([known.filter(different), after.slice(before.height)])

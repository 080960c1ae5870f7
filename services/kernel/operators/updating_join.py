"""join of a table with rows that replace each other: a change of either side outputs all rows that it changes.

The left side is a table, a running total, or another such join; the right side is a table, looked up by its key. An
output row replaces the one of its left key; `op` marks it as present (`u`) or deleted (`d`, with its last values). So a
change of the right side corrects every row joined with it.

The state holds both sides, and, for a left key that does not determine the right key, the left rows that name each
right row.
Source: JOBS "join", PROTOCOL 6 (state access per distinct key of a batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import polars as pl
import xxhash

from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.codecs.fields import DELETED, with_time
from holdfast.services.kernel.operators.join_keys import Sides
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.remembered import Remembered, Wanted, of_rows, stored
from holdfast.services.kernel.operators.stored_rows import StoredRows
from holdfast.services.kernel.state.table import Table, Tables, Value

UPDATED, GONE = "u", "d"
_HASH_BYTES = 8
_THERE = "_there"


class _Pairs(NamedTuple):
    """The left and right rows of some keys, as stored; None: there is no row.

    names: the right keys.
    """

    left: Sequence[Value | None]
    right: Sequence[Value | None]
    names: Sequence[bytes | None]


class UpdatingJoin:
    """A task of such a join. Output rows replace each other; they are in the order of their keys, at the newest time of
    the batch.

    Args:
        sides: the right side has DELETED; its columns of `on` are the table's key.
        row_key: the left columns by which left rows and output rows replace each other.
        changes: True if the left side is such a join itself, whose `op` marks deleted rows.
        tables: the state of the task.
    """

    def __init__(self, sides: Sides, row_key: Sequence[str], changes: bool, tables: Tables) -> None:
        self._on = sides.left_on
        self._right_on = sides.right_on
        self._untimed = DELETED in sides.left
        self._kind = sides.kind
        self._right_names = dict(sides.names)
        same = set(row_key) == set(self._on)
        self._key = self._on if same else list(row_key)
        self._changes = changes
        self._left_columns = [name for name in sides.left if name != DELETED and not (changes and name == OP)]
        self._right_columns = [*self._right_on, *sides.names]
        self._left_rows = StoredRows(pl.Schema({name: sides.left[name] for name in self._left_columns}))
        self._right_rows = StoredRows(pl.Schema({name: sides.right[name] for name in self._right_columns}))
        self._left = tables.table("left")
        self._right = tables.table("right")
        self._naming = None if same else tables.table("naming", _HASH_BYTES)
        self._nothing = with_time(sides.output).to_frame()
        self._shown = [name for name in sides.output if name != OP]

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        left, right = inputs
        watermark = NO_WATERMARK if self._untimed and context.watermark < END_WATERMARK else None
        if LOADED_WATERMARK <= context.watermark < END_WATERMARK:
            watermark = NO_WATERMARK  # the left side has ended, the table not yet
        if not left.height and not right.height:
            return Outcome(self._nothing, watermark=watermark)
        return Outcome(self._changed(left, right, self._time(inputs, context)), watermark=watermark)

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields the newest rows of both sides. A left row is listed under the key by which it names a right row."""
        others = [name for name in self._key if name not in self._on]
        for entries in stored(self._left, wanted if self._naming is None else None):
            rows = self._left_rows.decode([row for _, row in entries])
            for _, keyed, values in of_rows("left", rows, self._on, wanted):
                yield Remembered("left", keyed.hstack(values.select(others)), values.drop(others))
        for entries in stored(self._right, wanted):
            rows = self._right_rows.decode([one for _, one in entries])
            yield from of_rows("right", rows, self._right_on, None)

    @staticmethod
    def _time(inputs: Sequence[pl.DataFrame], context: BatchContext) -> int:
        """The newest time of the batch, at least the watermark before it."""
        known = context.watermark_before if context.watermark_before < LOADED_WATERMARK else NO_WATERMARK
        times = [rows[TIME].to_numpy().max() for rows in inputs if rows.height]
        return int(max(known, *times))

    def _changed(self, left: pl.DataFrame, right: pl.DataFrame, time: int) -> pl.DataFrame:
        put, new_left = self._newest(left, self._key, self._left_columns, self._left_rows)
        changed, new_right = self._newest(right, self._right_on, self._right_columns, self._right_rows)
        found = zip(changed, new_right, self._right.get_many(changed), strict=True)
        changes = {key: new for key, new, old in found if new != old}
        touched = sorted({*put, *self._named_by(changes)})
        before = self._pairs(touched)
        _put(self._left, put, new_left)
        _put(self._right, list(changes), list(changes.values()))
        after = self._pairs(touched)
        self._point(touched, before, after)
        return self._differences(touched, before, after, time)

    def _newest(
        self, rows: pl.DataFrame, key: Sequence[str], columns: Sequence[str], codec: StoredRows
    ) -> tuple[list[bytes], list[Value | None]]:
        """The keys of a side in a batch, and the last row of each; None: the row is deleted. In a table a null is not a
        key.
        """
        if not rows.height:
            return [], []
        rows = rows.with_columns(keys.canonical_floats(rows[name]) for name in key)
        if DELETED in rows.columns:
            rows = rows.drop_nulls(list(key))
        rows = rows.unique(list(key), keep="last", maintain_order=True)
        there = self._there(rows)
        values = zip(codec.encode(rows.select(columns)), there, strict=True)
        return keys.encode(rows, key), [value if is_there else None for value, is_there in values]

    def _there(self, rows: pl.DataFrame) -> pl.Series:
        """True for rows that are not deletions."""
        if DELETED in rows.columns:
            return ~rows[DELETED].fill_null(False)
        if self._changes:
            return rows[OP] != GONE
        return pl.Series([True]).new_from_index(0, rows.height)

    def _named_by(self, changes: Iterable[bytes]) -> Iterable[bytes]:
        """The keys of left rows that a change of these right keys may change."""
        if self._naming is None:
            return changes
        found = list[bytes]()
        for key in changes:
            prefix = _prefixed(key)
            found += [
                one[len(prefix) :] for one, _ in self._naming.scan(prefix[:_HASH_BYTES]) if one.startswith(prefix)
            ]
        return found

    def _pairs(self, touched: Sequence[bytes]) -> _Pairs:
        left = self._left.get_many(touched)
        if self._naming is None:
            return _Pairs(left, self._right.get_many(touched), touched)
        named = self._names(left)
        wanted = list(dict.fromkeys(key for key in named if key is not None))
        rows = dict(zip(wanted, self._right.get_many(wanted), strict=True))
        return _Pairs(left, [None if key is None else rows[key] for key in named], named)

    def _names(self, left: Sequence[Value | None]) -> list[bytes | None]:
        """The right keys named by left rows; None for a null."""
        found: list[bytes | None] = [None] * len(left)
        there = [at for at, row in enumerate(left) if row is not None]
        rows = self._left_rows.decode([left[at] for at in there]).select(self._on)
        if there:
            rows = rows.with_columns(keys.canonical_floats(rows[name]) for name in self._on)
            whole = rows.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
            for at, key, names in zip(there, keys.encode(rows, self._on), whole, strict=True):
                found[at] = key if names else None
        return found

    def _point(self, touched: Sequence[bytes], before: _Pairs, after: _Pairs) -> None:
        """Updates the index from right keys to left keys, for left keys that now name another right key."""
        if self._naming is None:
            return
        moved = [one for one in zip(touched, before.names, after.names, strict=True) if one[1] != one[2]]
        self._naming.delete_many([_prefixed(was) + key for key, was, _ in moved if was is not None])
        now = [_prefixed(name) + key for key, _, name in moved if name is not None]
        self._naming.put_many(now, [(1,)] * len(now))

    def _differences(self, touched: Sequence[bytes], before: _Pairs, after: _Pairs, time: int) -> pl.DataFrame:
        """The rows that are new or changed, and the deleted ones."""
        if not touched:
            return self._nothing
        was, now = self._joined(before), self._joined(after)
        differs = pl.Series([False]).new_from_index(0, len(touched))
        for name in self._shown:
            differs |= was[name].ne_missing(now[name])
        updated = now[_THERE] & (~was[_THERE] | differs)
        gone = was[_THERE] & ~now[_THERE]
        parts = [
            rows.with_columns(pl.lit(op).alias(OP), pl.int_range(pl.len()).alias("_at")).filter(which)
            for rows, which, op in ((now, updated, UPDATED), (was, gone, GONE))
        ]
        found = pl.concat(parts).sort("_at").with_columns(pl.lit(time, pl.Int64).alias(TIME))
        return found.select(pl.col(name).cast(kind) for name, kind in self._nothing.schema.items())

    def _joined(self, pairs: _Pairs) -> pl.DataFrame:
        """A row for each pair, and whether the join contains it."""
        left, has_left = self._gathered(self._left_rows, pairs.left)
        right, has_right = self._gathered(self._right_rows, pairs.right)
        there = {
            "inner": has_left & has_right,
            "semi": has_left & has_right,
            "anti": has_left & ~has_right,
            "left": has_left,
            "right": has_right,
            "full": has_left | has_right,
        }[self._kind]
        columns = {name: left[name] for name in self._left_columns}
        for mine, other in zip(self._on, self._right_on, strict=True):
            if self._kind in ("right", "full"):
                key = pl.DataFrame([left[mine].alias("left"), right[other].alias("right")])
                columns[mine] = key.select(pl.coalesce("left", "right")).to_series()
        beside = {} if self._kind in ("semi", "anti") else self._right_names
        columns |= {to: right[name] for name, to in beside.items()}
        return pl.DataFrame([*(column.alias(name) for name, column in columns.items()), there.alias(_THERE)])

    @staticmethod
    def _gathered(codec: StoredRows, values: Sequence[Value | None]) -> tuple[pl.DataFrame, pl.Series]:
        """The rows, with nulls for missing ones, and a column that is true for rows that exist."""
        has = pl.Series([value is not None for value in values], dtype=pl.Boolean)
        rows = codec.decode([value for value in values if value is not None])
        places = pl.select(pl.when(has).then(has.cum_sum().cast(pl.Int64) - 1)).to_series()
        return rows.select(pl.all().gather(places)), has


def _put(table: Table, encoded: Sequence[bytes], values: Sequence[Value | None]) -> None:
    there = [(key, value) for key, value in zip(encoded, values, strict=True) if value is not None]
    table.put_many([key for key, _ in there], [value for _, value in there])
    table.delete_many([key for key, value in zip(encoded, values, strict=True) if value is None])


def _prefixed(key: bytes) -> bytes:
    """The prefix of a right key in the index: a hash, which is scanned, then the key itself."""
    return xxhash.xxh3_64_digest(key) + len(key).to_bytes(4, "big") + key

"""join: two streams on equal keys and near event times.

The state is what a checkpoint needs: the rows of each side as one blob a batch, so that a delta holds just what entered
and tombstones for what left; the index is rebuilt from them. Source: JOBS "join", MECHANISMS C11, PROTOCOL 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.cuts import END_WATERMARK, NO_WATERMARK
from services.kernel import keys as canonical_keys
from services.kernel.fields import with_time
from services.kernel.frames import RowCodec
from services.kernel.operators.late import split_late
from services.kernel.operators.operator import TIME, BatchContext, Outcome, Refused
from services.kernel.operators.sorted_runs import SEQUENCE, SortedRuns, hashed
from services.kernel.state_table import Table, Tables

_ROWS_A_BATCH = 2**24
"""Sequence numbers are batch * this + position: the canonical order of rows."""
LEFT, RIGHT, MATCHED = b"L", b"R", b"M"


@dataclass(slots=True)
class _Blob:
    """The rows of one batch on one side, while any of them can still match."""

    oldest: int
    newest: int
    rows: pl.DataFrame
    matched: np.ndarray


class _Side:
    """One side's rows: blobs in the table, and the index over them."""

    def __init__(
        self, name: bytes, schema: pl.Schema, key: Sequence[str], table: Table, remember_matches: bool
    ) -> None:
        self._name, self._key, self._table = name, list(key), table
        self._codec = RowCodec(schema)
        self._remember = remember_matches
        self.runs = SortedRuns()
        self.blobs: dict[int, _Blob] = {}

    def load(self) -> None:
        """Rebuilds the index from the table."""
        for key, (data,) in self._table.scan(self._name):
            batch = int.from_bytes(key[1:], "big")
            found = self._table.get_many([MATCHED + key[1:]])[0] if self._remember else None
            self._take(batch, self._codec.decode(data), None if found is None else found[0])

    def add(self, rows: pl.DataFrame, batch: int) -> pl.DataFrame:
        """Takes a batch's rows in; returns them with sequence number and hash."""
        if not rows.height:
            return self._numbered(rows, batch)
        self._table.put_many([self._at(batch)], [(self._codec.encode(rows),)])
        return self._take(batch, rows, None)

    def mark(self, sequences: np.ndarray) -> None:
        """These rows have matched."""
        batches, positions = np.divmod(np.unique(sequences), _ROWS_A_BATCH)
        for batch in np.unique(batches).tolist():
            blob = self.blobs[batch]
            blob.matched[positions[batches == batch]] = True
            self._table.put_many([MATCHED + self._at(batch)[1:]], [(np.packbits(blob.matched).tobytes(),)])

    def unmatched(self, expired_before: int, expired: int) -> list[pl.DataFrame]:
        """Rows without a match, in order, whose time has run out since the last batch: [expired_before, expired)."""
        found = []
        for blob in self.blobs.values():
            if blob.oldest < expired:
                time = blob.rows[TIME]
                gone = (time < expired) & (time >= expired_before) & ~pl.Series(blob.matched)
                found.append(blob.rows.filter(gone))
        return found

    def expire(self, oldest: int) -> None:
        gone = [batch for batch, blob in self.blobs.items() if blob.newest < oldest]
        if gone:
            self._table.delete_many([self._at(batch) for batch in gone])
            if self._remember:
                self._table.delete_many([MATCHED + self._at(batch)[1:] for batch in gone])
        for batch in gone:
            del self.blobs[batch]
        self.runs.expire(oldest)

    def _take(self, batch: int, rows: pl.DataFrame, matched: bytes | None) -> pl.DataFrame:
        flags = np.zeros(rows.height if self._remember else 0, dtype=bool)
        if matched is not None:
            flags = np.unpackbits(np.frombuffer(matched, np.uint8), count=rows.height).astype(bool)
        kept = rows if self._remember else rows.clear()
        oldest, newest = int(rows[TIME].min()), int(rows[TIME].max())  # type: ignore[arg-type]
        self.blobs[batch] = _Blob(oldest, newest, kept, flags)
        numbered = self._numbered(rows, batch)
        self.runs.add(numbered.drop_nulls(self._key))
        return numbered

    def _numbered(self, rows: pl.DataFrame, batch: int) -> pl.DataFrame:
        numbers = pl.int_range(batch * _ROWS_A_BATCH, batch * _ROWS_A_BATCH + rows.height, dtype=pl.Int64, eager=True)
        canonical = [canonical_keys.canonical_floats(rows[name]) for name in self._key]
        return hashed(rows.with_columns(*canonical, numbers.alias(SEQUENCE)), self._key)

    def _at(self, batch: int) -> bytes:
        return self._name + batch.to_bytes(8, "big")


class Join:
    """inner: every pair; left: also left rows without a partner, once none can come any more.

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
        self._right_names = dict(right_names)
        self._schema = with_time(output)
        table = tables.table("rows", prefix_bytes=1)
        self._left = _Side(LEFT, left, on, table, self._left_too)
        self._right = _Side(RIGHT, right, on, table, False)
        self._loaded = False

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        self._load()
        (left, late_left, refused_left), (right, late_right, refused_right) = (
            split_late(rows, context.watermark_before, self._keep_late) for rows in inputs
        )
        refused: tuple[Refused, ...] = refused_left + refused_right
        rows = self._joined(left, right, context.batch)
        if self._left_too:
            rows = pl.concat([rows, self._alone(context)])
        self._expire(context.watermark)
        return Outcome(rows, late_left + late_right, refused)

    def _load(self) -> None:
        if not self._loaded:
            self._left.load()
            self._right.load()
            self._loaded = True

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame, batch: int) -> pl.DataFrame:
        """New right rows meet the old left ones, new left rows meet all right ones."""
        if not left.height and not right.height:
            return self._schema.to_frame()
        new_right = self._right.add(right, batch)
        pairs = [self._pairs(rows, new_right[probes]) for probes, rows in self._left.runs.matches(new_right)]
        new_left = self._left.add(left, batch)
        pairs += [self._pairs(new_left[probes], rows) for probes, rows in self._right.runs.matches(new_left)]
        pairs = [pair for pair in pairs if pair.height]
        if not pairs:
            return self._schema.to_frame()
        joined = pl.concat(pairs).sort(SEQUENCE, f"{SEQUENCE}_right")
        if self._left_too:
            self._left.mark(joined[SEQUENCE].to_numpy())
        return joined.select(self._schema.names())

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Rows side by side, those that are equal and near: an equal hash is not an equal key."""
        others = [right[name].alias(as_name) for name, as_name in self._right_names.items()]
        beside = [right[name].alias(f"{name}_right_key") for name in self._on]
        pair = left.with_columns(
            *others,
            *beside,
            right[SEQUENCE].alias(f"{SEQUENCE}_right"),
            right[TIME].alias(f"{TIME}_right"),
        )
        near = (pl.col(TIME) - pl.col(f"{TIME}_right")).abs() <= self._within
        equal = [pl.col(name) == pl.col(f"{name}_right_key") for name in self._on]
        latest = pl.max_horizontal(TIME, f"{TIME}_right").alias(TIME)
        wanted = [*self._schema.names()[:-1], latest, SEQUENCE, f"{SEQUENCE}_right"]
        return pair.filter(near, *equal).select(wanted)

    def _alone(self, context: BatchContext) -> pl.DataFrame:
        """Left rows for which the watermark says that no partner can come any more."""
        before = _minus(context.watermark_before, self._within)
        parts = self._left.unmatched(before, _minus(context.watermark, self._within))
        rows = pl.concat(parts) if parts else self._schema.to_frame()
        if not rows.height:
            return self._schema.to_frame()
        nulls = [pl.lit(None, self._schema[name]).alias(name) for name in self._right_names.values()]
        return rows.with_columns(nulls).select(self._schema.names())

    def _expire(self, watermark: int) -> None:
        oldest = _minus(watermark, self._within)
        if oldest > NO_WATERMARK:
            self._left.expire(oldest)
            self._right.expire(oldest)


def _minus(watermark: int, within: int) -> int:
    """A row before this time has no partner to come. At the end of the stream nothing has."""
    if watermark == END_WATERMARK:
        return END_WATERMARK
    return NO_WATERMARK if watermark < NO_WATERMARK + within else watermark - within

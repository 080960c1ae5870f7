"""Rows of one side of a join that may still match, in the state and in an index.

The state holds the rows as one blob a batch, and the matched rows as one blob a batch in which they matched, so that a
delta has only new rows and tombstones for rows that left. Source: MECHANISMS C11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.frames import RowCodec
from holdfast.services.kernel.operators.operator import TIME
from holdfast.services.kernel.operators.sorted_runs import Numbers, Run, SortedRuns, run_of
from holdfast.services.kernel.state.table import Table

MATCHED = "_matched"
"""The column that is true for rows that have matched a row of the other side."""
_MATCHED = {b"L": b"M", b"R": b"N"}
"""The names under which the state holds the matched rows of each side."""
_MAX_ROWS = 2**24
"""The limit of rows per batch: the permanent name of a row is batch * this + position."""


@dataclass(frozen=True, slots=True)
class _Blob:
    """The rows of one batch.

    first: the number of its first row.
    count: the number of its rows.
    rows: the rows; None if unmatched rows are not needed.
    """

    first: int
    count: int
    rows: pl.DataFrame | None


class KeptRows:
    """Rows numbered in order of arrival; the numbers begin again after each restore.

    Args:
        name: one byte that distinguishes the sides.
        finds_unmatched: True if matched rows are remembered.
    """

    def __init__(self, name: bytes, schema: pl.Schema, key: Sequence[str], table: Table, finds_unmatched: bool) -> None:
        self._name = name
        self._key = list(key)
        self._table = table
        self._finds_unmatched = finds_unmatched
        self._codec = RowCodec(schema)
        self._marks = _MATCHED[name]
        self.runs = SortedRuns()
        self._blobs: dict[int, _Blob] = {}
        self._leaving: list[tuple[int, int]] = []
        self._pending: list[tuple[int, int]] = []
        self._marks_leaving: list[tuple[int, int]] = []
        self._next = 0
        self._alive = 0
        self._matched = _Flags()

    # -- what comes in ------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Rebuilds the index from the state."""
        entries = list(self._table.scan(self._name))
        parts = [(int.from_bytes(key[1:], "big"), self._codec.decode(data)) for key, (data,) in entries]
        for batch, rows in parts:
            self._enter(batch, rows)
        if parts:
            self.runs.add(run_of(pl.concat([rows for _, rows in parts]), self._key, 0))
        if self._finds_unmatched:
            for key, (newest, data) in self._table.scan(self._marks):
                self._matched.set(self._numbers(np.frombuffer(data, np.int64)))
                self._marks_leaving.append((newest, int.from_bytes(key[1:], "big")))
            heapify(self._marks_leaving)

    def add(self, rows: pl.DataFrame, batch: int) -> Run:
        """Adds the rows of a batch; returns the run that they form."""
        run = run_of(rows, self._key, self._next)
        if rows.height:
            assert rows.height <= _MAX_ROWS, "a batch is smaller"
            self._table.put_many([_at(self._name, batch)], [(self._codec.encode(rows),)])
            self._enter(batch, rows)
            self.runs.add(run)
        return run

    def mark(self, numbers: Numbers, rows: pl.DataFrame, batch: int) -> Numbers:
        """Marks rows as matched in this batch; returns the positions of those that had not matched before, each
        once.
        """
        distinct, first = np.unique(numbers, return_index=True)
        fresh = self._matched.set(distinct)
        if not len(fresh):
            return first[:0]
        positions = first[np.isin(distinct, fresh)]
        newest_us = int(rows[TIME].to_numpy()[positions].max())
        self._table.put_many([_at(self._marks, batch)], [(newest_us, self._names(fresh).tobytes())])
        heappush(self._marks_leaving, (newest_us, batch))
        return positions

    def kept(self, oldest_us: int) -> Iterator[pl.DataFrame]:
        """The rows from this time on, batch by batch; with a flag for matched rows, if these are remembered."""
        for key, (data,) in self._table.scan(self._name):
            rows = self._codec.decode(data)
            if self._finds_unmatched:
                blob = self._blobs[int.from_bytes(key[1:], "big")]
                rows = rows.with_columns(pl.Series(MATCHED, self._matched.get(blob.first, blob.count)))
            yield rows.filter(rows[TIME] >= oldest_us)

    # -- what leaves --------------------------------------------------------------------------------------------------

    def unmatched(self, since_us: int, until_us: int) -> list[pl.DataFrame]:
        """The rows of [since_us, until_us) without a match, in order of arrival."""
        due = set()
        while self._pending and self._pending[0][0] < until_us:
            due.add(heappop(self._pending)[1])
        return [found for batch in sorted(due) if (found := self._left_alone(batch, since_us, until_us)).height]

    def expire(self, oldest_us: int) -> None:
        """Forgets the batches whose newest row is older than `oldest_us`."""
        gone = _popped(self._leaving, oldest_us)
        marks = _popped(self._marks_leaving, oldest_us)
        if gone or marks:
            self._table.delete_many(
                [_at(self._name, batch) for batch in gone] + [_at(self._marks, batch) for batch in marks]
            )
        for batch in gone:
            self._alive -= self._blobs.pop(batch).count
        if gone and self._finds_unmatched:
            self._matched.forget(next(iter(self._blobs.values())).first if self._blobs else self._next)
        self.runs.expire(oldest_us, self._alive)

    def _left_alone(self, batch: int, since_us: int, until_us: int) -> pl.DataFrame:
        blob = self._blobs[batch]
        assert blob.rows is not None
        times = blob.rows[TIME].to_numpy()
        later = times[times >= until_us]
        if len(later):
            heappush(self._pending, (int(later.min()), batch))
        alone = (times >= since_us) & (times < until_us) & ~self._matched.get(blob.first, blob.count)
        return blob.rows.filter(pl.Series(alone))

    # -- numbers and names of rows ------------------------------------------------------------------------------------

    def _enter(self, batch: int, rows: pl.DataFrame) -> None:
        times = rows[TIME].to_numpy()
        self._blobs[batch] = _Blob(self._next, rows.height, rows if self._finds_unmatched else None)
        heappush(self._leaving, (int(times.max()), batch))
        if self._finds_unmatched:
            heappush(self._pending, (int(times.min()), batch))
            self._matched.extend(rows.height)
        self._next += rows.height
        self._alive += rows.height

    def _names(self, numbers: Numbers) -> Numbers:
        """Names of the rows in the state."""
        batches = np.fromiter(self._blobs, np.int64, len(self._blobs))
        firsts = np.fromiter((blob.first for blob in self._blobs.values()), np.int64, len(self._blobs))
        at = np.searchsorted(firsts, numbers, side="right") - 1
        names: Numbers = batches[at] * _MAX_ROWS + numbers - firsts[at]
        return names

    def _numbers(self, names: Numbers) -> Numbers:
        """The numbers of the rows that are still held."""
        here = [(name // _MAX_ROWS, name % _MAX_ROWS) for name in names.tolist() if name // _MAX_ROWS in self._blobs]
        return np.array([self._blobs[batch].first + position for batch, position in here], dtype=np.int64)


class _Flags:
    """A bit for each row number from `_first` on."""

    def __init__(self) -> None:
        self._first = 0
        self._count = 0
        self._flags = np.zeros(1024, dtype=bool)

    def extend(self, count: int) -> None:
        self._count += count
        if self._count > len(self._flags):
            self._flags = np.concatenate([self._flags, np.zeros(max(count, len(self._flags)), dtype=bool)])

    def set(self, numbers: Numbers) -> Numbers:
        """Sets flags; returns the numbers whose flags were not set before."""
        fresh: Numbers = numbers[~self._flags[numbers - self._first]]
        self._flags[fresh - self._first] = True
        return fresh

    def get(self, first: int, count: int) -> Numbers:
        return self._flags[first - self._first : first - self._first + count]

    def forget(self, first: int) -> None:
        """Forgets the flags of rows before this one, which have left."""
        gone = first - self._first
        if gone > self._count // 2:
            self._flags = np.concatenate([self._flags[gone : self._count], np.zeros(1024, dtype=bool)])
            self._first, self._count = first, self._count - gone


def _popped(heap: list[tuple[int, int]], oldest_us: int) -> list[int]:
    batches = []
    while heap and heap[0][0] < oldest_us:
        batches.append(heappop(heap)[1])
    return sorted(batches)


def _at(name: bytes, batch: int) -> bytes:
    return name + batch.to_bytes(8, "big")

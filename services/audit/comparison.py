"""Compares expected rows with found rows: lost, duplicated, wrong. A row that agrees costs eight bytes.

Source: PROTOCOL 14: these counts stand behind "0 lost, 0 duplicated, 0 wrong".
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import xxhash

from holdfast.services.audit.recomputation import Row
from holdfast.services.kernel.codecs.arrow_records import Halves

MAX_SHOWN = 100
"""Number of differences kept with their rows; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between expected and found rows.

    kind: lost, duplicated or wrong.
    expected: the missing row; of a wrong row, a row that it may replace, or None.
    found: the found row; None if a row is lost.
    """

    kind: str
    stream: str
    batch: int
    expected: Row | None
    found: Row | None


@dataclass(slots=True)
class Counts:
    """Numbers of rows.

    results: expected rows.
    lost: expected rows that were not found.
    duplicated: rows found more often than expected.
    wrong: found rows that are not expected. A wrong row that replaces a missing row makes that one wrong, not lost.
    """

    results: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.results + other.results,
            self.lost + other.lost,
            self.duplicated + other.duplicated,
            self.wrong + other.wrong,
        )


@dataclass(slots=True)
class Comparison:
    """Comparison of one stream of rows: those of a query, or the dead letters.

    A batch's rows are first expected, once, and then found, in any order and at any time later.

    halves: splits a record into two with its rows, as a worker splits records that their topic refuses; returns nothing
        for a single row. None: each record is a row.
    """

    stream: str
    halves: Halves | None = None
    counts: Counts = field(default_factory=Counts)
    differences: list[Difference] = field(default_factory=list)
    _missing: dict[int, Counter[Row]] = field(default_factory=dict)
    _pending: dict[int, Counter[Row]] = field(default_factory=dict)
    _expected: dict[int, array[int]] = field(default_factory=dict)
    _unknown: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def expect(self, batch: int, committed: Iterable[Row], pending: Iterable[Row] = ()) -> None:
        """Adds the expected rows of a batch.

        committed: rows that must be found.
        pending: rows that may be found, because their transaction may be under way.
        """
        must, may = Counter(committed), Counter(pending)
        self.counts.results += must.total()
        if must:
            self._missing[batch] = must
        if may:
            self._pending[batch] = may
        if must or may:
            self._expected[batch] = array("Q", map(_digest, [*must, *may]))

    def find(self, batch: int, row: Row) -> None:
        if _take(self._missing, batch, row) or _take(self._pending, batch, row):
            return
        if self._halved(batch, lambda part: part == row):
            return
        if _digest(row) in self._expected.get(batch, ()):
            self.counts.duplicated += 1
            self._show(Difference("duplicated", self.stream, batch, row, found=row))
        else:
            self._unknown[batch].append(row)

    def excuse(self, batch: int, stands_for: Callable[[Row], bool]) -> bool:
        """Removes one expected row that was dead-lettered: it is neither present nor lost. False if no row fits."""
        for waiting in (self._missing, self._pending):
            row = next(filter(stands_for, waiting.get(batch, ())), None)
            if row is not None:
                return _take(waiting, batch, row)
        return self._halved(batch, stands_for)

    def _halved(self, batch: int, wanted: Callable[[Row], bool]) -> bool:
        """Takes a part of an expected row, and keeps the rest of the row as expected."""
        if self.halves is None:
            return False
        for waiting in (self._missing, self._pending):
            for row in list(waiting.get(batch, ())):
                if rest := _rest(row, wanted, self.halves):
                    _take(waiting, batch, row)
                    left = Counter(rest[1:])
                    waiting[batch] = waiting.get(batch, Counter()) + left
                    self._expected[batch].extend(map(_digest, [rest[0], *left]))
                    if not waiting[batch]:
                        del waiting[batch]
                    return True
        return False

    def finish(self) -> None:
        """Ends the comparison when all rows were found: missing rows are lost or wrong."""
        for batch in sorted(self._missing.keys() | self._unknown.keys()):
            self._finish(batch, self._missing.get(batch, Counter()), self._unknown.get(batch, []))
        self._missing = {}
        self._pending = {}
        self._unknown = {}

    def _finish(self, batch: int, missing: Counter[Row], unknown: list[Row]) -> None:
        """Pairs missing rows with unexpected rows: by key first, then in order."""
        by_key = {row.key: row for row in missing if row.key is not None}
        left: list[Row] = []
        for row in unknown:
            same = by_key.pop(row.key, None) if row.key is not None else None
            if same is None:
                left.append(row)
            else:
                self._wrong(batch, same, row, missing)
        for row in left:
            self._wrong(batch, next(iter(missing), None), row, missing)
        for row in missing.elements():
            self.counts.lost += 1
            self._show(Difference("lost", self.stream, batch, row, found=None))

    def _wrong(self, batch: int, expected: Row | None, found: Row, missing: Counter[Row]) -> None:
        self.counts.wrong += 1
        self._show(Difference("wrong", self.stream, batch, expected, found=found))
        if expected is not None:
            _subtract(missing, expected)

    def _show(self, difference: Difference) -> None:
        if len(self.differences) < MAX_SHOWN:
            self.differences.append(difference)


def _take(waiting: dict[int, Counter[Row]], batch: int, row: Row) -> bool:
    """Removes the row from the waiting rows of its batch; true if it was among them."""
    rows = waiting.get(batch)
    if rows is None or row not in rows:
        return False
    _subtract(rows, row)
    if not rows:
        del waiting[batch]
    return True


def _subtract(rows: Counter[Row], row: Row) -> None:
    rows[row] -= 1
    if not rows[row]:
        del rows[row]


def _digest(row: Row) -> int:
    key = -1 if row.key is None else xxhash.xxh3_64_intdigest(row.key)
    return xxhash.xxh3_64_intdigest(row.value, (key + row.partition) & (2**64 - 1))


def _rest(row: Row, wanted: Callable[[Row], bool], halves: Halves) -> list[Row]:
    """The wanted part of a row, followed by the other parts; empty if no part is wanted."""
    two = [Row(half, row.key, row.partition) for half in halves(row.value)]
    for half, other in zip(two, reversed(two), strict=True):
        if wanted(half):
            return [half, other]
        if found := _rest(half, wanted, halves):
            return [*found, other]
    return []

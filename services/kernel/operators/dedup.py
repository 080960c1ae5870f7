"""dedup: passes on the first row of each key within a time, by event time.

`emit: final`: a row is judged once the watermark has passed it, so that all older rows in time are known. Rows are
judged in the order of their event times, and of their contents for equal times, because the order of arrival differs
between runs. A row is dropped if a row of its key was passed on less than `within` before. So the output depends only
on the rows, not on batches or the order of arrival.

`emit: each`: a row is judged on arrival, by the rows that arrived before it. So the order of arrival counts, and the
division into batches does not.

A remembered row is closed once the watermark is `within` past it, because no row in time can match it any more. A row
behind the watermark on arrival is judged by the rows that are still open; it is late if all older rows that it could
match are closed. A row that was passed on is never withdrawn. The open rows follow from the watermark alone, not from
the rows that the state still holds.
Source: JOBS "operators", PROTOCOL 3 (late) and 4, docs/decisions/0140.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.job_operators import Dedup as DedupSpec
from holdfast.schemas.operator_settings import DedupSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import keys as canonical_keys
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.operators.content_order import ContentOrder
from holdfast.services.kernel.operators.held_rows import HeldRows
from holdfast.services.kernel.operators.kind import EVERY_TASK, Fields, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.late import split_late
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.operators.remembered import PIECE, Remembered, Wanted, moments, of_rows
from holdfast.services.kernel.operators.time_prefix import prefix_of, time_of
from holdfast.services.kernel.state.table import Tables

_SECOND_US = 1_000_000


class DedupKind(OperatorKind[DedupSettings]):
    """The kind of operators that pass on fewer rows of the same stream. Rows of one key must reach one task."""

    model = DedupSpec

    def describe(self, settings: DedupSettings, inputs: Sequence[Stream]) -> Stream:
        problems = Problems()
        for index, name in enumerate(settings.key):
            problems.key(f"key[{index}]", name, inputs[0].fields)
        problems.check()
        return inputs[0]

    def build(self, plan: OperatorPlan, settings: DedupSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        at_once, columns = settings.emit == "each", schema(inputs[0])
        return Dedup(settings.key, _within(settings), settings.keeps_late, at_once, columns=columns, tables=tables)

    def needs(self, settings: DedupSettings) -> tuple[str, ...]:
        return ("late",)

    def key(self, settings: DedupSettings) -> tuple[str, ...]:
        return settings.key

    def stateful(self, settings: DedupSettings) -> bool:
        return True

    def split_by(self, settings: DedupSettings) -> Mapping[str, int] | None:
        """See OperatorKind.split_by. With `emit: final` the waiting rows of all keys share one blob a batch: it cannot
        be split.
        """
        return {"times": 8, "live": EVERY_TASK} if settings.emit == "each" else None

    def passing(self, settings: DedupSettings) -> Passing:
        return Passing.SOME

    def closes(self, settings: DedupSettings) -> bool:
        return True

    def closed_us(self, settings: DedupSettings, watermark: int, slot: int = 0) -> int:
        return _open_us(_within(settings), watermark)

    def horizon_us(self, settings: DedupSettings) -> int | None:
        return _within(settings)


def _within(settings: DedupSettings) -> int:
    """Microseconds."""
    return round(settings.dedup.within_s * _SECOND_US)


def _open_us(within_us: int, watermark: int) -> int:
    """The time from which on a remembered row is open: a row before it matches no open row."""
    return NO_WATERMARK if watermark < NO_WATERMARK + within_us else watermark - within_us + 1


class Dedup:
    """A task of dedup.

    The state holds the event times of remembered rows by slice of time and key. A slice is `within` long, so the
    possible matches of a row are in its own slice and the two neighbours, and a slice is forgotten as a whole.

    Args:
        key: the columns by which rows are equal; null is a value like any other.
        within_us: the time in microseconds.
        keep_late: late rows are refused (to the dead letters) instead of dropped.
        at_once: rows are judged on arrival.
        columns: the columns of the rows.
        tables: the state of the task.
    """

    def __init__(
        self,
        key: Sequence[str],
        within_us: int,
        keep_late: bool,
        at_once: bool,
        columns: pl.Schema,
        tables: Tables,
    ) -> None:
        self._key = list(key)
        self._within = within_us
        self._keep_late = keep_late
        self._at_once = at_once
        self._times = tables.table("times", prefix_bytes=8)
        self._live = tables.table("live")
        self._order = ContentOrder(with_time(columns))
        self._held = HeldRows(with_time(columns), tables.table("held"))
        self._nothing = with_time(columns).to_frame()
        self._slices: set[int] | None = None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        open_us = _open_us(self._within, context.watermark_before)
        slices = self._known_slices(context.watermark_before)
        rows, late, refused, dropped = split_late(inputs[0], open_us, self._keep_late)
        due = rows if self._at_once else self._order.of(self._held.due(rows, context))
        passed = due.filter(self._judged(due, open_us, slices)) if due.height else self._nothing
        if context.watermark > context.watermark_before:
            self._forget(slices, context.watermark)
        return Outcome(passed, late, refused, dropped=(dropped,))

    # -- judging rows -------------------------------------------------------------------------------------------------

    def _judged(self, rows: pl.DataFrame, open_us: int, slices: set[int]) -> pl.Series:
        """True for rows that are passed on, which are then remembered. Rows are judged in the given order."""
        keys, times = self._keys(rows), rows[TIME].to_list()
        remembered = self._remembered(keys, times, open_us, slices)
        passes, new = [False] * rows.height, set[tuple[int, bytes]]()
        for row, (key, time) in enumerate(zip(keys, times, strict=True)):
            before = remembered[key]
            place = bisect_left(before, time)
            if place and time - before[place - 1] < self._within:
                continue
            if place < len(before) and before[place] - time < self._within:
                continue
            before.insert(place, time)
            passes[row] = True
            new.add((time // self._within, key))
        self._remember(new, remembered, slices)
        return pl.Series(passes)

    def _keys(self, rows: pl.DataFrame) -> list[bytes]:
        """The encoded key of each row; each distinct key is encoded once."""
        first, group = canonical_keys.groups(rows, self._key)
        encoded = canonical_keys.encode(rows[first], self._key)
        return [encoded[index] for index in group.tolist()]

    def _remembered(
        self, keys: Sequence[bytes], times: Sequence[int], open_us: int, slices: set[int]
    ) -> dict[bytes, list[int]]:
        """The open event times that rows of these keys and times may match, ascending, by key."""
        own = {(time // self._within, key) for time, key in zip(times, keys, strict=True)}
        asked = sorted({(number + beside, key) for number, key in own for beside in (-1, 0, 1)})
        asked = [(number, key) for number, key in asked if number in slices]
        found: dict[bytes, list[int]] = {key: [] for key in keys}
        values = self._times.get_many([prefix_of(number) + key for number, key in asked])
        for (_, key), value in zip(asked, values, strict=True):
            found[key] += [time for time in value or () if time >= open_us]
        return found

    def _remember(self, new: set[tuple[int, bytes]], times: dict[bytes, list[int]], slices: set[int]) -> None:
        entries = sorted(new)
        values = [tuple(time for time in times[key] if time // self._within == number) for number, key in entries]
        self._times.put_many([prefix_of(number) + key for number, key in entries], values)
        if begun := sorted({number for number, _ in entries} - slices):
            self._live.put_many([prefix_of(number) for number in begun], [(1,)] * len(begun))
            slices.update(begun)

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        """Yields event times of passed rows that may still match, then waiting rows."""
        slices, open_us = self._known_slices(watermark), _open_us(self._within, watermark)
        for number in sorted(slices):
            prefix = prefix_of(number)
            if wanted is None:
                known = [(key[8:], times) for key, times in self._times.scan(prefix)]
            else:
                found = self._times.get_many([prefix + key for key in wanted])
                known = [(key, times) for key, times in zip(wanted, found, strict=True) if times is not None]
            open_ones = [(key, time) for key, times in known for time in times if time >= open_us]
            for start in range(0, len(open_ones), PIECE):
                piece = open_ones[start : start + PIECE]
                keys = canonical_keys.decode([key for key, _ in piece], self._key, self._nothing.schema)
                at = moments(pl.Series(TIME, [time for _, time in piece], dtype=pl.Int64))
                yield Remembered("passed", keys, at.to_frame())
        yield from of_rows("waiting", self._held.rows(), self._key, wanted)

    # -- slices of time -----------------------------------------------------------------------------------------------

    def _known_slices(self, watermark: int) -> set[int]:
        """The numbers of the non-empty slices; read from the state at first use, with the waiting rows."""
        if self._slices is None:
            self._held.load(watermark)
            self._slices = {time_of(key) for key, _ in self._live.scan(b"")}
        return self._slices

    def _forget(self, slices: set[int], watermark: int) -> None:
        """Forgets slices whose last row is closed."""
        gone = sorted(number for number in slices if (number + 2) * self._within <= watermark)
        if gone:
            self._times.delete_many([key for number in gone for key, _ in self._times.scan(prefix_of(number))])
            self._live.delete_many([prefix_of(number) for number in gone])
            slices.difference_update(gone)

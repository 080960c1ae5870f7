"""dedup: of the rows of a key, the first within a time, by event time.

A row that is passed on is remembered. A row is dropped if a remembered row of its key has the same event time or one
that is less than `within` older. The rows of a batch are judged in the order of their event times, equal times in the
order in which they came; what is passed on keeps the order of the input. A row that was passed on is never taken back:
an older row of its key that comes in a later batch is judged by what is older than itself.

A remembered row is closed once the watermark is `within` past it, because no row in time can meet it any more. A row
that is behind the watermark is judged by what is still open, and is late if all that it could meet is closed. What is
open follows from the watermark alone, not from what the state has not yet forgotten.
Source: JOBS "operators", PROTOCOL 3 (late) and 4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.cuts import NO_WATERMARK
from schemas.job_operators import Dedup as DedupSpec
from schemas.plans import OperatorPlan
from services.kernel.codecs import keys as canonical_keys
from services.kernel.codecs.fields import schema, with_time
from services.kernel.operators.kind import Fields, OperatorKind, Params, Passing, Problems, Stream
from services.kernel.operators.late import split_late
from services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from services.kernel.operators.time_prefix import prefix_of, time_of
from services.kernel.state.table import Tables

_SECOND_US = 1_000_000


class DedupKind(OperatorKind):
    """The stream stays what it was, with fewer rows. Rows of one key must meet in one task."""

    model = DedupSpec

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems = Problems()
        for index, name in enumerate(params["key"]):
            problems.key(f"key[{index}]", name, inputs[0].fields)
        problems.check()
        return inputs[0]

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        params, columns = plan.params, schema(inputs[0])
        return Dedup(params["key"], _within(params), params.get("late") == "topic", columns, tables)

    def needs(self, params: Params) -> tuple[str, ...]:
        return ("late",)

    def key(self, params: Params) -> tuple[str, ...]:
        return tuple(params["key"])

    def stateful(self, params: Params) -> bool:
        return True

    def passing(self, params: Params) -> Passing:
        return Passing.SOME

    def closes(self, params: Params) -> bool:
        return True

    def closed_us(self, params: Params, watermark: int) -> int:
        return _open_us(_within(params), watermark)

    def horizon_us(self, params: Params) -> int | None:
        return _within(params)


def _within(params: Params) -> int:
    """Microseconds."""
    within_s: float = params["dedup"]["within_s"]
    return round(within_s * _SECOND_US)


def _open_us(within_us: int, watermark: int) -> int:
    """A remembered row is open from this time on. So a row before it can meet nothing that is open."""
    return NO_WATERMARK if watermark < NO_WATERMARK + within_us else watermark - within_us + 1


class Dedup:
    """One task.

    The event times of remembered rows lie in the state by slice of time and key. A slice is `within` long, so what a
    row may meet lies in its own slice and the one before, and a slice is forgotten as a whole.

    Args:
        key: columns of rows that are the same; null is a value like any other. within_us: microseconds.
        keep_late: late rows are refused (to the dead letters) instead of dropped.
    """

    def __init__(self, key: Sequence[str], within_us: int, keep_late: bool, columns: pl.Schema, tables: Tables) -> None:
        self._key, self._within, self._keep_late = list(key), within_us, keep_late
        self._times = tables.table("times", prefix_bytes=8)
        self._live = tables.table("live")
        self._nothing = with_time(columns).to_frame()
        self._slices: set[int] | None = None

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        open_us = _open_us(self._within, context.watermark_before)
        rows, late, refused, dropped = split_late(inputs[0], open_us, self._keep_late)
        slices = self._known_slices()
        passed = rows.filter(self._judged(rows, open_us, slices)) if rows.height else self._nothing
        if context.watermark > context.watermark_before:
            self._forget(slices, context.watermark)
        return Outcome(passed, late, refused, dropped=(dropped,))

    # -- judging rows -------------------------------------------------------------------------------------------------

    def _judged(self, rows: pl.DataFrame, open_us: int, slices: set[int]) -> pl.Series:
        """True for rows that are passed on, which are remembered."""
        keys, times = self._keys(rows), rows[TIME].to_list()
        remembered = self._remembered(keys, times, open_us, slices)
        passes, new = [False] * rows.height, set[tuple[int, bytes]]()
        for row in np.argsort(times, kind="stable").tolist():
            key, time = keys[row], times[row]
            before = remembered[key]
            place = bisect_right(before, time)
            if place and time - before[place - 1] < self._within:
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
        """The open event times that rows of these keys and times may meet, ascending, by key."""
        own = {(time // self._within, key) for time, key in zip(times, keys, strict=True)}
        asked = sorted(own | {(number - 1, key) for number, key in own})
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

    # -- slices of time -----------------------------------------------------------------------------------------------

    def _known_slices(self) -> set[int]:
        """Numbers of the slices that hold anything; read from the state at first use."""
        if self._slices is None:
            self._slices = {time_of(key) for key, _ in self._live.scan(b"")}
        return self._slices

    def _forget(self, slices: set[int], watermark: int) -> None:
        """Slices whose last row is closed."""
        gone = sorted(number for number in slices if (number + 2) * self._within <= watermark)
        if gone:
            self._times.delete_many([key for number in gone for key, _ in self._times.scan(prefix_of(number))])
            self._live.delete_many([prefix_of(number) for number in gone])
            slices.difference_update(gone)

"""Windows of all shapes: of a calendar against DuckDB, cumulative and shifted ones against all pairs of bounds."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.job_operators import Window
from holdfast.schemas.operator_settings import WindowSettings
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.calendar_windows import Calendar
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.window_shapes import shape_of
from tests.support.examples import examples
from tests.support.operators import Harness

duckdb: Any = pytest.importorskip("duckdb")
FIELDS = {"k": "string", "n": "int"}
SECOND = 1_000_000
HOUR = 3600 * SECOND
Rows = list[dict[str, Any]]


def windows(window: dict[str, Any], emit: str = "final") -> Harness:
    return Harness(
        "aggregate",
        {"aggregate": {"c": "count()", "s": "sum(n)"}, "key": ["k"], "window": window, "emit": emit},
        FIELDS,
    )


def at(year: int, month: int, day: int, hour: int = 0) -> int:
    return round(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * SECOND


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def counted(task: Harness, rows: Rows, lateness: int, chance: random.Random) -> Counter[tuple[Any, ...]]:
    """Key, count, sum and bounds of every window, whatever the batches and the order within the lateness."""
    left, found = sorted(rows, key=lambda one: one["_time"] + chance.uniform(0, lateness)), Rows()
    while left:
        size = chance.randint(1, 40)
        batch, left = left[:size], left[size:]
        found += task.run(batch, watermark=max(task.watermark, max(one["_time"] for one in batch) - lateness))
        if chance.random() < 0.2:
            task.restore()
    found += task.end()
    assert not any(outcome.late for outcome in task.outcomes)
    assert task.entries() == []
    return Counter((r["k"], r["c"], r["s"], micros(r["window_start"]), micros(r["window_end"])) for r in found)


# -- calendars --------------------------------------------------------------------------------------------------------

SQL = """
SELECT k, count(*) AS c, sum(n)::BIGINT AS s,
  epoch_us(begun AT TIME ZONE '{zone}'), epoch_us((begun {back} + INTERVAL '1 {every}' {shift}) AT TIME ZONE '{zone}')
FROM (SELECT *, date_trunc('{every}', make_timestamptz(_time) AT TIME ZONE '{zone}' {back}) {shift} AS begun FROM given)
GROUP BY k, begun
"""


@pytest.mark.parametrize(
    ("every", "zone", "offset_h", "from_"),
    [
        ("day", "Europe/Vienna", 0, at(2026, 3, 27)),
        ("day", "Europe/Vienna", 6, at(2026, 10, 23)),
        ("week", "America/New_York", -24, at(2026, 10, 20)),
        ("month", "Australia/Lord_Howe", 0, at(2026, 2, 25)),
        ("quarter", "Asia/Kathmandu", 0, at(2025, 12, 30)),
        ("year", "Europe/Vienna", 0, at(1969, 12, 30)),
    ],
)
def test_windows_of_a_calendar_are_those_of_duckdb_across_a_change_of_clocks(
    every: str, zone: str, offset_h: int, from_: int
) -> None:
    chance = random.Random(every)
    days = {"day": 5, "week": 30, "month": 70, "quarter": 100, "year": 400}[every]
    rows = [
        {"k": chance.choice("ab"), "n": chance.randint(0, 9), "_time": from_ + chance.randrange(days * 24) * HOUR // 2}
        for _ in range(400)
    ]
    connection = duckdb.connect()
    connection.register("given", pl.DataFrame(rows).to_arrow())
    shift, back = (f"{sign} INTERVAL '{offset_h} hours'" for sign in "+-")
    expected = connection.sql(SQL.format(every=every, zone=zone, shift=shift, back=back)).fetchall()
    connection.close()
    task = windows({"calendar": every, "zone": zone, "offset_s": offset_h * 3600})
    assert counted(task, rows, 30 * HOUR, chance) == Counter(expected)


def test_days_have_23_and_25_hours_where_clocks_change() -> None:
    task = windows({"calendar": "day", "zone": "Europe/Vienna"}, "updates")
    spring, autumn = at(2026, 3, 29, 12), at(2026, 10, 25, 12)
    found = task.run([{"k": "a", "n": 1, "_time": time} for time in (spring, autumn)])
    assert [(one["window_end"] - one["window_start"]).total_seconds() / 3600 for one in found] == [23, 25]
    assert found[0]["window_start"] == datetime(2026, 3, 28, 23, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "America/Havana"])
def test_every_moment_is_in_one_window_where_clocks_show_a_beginning_twice_or_never(zone: str) -> None:
    chance = random.Random(zone)
    moments = np.array(sorted(chance.randrange(at(1905, 1, 1), at(2026, 1, 1)) for _ in range(3_000)))
    for every in ("day", "month"):
        shape = Calendar(every, zone, 0)
        begins, ends = shape._windows(moments)
        assert ((begins <= moments) & (moments < ends)).all()
        assert ((begins[1:] == begins[:-1]) | (begins[1:] >= ends[:-1])).all(), "in order, and none overlaps"
        for moment, begin, end in list(zip(moments.tolist(), begins.tolist(), ends.tolist(), strict=True))[::300]:
            assert (shape.closed_us(moment), shape.begin(end), shape.last_end(begin)) == (begin, begin, end)


def test_a_calendar_says_what_is_late_and_what_it_holds() -> None:
    shape = shape_of(WindowSettings(calendar="day", zone="Europe/Vienna"))
    noon, begin, end = at(2026, 10, 25, 12), at(2026, 10, 24, 22), at(2026, 10, 25, 23)
    assert (shape.closed_us(end - 1), shape.closed_us(end)) == (begin, end)
    assert shape.closed_us(NO_WATERMARK) == NO_WATERMARK
    assert shape.closed_us(END_WATERMARK) == END_WATERMARK
    assert shape.held(noon) == (end, end - 1, 0)


# -- cumulative and shifted windows -----------------------------------------------------------------------------------

SHAPES: list[dict[str, float]] = [
    {"size_s": 12, "step_s": 3},
    {"size_s": 12, "step_s": 4, "offset_s": -5},
    {"size_s": 6, "slide_s": 6, "offset_s": 2.5},
    {"size_s": 6, "slide_s": 4, "offset_s": 1},
]


def bounds(window: dict[str, float], time: int) -> list[tuple[int, int]]:
    """Of all windows that hold a time, found among all that begin near it."""
    size, offset = window["size_s"] * SECOND, window.get("offset_s", 0) * SECOND
    every = size if "step_s" in window else window["slide_s"] * SECOND
    lengths = [size]
    if "step_s" in window:
        step = window["step_s"] * SECOND
        lengths = [step * nth for nth in range(1, round(size / step) + 1)]
    begins = [offset + every * nth for nth in range(-10, 60)]
    return [(round(b), round(b + length)) for b in begins for length in lengths if b <= time < b + length]


@examples(each_run=25, with_long=125)
@pytest.mark.parametrize("window", SHAPES)
@given(
    times=st.lists(st.integers(0, 40 * SECOND), max_size=60),
    lateness=st.integers(0, 20 * SECOND),
    chance=st.randoms(use_true_random=False),
)
def test_a_row_counts_in_every_window_that_holds_it(
    window: dict[str, float], times: list[int], lateness: int, chance: random.Random
) -> None:
    rows: Rows = [{"k": "ab"[nth % 3 == 0], "n": nth, "_time": time} for nth, time in enumerate(times)]
    counts, sums = Counter[tuple[str, int, int]](), Counter[tuple[str, int, int]]()
    for row in rows:
        for pair in bounds(window, row["_time"]):
            counts[row["k"], *pair] += 1
            sums[row["k"], *pair] += row["n"]
    if "step_s" in window:  # a window is as long as the rows before it, though none came in its last step
        for key, begin, _ in list(counts):
            for end in range(begin, begin + 12 * SECOND + 1, int(window["step_s"] * SECOND)):
                before = [int(one["n"]) for one in rows if one["k"] == key and begin <= int(one["_time"]) < end]
                if before:
                    counts[key, begin, end], sums[key, begin, end] = len(before), sum(before)
    expected = Counter((key, counts[key, b, e], sums[key, b, e], b, e) for key, b, e in counts)
    assert counted(windows(window), rows, lateness, chance) == expected


def test_updates_of_cumulative_windows_come_for_those_that_are_open() -> None:
    task = windows({"size_s": 6, "step_s": 2}, "updates")
    found = task.run([{"k": "a", "n": 1, "_time": 1 * SECOND}, {"k": "a", "n": 1, "_time": 3 * SECOND}], watermark=0)
    assert [(one["window_end"].second, one["c"]) for one in found] == [(2, 1), (4, 2), (6, 2)]
    task.run([], watermark=2 * SECOND)
    late = task.run([{"k": "a", "n": 1, "_time": 1 * SECOND}])
    assert [(one["window_end"].second, one["c"]) for one in late] == [(4, 3), (6, 3)]


def test_a_row_behind_the_watermark_counts_in_the_longer_windows_that_are_open() -> None:
    task = windows({"size_s": 6, "step_s": 2})
    row = {"k": "a", "n": 1, "_time": 1 * SECOND}
    assert [one["c"] for one in task.run([row], watermark=2 * SECOND)] == [1]
    assert task.run([row]) == []
    assert [(one["window_end"].second, one["c"]) for one in task.end()] == [(4, 2), (6, 2)]


# -- the job file -----------------------------------------------------------------------------------------------------


def test_an_unknown_zone_is_told_with_the_one_that_was_meant() -> None:
    params = {"aggregate": {"c": "count()"}, "window": {"calendar": "day", "zone": "Europe/Viena"}, "emit": "final"}
    with pytest.raises(JobRejected) as error:
        catalogue.describe("aggregate", params, [Stream(FIELDS)])
    (problem,) = error.value.problems
    assert (problem.path, problem.hint) == ("window.zone", "did you mean 'Europe/Vienna'?")


@pytest.mark.parametrize("window", [*SHAPES, {"gap_s": 2}, {"calendar": "week", "zone": "Asia/Tokyo", "offset_s": 9}])
def test_a_window_with_its_defaults_filled_in_is_the_same(window: dict[str, Any]) -> None:
    filled = Window.model_validate(window).model_dump(mode="json")
    assert Window.model_validate(filled).model_dump(mode="json") == filled
    shapes = [shape_of(msgspec.convert(one, WindowSettings)) for one in (filled, window)]
    assert len({repr(shape).partition(" at ")[0] for shape in shapes}) == 1

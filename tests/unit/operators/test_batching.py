"""No operator's result depends on how records fall into batches, nor on their order within the lateness."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.operator import TIME
from tests.support.operators import Harness

FIELDS = {"k": "string?", "f": "float?", "n": "int"}
WINDOWED = Stream({"k": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}, ("k",), True)
ALL = {
    f"{name}_{column}": f"{name}({column})"
    for name in ("sum", "mean", "min", "max", "first", "last")
    for column in "fn"
}
ALL |= {"c": "count()", "distinct": "count_distinct(n)", "median": "quantile(f, 0.5)"}
ALL |= {"spread": "stddev(f)", "best": "max_by(n, f)", "all": "collect_list(n)", "share": "sum(n) / count(f)"}
SECOND = 1_000_000


def aggregate(emit: str, window: dict[str, Any] | None) -> tuple[str, dict[str, Any], list[Any]]:
    return "aggregate", {"aggregate": ALL, "key": ["k"], "window": window, "emit": emit}, [FIELDS]


def join(kind: str, **times: Any) -> tuple[str, dict[str, Any], list[Any]]:
    sides = [FIELDS, {"k": "string?", "other": "float?"}]
    return "join", {"join": {"left": "l", "right": "r", "on": ["k"], "kind": kind, **times}}, sides


EACH_ROW = {
    "windows": aggregate("final", {"size_s": 4, "slide_s": 4}),
    "sliding windows": aggregate("final", {"size_s": 5, "slide_s": 2}),
    "cumulative windows": aggregate("final", {"size_s": 6, "step_s": 2}),
    "days": aggregate("final", {"calendar": "day", "zone": "Europe/Vienna", "offset_s": 3610}),
    "sessions": aggregate("final", {"gap_s": 3}),
    "dedup": ("dedup", {"dedup": {"within_s": 2}, "key": ["k"]}, [FIELDS]),
    "inner join": join("inner", within_s=3),
    "full join": join("full", between=[-1, 6]),
    "semi join": join("semi", between=[1, 5]),
    "anti join": join("anti", between=[-5, -1]),
    "filter": ("filter", {"filter": "n > 0"}, [FIELDS]),
    "select": ("select", {"select": ["k", "f * 2 AS g", "n"]}, [FIELDS]),
}
"""Every row that is put out is the same."""
LAST_ROW = {
    "running totals": aggregate("updates", None),
    "updated windows": aggregate("updates", {"size_s": 4, "slide_s": 4}),
    "top with ties": ("top", {"top": {"k": 3, "by": "n"}}, [FIELDS]),
    "top of floats": ("top", {"top": {"k": 4, "by": "f"}}, [FIELDS]),
    "each total": (
        "aggregate",
        {"aggregate": {"s": "sum(f)", "c": "count()"}, "key": ["k"], "window": None, "emit": "each"},
        [FIELDS],
    ),
}
"""A key, or a window of one, or a rank, has the same last row: which rows come before depends on the batches."""

values = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, "a", "b"]),
        "f": st.none() | st.sampled_from([0.1, 1e16, -1e16, 1.0, -0.0, 1e-3]),
        "n": st.integers(-3, 3),
    }
)


def runs(
    case: tuple[str, dict[str, Any], list[Any]],
    rows: list[tuple[int, dict[str, Any]]],
    lateness: int,
    chance: random.Random,
) -> list[dict[str, Any]]:
    """What comes out of one order and one division into batches. rows: (slot, row), of different times."""
    kind, params, inputs = case
    task, found = Harness(kind, params, *inputs), list[dict[str, Any]]()
    left = sorted(rows, key=lambda one: one[1][TIME] + chance.uniform(0, lateness))
    while left:
        count = chance.randint(1, 7)
        batch, left = left[:count], left[count:]
        slots = [[row for slot, row in batch if slot == wanted] for wanted in range(len(inputs))]
        newest = max(row[TIME] for _, row in batch)
        found += task.run(*slots, watermark=max(task.watermark, newest - lateness))
        if chance.random() < 0.2:
            task.restore()
    return found + task.end()


def drawn(case: tuple[str, dict[str, Any], list[Any]], data: st.DataObject) -> list[tuple[int, dict[str, Any]]]:
    _, _, inputs = case
    some = data.draw(st.lists(st.tuples(st.integers(0, len(inputs) - 1), values), max_size=25))
    times = data.draw(st.lists(st.integers(0, 20 * SECOND), min_size=len(some), max_size=len(some), unique=True))
    found = []
    for (slot, row), time in zip(some, times, strict=True):
        fields = inputs[slot]
        found.append((slot, {name: row.get(name, row["f"]) for name in fields} | {TIME: time}))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", EACH_ROW)
@settings(max_examples=25)
@given(data=st.data(), lateness=st.integers(0, 10 * SECOND), chance=st.randoms(use_true_random=False))
def test_the_rows_are_the_same(case: str, data: st.DataObject, lateness: int, chance: random.Random) -> None:
    rows = drawn(EACH_ROW[case], data)
    first, *others = (sorted(map(repr, runs(EACH_ROW[case], rows, lateness, chance))) for _ in range(3))
    for other in others:
        assert other == first


@pytest.mark.slow
@pytest.mark.parametrize("case", LAST_ROW)
@settings(max_examples=25)
@given(data=st.data(), lateness=st.integers(0, 10 * SECOND), chance=st.randoms(use_true_random=False))
def test_the_last_row_of_each_key_is_the_same(
    case: str, data: st.DataObject, lateness: int, chance: random.Random
) -> None:
    rows = drawn(LAST_ROW[case], data)

    def last() -> dict[tuple[Any, Any], str]:
        found = runs(LAST_ROW[case], rows, lateness, chance)
        shown = [repr({name: value for name, value in one.items() if name != TIME}) for one in found]
        keys = [(one.get("rank", one.get("k")), one.get("window_start")) for one in found]
        return dict(zip(keys, shown, strict=True))

    first = last()
    assert last() == first
    assert last() == first

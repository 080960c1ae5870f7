"""No operator's result depends on how records fall into batches, nor on their order within the lateness."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.codecs.timestamps import NEWEST_US, OLDEST_US
from holdfast.services.kernel.operators.catalogue import KINDS, Stream
from holdfast.services.kernel.operators.operator import TIME
from tests.support.examples import examples
from tests.support.operators import Harness, plan

FIELDS = {"k": "string?", "f": "float?", "n": "int"}
RIGHT = {"k": "string?", "other": "float?"}
WINDOWED = Stream({"k": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}, ("k",), True)
TABLE = Stream({"k": "string", "other": "float?", DELETED: "bool?"}, ("k",))
ROWS = Stream({"n": "int", "k": "string?", "f": "float?", DELETED: "bool?"}, ("n",))
ALL = {
    f"{name}_{column}": f"{name}({column})"
    for name in ("sum", "mean", "min", "max", "first", "last")
    for column in "fn"
}
ALL |= {"c": "count()", "distinct": "count_distinct(n)", "median": "quantile(f, 0.5)"}
ALL |= {"spread": "stddev(f)", "best": "max_by(n, f)", "all": "collect_list(n)", "share": "sum(n) / count(f)"}
SECOND = 1_000_000
Case = tuple[str, dict[str, Any], list[Any]]
"""Kind of an operator, its parameters, the fields of its inputs."""


def aggregate(emit: str, window: dict[str, Any] | None) -> Case:
    return "aggregate", {"aggregate": ALL, "key": ["k"], "window": window, "emit": emit}, [FIELDS]


def forgetting(emit: str) -> Case:
    totals = {"s": "sum(f)", "c": "count()", "newest": "last(n)", "least": "min(n)"}
    return "aggregate", {"aggregate": totals, "key": ["k"], "emit": emit, "forget_after_s": 3}, [FIELDS]


def join(kind: str, **times: Any) -> Case:
    return "join", {"join": {"left": "l", "right": "r", "on": ["k"], "kind": kind, **times}}, [FIELDS, RIGHT]


def as_of(**how: Any) -> Case:
    return "asof_join", {"asof_join": {"left": "l", "right": "r", "on": ["k"], **how}}, [FIELDS, RIGHT]


def updating(kind: str, left: Stream, on: str = "k") -> Case:
    sides = {"left": "l", "right": "r", "on": [on], "kind": kind, "emit": "updates"}
    return "join", {"join": sides}, [left, TABLE]


def unnest(keep_empty: bool) -> Case:
    column = {"column": "l", "into": "item", "position": "at", "keep_empty": keep_empty}
    return "unnest", {"unnest": column}, [{**FIELDS, "l": "list<int?>?"}]


EACH_ROW: dict[str, Case] = {
    "windows": aggregate("final", {"size_s": 4, "slide_s": 4}),
    "sliding windows": aggregate("final", {"size_s": 5, "slide_s": 2}),
    "cumulative windows": aggregate("final", {"size_s": 6, "step_s": 2}),
    "days": aggregate("final", {"calendar": "day", "zone": "Europe/Vienna", "offset_s": 3610}),
    "sessions": aggregate("final", {"gap_s": 3}),
    "dedup": ("dedup", {"dedup": {"within_s": 2}, "key": ["k"]}, [FIELDS]),
    "inner join": join("inner", within_s=3),
    "left join": join("left", between=[-3, 0]),
    "right join": join("right", between=[0, 2]),
    "full join": join("full", between=[-1, 6]),
    "semi join": join("semi", between=[1, 5]),
    "anti join": join("anti", between=[-5, -1]),
    "as-of join": as_of(kind="left", within_s=None),
    "as-of join within a time": as_of(kind="inner", within_s=4),
    "unnest": unnest(keep_empty=False),
    "unnest of empty lists, too": unnest(keep_empty=True),
    "union of unlike streams": ("union", {"union": ["l", "r"], "fill_missing": True}, [FIELDS, RIGHT]),
    "filter": ("filter", {"filter": "n > 0"}, [FIELDS]),
    "select": ("select", {"select": ["k", "f * 2 AS g", "n"]}, [FIELDS]),
}
"""Every row that is put out is the same."""
LAST_ROW: dict[str, Case] = {
    "running totals": aggregate("updates", None),
    "updated windows": aggregate("updates", {"size_s": 4, "slide_s": 4}),
    "top with ties": ("top", {"top": {"k": 3, "by": "n"}}, [FIELDS]),
    "top of floats": ("top", {"top": {"k": 4, "by": "f"}}, [FIELDS]),
    "top by key": ("top", {"top": {"k": 2, "by": "f", "order": "ascending"}, "key": ["k"]}, [FIELDS]),
    "each total": (
        "aggregate",
        {"aggregate": {"s": "sum(f)", "c": "count()"}, "key": ["k"], "window": None, "emit": "each"},
        [FIELDS],
    ),
}
"""A key, or a window of one, or a rank, has the same last row: which rows come before depends on the batches."""

AT_ONCE: dict[str, Case] = {
    "forgotten totals": forgetting("updates"),
    "each forgotten total": forgetting("each"),
    "full join of a total with a table": updating("full", Stream(FIELDS, ("k",))),
    "inner join of two tables by a key of the one": updating("inner", ROWS),
    "left join of two tables": updating("left", ROWS),
    "rows of a table that another one lacks": updating("anti", ROWS),
    "pace": ("pace", {"pace": {"every_s": 3}}, [Stream(FIELDS, ("k",))]),
    "dedup at once": ("dedup", {"dedup": {"within_s": 2}, "key": ["k"], "emit": "each"}, [FIELDS]),
}
"""The rows, or the last one of each key, depend on the order in which rows come, but not on the batches."""

values = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, "a", "b"]),
        "f": st.none() | st.sampled_from([0.1, 1e16, -1e16, 1.0, -0.0, 1e-3]),
        "n": st.integers(-3, 3),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
    }
)


Row = tuple[int, dict[str, Any]]
"""A slot, and a row of its own time."""


def runs(
    case: Case, order: Sequence[Row], lateness: int, sizes: Callable[[], int], restores: float = 0.2, seed: int = 0
) -> list[dict[str, Any]]:
    """The rows of one division into batches of at most so many rows. restores: how often the task is restored."""
    kind, params, inputs = case
    task, found, chance = Harness(kind, params, *inputs), list[dict[str, Any]](), random.Random(seed)
    left = list(order)
    while left:
        count = sizes()
        batch, left = left[:count], left[count:]
        slots = [[row for slot, row in batch if slot == wanted] for wanted in range(len(inputs))]
        newest = max(row[TIME] for _, row in batch)
        found += task.run(*slots, watermark=max(task.watermark, newest - lateness))
        if chance.random() < restores:
            task.restore()
    return found + task.end()


def shuffled(rows: Sequence[Row], lateness: int, chance: random.Random) -> list[Row]:
    """The rows in another order, none behind the watermark."""
    return sorted(rows, key=lambda one: one[1][TIME] + chance.randint(0, lateness))


def all_rows(case: Case, found: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, found))


def last_rows(case: Case, found: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], str]:
    """The last row of each key, without its time; none of a key whose row is gone."""
    kind, params, inputs = case
    streams = [one if isinstance(one, Stream) else Stream(one) for one in inputs]
    key = plan(kind, params, streams).row_key
    newest = {tuple(one[name] for name in key): one for one in found}
    there = {one: row for one, row in newest.items() if row.get(OP) != "d"}
    return {one: repr({name: value for name, value in row.items() if name != TIME}) for one, row in there.items()}


def _replacing(case: Case) -> bool:
    return case[0] == "pace" or "updates" in (case[1].get("emit"), case[1].get("join", {}).get("emit"))


def drawn(case: Case, data: st.DataObject) -> list[Row]:
    """Rows of different times, within some seconds of today, of the year 1 or of the year 9999."""
    some = data.draw(st.lists(st.tuples(st.integers(0, len(case[2]) - 1), values), max_size=25))
    base = data.draw(st.sampled_from([0, 0, OLDEST_US, NEWEST_US - 20 * SECOND]))
    times = data.draw(
        st.lists(st.integers(base, base + 20 * SECOND), min_size=len(some), max_size=len(some), unique=True)
    )
    return [(slot, _of_slot(case, slot, row, time)) for (slot, row), time in zip(some, times, strict=True)]


def _of_slot(case: Case, slot: int, row: dict[str, Any], time: int) -> dict[str, Any]:
    """A key of a table is never null, and every third row of one is deleted."""
    given = case[2][slot]
    fields = given.fields if isinstance(given, Stream) else given
    table = {"k": row["k"] or "c", DELETED: row["n"] % 3 == 0} if given is TABLE else {DELETED: row["f"] == 1.0}
    return {name: table.get(name, row.get(name, row["f"])) for name in fields} | {TIME: time}


@pytest.mark.slow
@pytest.mark.parametrize("case", EACH_ROW)
@examples(each_run=4, with_long=60)
@given(data=st.data(), lateness=st.integers(0, 10 * SECOND), chance=st.randoms(use_true_random=False))
def test_the_rows_are_the_same(case: str, data: st.DataObject, lateness: int, chance: random.Random) -> None:
    assert_same(EACH_ROW[case], all_rows, drawn(EACH_ROW[case], data), lateness, chance)


@pytest.mark.slow
@pytest.mark.parametrize("case", LAST_ROW)
@examples(each_run=4, with_long=60)
@given(data=st.data(), lateness=st.integers(0, 10 * SECOND), chance=st.randoms(use_true_random=False))
def test_the_last_row_of_each_key_is_the_same(
    case: str, data: st.DataObject, lateness: int, chance: random.Random
) -> None:
    assert_same(LAST_ROW[case], last_rows, drawn(LAST_ROW[case], data), lateness, chance)


def assert_same(
    case: Case,
    shown: Callable[[Case, Sequence[dict[str, Any]]], Any],
    rows: list[Row],
    lateness: int,
    chance: random.Random,
) -> None:
    first, *others = (
        shown(case, runs(case, shuffled(rows, lateness, chance), lateness, lambda: chance.randint(1, 7), seed=turn))
        for turn in range(3)
    )
    for other in others:
        assert other == first


@pytest.mark.slow
@pytest.mark.parametrize("case", AT_ONCE)
@examples(each_run=4, with_long=60)
@given(data=st.data(), lateness=st.integers(0, 10 * SECOND), chance=st.randoms(use_true_random=False))
def test_rows_judged_as_they_come_are_the_same_in_any_batches(
    case: str, data: st.DataObject, lateness: int, chance: random.Random
) -> None:
    order = shuffled(drawn(AT_ONCE[case], data), lateness, chance)
    shown = last_rows if _replacing(AT_ONCE[case]) else all_rows
    alone = shown(AT_ONCE[case], runs(AT_ONCE[case], order, lateness, lambda: 1))
    for turn in range(2):
        found = runs(AT_ONCE[case], order, lateness, lambda: chance.randint(1, 7), seed=turn)
        assert shown(AT_ONCE[case], found) == alone


@pytest.mark.parametrize("case", EACH_ROW | LAST_ROW | AT_ONCE)
def test_rows_are_the_same_in_batches_of_one_row_and_around_the_bits_of_a_word(case: str) -> None:
    assert_same_in_batches(case, 66, *([size] * 66 for size in (31, 32, 33, 66)), [1] * 16 + [66])


@pytest.mark.long
@pytest.mark.parametrize("case", EACH_ROW | LAST_ROW | AT_ONCE)
def test_rows_are_the_same_in_batches_of_ten_thousand(case: str) -> None:
    assert_same_in_batches(case, 10_000, [1_025] * 10, [10_000])


def assert_same_in_batches(case: str, count: int, *divisions: Sequence[int]) -> None:
    """divisions: sizes of the batches."""
    made = (EACH_ROW | LAST_ROW | AT_ONCE)[case]
    shown = last_rows if _replacing(made) or case in LAST_ROW else all_rows
    order = shuffled(many(made, count), 2 * SECOND, random.Random(count))
    first, *others = (
        shown(made, runs(made, order, 2 * SECOND, partial(next, iter(sizes)), restores=0.0)) for sizes in divisions
    )
    for other in others:
        assert other == first


def many(case: Case, count: int) -> list[Row]:
    chance = random.Random(f"{count}")
    found: list[Row] = []
    for time in range(0, count * SECOND, SECOND):
        row = {
            "k": chance.choice((None, "a", "b", "c")),
            "f": chance.choice((None, 0.1, 1e16, -1e16, 1.0, -0.0, 1e-3, chance.random())),
            "n": chance.randint(-3, 3),
            "l": chance.choice((None, [], [1, None], [3, 1, 2])),
        }
        slot = chance.randrange(len(case[2]))
        found.append((slot, _of_slot(case, slot, row, time + chance.randrange(SECOND))))
    return found


def test_every_operator_is_tried() -> None:
    """All but other people's code and its outputs, which are chosen row by row; a join of a stream with a table goes by
    the order of two topics.
    """
    tried = {kind for kind, *_ in (EACH_ROW | LAST_ROW | AT_ONCE).values()}
    assert tried == {name for name, kind in KINDS.items() if kind.computed} - {"python", "output"}

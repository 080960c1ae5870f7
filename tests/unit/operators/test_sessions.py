"""aggregate with sessions: in any batches, any order and with restores, the sessions of rows in time are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.operator_settings import operator_settings
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.operators import Harness

FIELDS = {"k": "string?", "x": "float?", "n": "int"}
SECOND = 1_000_000
GAP = 5 * SECOND
TOTALS = {"c": "count()", "s": "sum(x)", "one": "first(n)", "newest": "last(n)", "most": "max(x)"}
Rows = list[dict[str, Any]]


def params(**more: Any) -> dict[str, Any]:
    return {"aggregate": TOTALS, "key": ["k"], "window": {"gap_s": 5}, "emit": "final", **more}


def sessions(**more: Any) -> Harness:
    return Harness("aggregate", params(**more), FIELDS)


def row(time_s: float, key: str | None = "a", number: int = 0, x: float | None = 1.0) -> dict[str, Any]:
    return {"k": key, "x": x, "n": number, "_time": round(time_s * SECOND)}


def shown(rows: Rows) -> list[tuple[Any, ...]]:
    """Key, count, and the bounds in seconds."""
    return [
        (one["k"], one["c"], one["window_start"].timestamp(), one["window_end"].timestamp())
        for one in sorted(rows, key=lambda one: (one["k"] or "", one["window_start"]))
    ]


# -- one task ---------------------------------------------------------------------------------------------------------


def test_rows_less_than_the_gap_apart_are_a_session_and_the_others_are_two() -> None:
    task = sessions()
    assert task.run([row(0), row(4.999999), row(9.999999, number=7), row(0, "b")], watermark=0) == []
    assert shown(task.end()) == [("a", 2, 0, 9.999999), ("a", 1, 9.999999, 14.999999), ("b", 1, 0, 5)]


def test_a_session_closes_when_the_watermark_reaches_its_end() -> None:
    task = sessions()
    assert task.run([row(1), row(3)], watermark=8 * SECOND - 1) == []
    task.restore()
    assert shown(task.run([], watermark=8 * SECOND)) == [("a", 2, 1, 8)]
    assert task.entries() == [], "nothing is kept of it"


@pytest.mark.parametrize("restored", [False, True])
def test_a_row_between_two_sessions_makes_them_one(restored: bool) -> None:
    task = sessions()
    task.run([row(0, number=1), row(8, number=3), row(20)], watermark=4 * SECOND)
    if restored:
        task.restore()
    assert task.run([row(4, number=2)]) == []
    found = task.run([], watermark=13 * SECOND)
    assert shown(found) == [("a", 3, 0, 13)]
    assert (found[0]["one"], found[0]["newest"]) == (1, 3)


def test_the_newest_row_of_equal_times_is_the_one_that_came_last() -> None:
    task = sessions()
    task.run([row(5, number=1)])
    task.run([row(3, number=2), row(5, number=3), row(5, number=4)])
    (found,) = task.end()
    assert (found["one"], found["newest"]) == (2, 4)


@pytest.mark.parametrize("late", ["drop", "topic"])
def test_a_row_behind_the_watermark_counts_unless_its_own_session_would_have_ended(late: str) -> None:
    task = sessions(late=late)
    task.run([row(9, "open")], watermark=10 * SECOND)
    task.run([row(5, "b"), row(5.000001, "c"), row(5.5, "open")])
    outcome = task.outcomes[-1]
    assert (outcome.late, len(outcome.refused)) == (1, int(late == "topic"))
    assert [times.len() for times in outcome.dropped] == [int(late == "drop")]
    assert shown(task.end()) == [("c", 1, 5.000001, 10.000001), ("open", 2, 5.5, 14)]


def test_without_a_key_there_is_one_line_of_sessions() -> None:
    task = sessions(key=[])
    task.run([row(0, "a"), row(3, "b"), row(9, "c")], watermark=0)
    assert [(one["c"], one["window_start"].timestamp()) for one in task.end()] == [(2, 0), (1, 9)]


def test_the_state_of_a_stream_that_continues_is_bounded() -> None:
    task = sessions()
    for second in range(0, 300, 3):
        rows = [row(second, "always"), row(second, f"{second}"), row(second, f"{second % 30}")]
        task.run(rows, watermark=(second - 6) * SECOND)
        assert len(task.entries()) <= 12


# -- laws -------------------------------------------------------------------------------------------------------------

rows = st.builds(
    row,
    st.integers(0, 60),
    st.sampled_from([None, "a", "b"]),
    st.integers(0, 9),
    st.none() | st.sampled_from([0.1, 1e16, -1e16, 1.0]),
)


def in_one_piece(some: Rows) -> list[tuple[Any, ...]]:
    """Row after row of each key, in the order of time."""
    found: list[Rows] = []
    for key in (None, "a", "b"):
        own = sorted((one for one in some if one["k"] == key), key=lambda one: one["_time"])
        for at, one in enumerate(own):
            if at == 0 or one["_time"] - own[at - 1]["_time"] >= GAP:
                found.append([])
            found[-1].append(one)
    return sorted(
        (
            part[0]["k"] or "",
            len(part),
            part[0]["_time"] / SECOND,
            (part[-1]["_time"] + GAP) / SECOND,
            max((one["x"] for one in part if one["x"] is not None), default=None),
        )
        for part in found
    )


@examples(each_run=40, with_long=200)
@given(st.lists(rows, max_size=40), st.integers(0, 20), st.randoms(use_true_random=False))
def test_sessions_of_rows_in_time_are_those_of_one_piece(some: Rows, lateness: int, chance: random.Random) -> None:
    task, found = sessions(), Rows()
    left = sorted(some, key=lambda one: one["_time"] + chance.uniform(0, lateness * SECOND))
    while left:
        count = chance.randint(1, 9)
        batch, left = left[:count], left[count:]
        newest = max(one["_time"] for one in batch)
        found += task.run(batch, watermark=max(task.watermark, newest - lateness * SECOND))
        if chance.random() < 0.3:
            task.restore()
    found += task.end()
    assert not any(outcome.late for outcome in task.outcomes)
    assert sorted((k or "", *rest, one["most"]) for one in found for k, *rest in shown([one])) == in_one_piece(some)
    assert task.entries() == []


# -- the job file -----------------------------------------------------------------------------------------------------


def test_a_session_is_final_and_has_the_bounds_of_a_window() -> None:
    stream = catalogue.describe("aggregate", params(), [Stream(FIELDS)])
    assert stream.row_key == ("k", "window_start", "window_end")
    with pytest.raises(JobRejected) as error:
        catalogue.describe("aggregate", params(emit="updates"), [Stream(FIELDS)])
    assert [(one.path, one.hint) for one in error.value.problems] == [("emit", "use final")]


def test_a_session_says_what_it_holds() -> None:
    kind, settings = catalogue.OPERATORS["aggregate"], operator_settings("aggregate", params())
    assert kind.held(settings, 70 * SECOND) == (75 * SECOND, 75 * SECOND - 1, 0)
    assert kind.horizon_us(settings) is None, "it may never end"
    assert kind.closed_us(settings, 70 * SECOND) == 65 * SECOND + 1
    assert kind.closed_us(settings, NO_WATERMARK) == NO_WATERMARK

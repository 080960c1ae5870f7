"""asof_join: each left row meets the newest right row of its key that is not later, whatever the batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.operators import Harness

LEFT, RIGHT = {"k": "string?", "x": "int"}, {"id": "string?", "x": "int"}
SECOND = 1_000_000


def harness(kind: str = "left", within_s: float | None = None, **more: Any) -> Harness:
    join = {"left": "l", "right": "r", "on": ["k = id"], "within_s": within_s, "kind": kind}
    return Harness("asof_join", {"asof_join": join, **more}, LEFT, RIGHT)


def left(key: str | None, x: int, at: int) -> dict[str, Any]:
    return {"k": key, "x": x, "_time": at * SECOND}


def right(key: str | None, x: int, at: int) -> dict[str, Any]:
    return {"id": key, "x": x, "_time": at * SECOND}


KEYS = st.sampled_from(["a", "b", None])
BATCHES = st.lists(
    st.tuples(
        st.lists(st.builds(left, KEYS, st.integers(0, 9), st.integers(0, 20)), max_size=5),
        st.lists(st.builds(right, KEYS, st.integers(0, 9), st.integers(0, 20)), max_size=5),
        st.integers(0, 8),
        st.booleans(),
    ),
    max_size=6,
)


@pytest.mark.parametrize("kind", ["left", "inner"])
@pytest.mark.parametrize("within_s", [None, 3])
@examples(each_run=10, with_long=100)
@given(batches=BATCHES)
def test_rows_are_those_of_one_piece_restored_or_not(kind: str, within_s: int | None, batches: list[Any]) -> None:
    """A right row that is behind the watermark counts for left rows that have not come out yet."""
    join, out, waiting, known, wanted, watermark, late = harness(kind, within_s), [], [], [], [], 0, 0
    for lefts, rights, step, restored in [*batches, ([], [], 99, False)]:
        if restored:
            join.restore()
        in_time = [row for row in lefts if row["_time"] >= watermark * SECOND]
        late += len(lefts) - len(in_time)
        waiting += in_time
        known += rights
        watermark += step
        out += join.run(lefts, rights, watermark=watermark * SECOND)
        due = [row for row in waiting if row["_time"] < watermark * SECOND]
        waiting = [row for row in waiting if row["_time"] >= watermark * SECOND]
        wanted += [found for row in due if (found := met(row, known, kind, within_s)) is not None]
    assert sorted(out, key=repr) == sorted(wanted, key=repr)
    assert [row["_time"] for row in out] == sorted(row["_time"] for row in out)
    assert sum(one.late for one in join.outcomes) == late
    if within_s is not None:
        assert join.entries() == []


def met(row: dict[str, Any], known: list[dict[str, Any]], kind: str, within_s: int | None) -> dict[str, Any] | None:
    times = [one["_time"] for one in known if one["id"] == row["k"] is not None and one["_time"] <= row["_time"]]
    newest = max(times, default=None)
    if newest is None or (within_s is not None and row["_time"] - newest > within_s * SECOND):
        return None if kind == "inner" else {"k": row["k"], "x": row["x"], "x_right": None, "_time": row["_time"]}
    last = [one for one in known if one["id"] == row["k"] and one["_time"] == newest][-1]
    return {"k": row["k"], "x": row["x"], "x_right": last["x"], "_time": row["_time"]}


def test_rows_of_a_key_that_no_left_row_can_meet_are_forgotten() -> None:
    join = harness()
    join.run([], [right("a", at, at) for at in range(50)], watermark=40 * SECOND)
    join.run([], [right("a", 50, 50)], watermark=45 * SECOND)
    join.run([], [right("a", 51, 51)], watermark=60 * SECOND)
    join.run([], [right("b", 1, 60)], watermark=99 * SECOND)
    assert join.run([left("a", 1, 99)], [right("a", 52, 98)], watermark=100 * SECOND) == [
        {"k": "a", "x": 1, "x_right": 52, "_time": 99 * SECOND}
    ]
    assert len(join.entries()) == 2


def test_a_late_left_row_is_refused_where_it_is_kept() -> None:
    join = harness(late="topic")
    join.run([], [], watermark=10 * SECOND)
    join.run([left("a", 1, 9)], [right("a", 1, 9)], watermark=10 * SECOND)
    assert [one.reason for one in join.outcomes[-1].refused] == ["late"]
    assert join.run([left("a", 2, 10)], [], watermark=11 * SECOND)[0]["x_right"] == 1

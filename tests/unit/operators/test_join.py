"""join: whatever the batches, restores and expiries, the pairs are those of one piece, in canonical order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.operators import Harness

LEFT = {"k": "string?", "x": "int"}
RIGHT = {"k": "string?", "x": "int", "y": "int"}
SECOND = 1_000_000


def params(kind: str, within_s: float = 5) -> dict[str, Any]:
    return {"join": {"left": "l", "right": "r", "on": ["k"], "within_s": within_s, "kind": kind}}


key = st.sampled_from([None, "a", "b"])
left_row = st.fixed_dictionaries({"k": key, "x": st.integers(0, 99), "_time": st.integers(0, 40 * SECOND)})
right_row = st.fixed_dictionaries(
    {"k": key, "x": st.integers(0, 99), "y": st.integers(0, 99), "_time": st.integers(0, 40 * SECOND)}
)
batches = st.lists(
    st.tuples(st.lists(left_row, max_size=4), st.lists(right_row, max_size=4), st.integers(0, 12), st.booleans()),
    max_size=8,
)


def pairs(left: list[dict[str, Any]], right: list[dict[str, Any]], kind: str) -> list[tuple[Any, ...]]:
    """Two rows meet if the earlier one is still held when the later one comes."""
    found = []
    for a in left:
        partners = [
            b
            for b in right
            if a["k"] == b["k"] is not None
            and abs(a["_time"] - b["_time"]) <= 5 * SECOND
            and min(a["_time"], b["_time"]) >= max(a["held"], b["held"])
        ]
        found += [(a["k"], a["x"], b["x"], b["y"], max(a["_time"], b["_time"])) for b in partners]
        if kind == "left" and not partners:
            found.append((a["k"], a["x"], None, None, a["_time"]))
    return found


@given(batches, st.sampled_from(["inner", "left"]))
def test_pairs_are_those_of_one_piece(some: list[Any], kind: str) -> None:
    harness = Harness("join", params(kind), LEFT, RIGHT)
    out, left, right = [], [], []
    watermark = given_rows = 0
    for lefts, rights, step, restore in some:
        if restore:
            harness.restore()
        held = harness.watermark - 5 * SECOND
        left += [r | {"held": held} for r in lefts if r["_time"] >= held]
        right += [r | {"held": held} for r in rights if r["_time"] >= held]
        given_rows += len(lefts) + len(rights)
        watermark += step * SECOND
        out += harness.run(lefts, rights, watermark=watermark)
    out += harness.end()
    assert sum(o.late for o in harness.outcomes) == given_rows - len(left) - len(right)
    got = [(r["k"], r["x"], r["x_right"], r["y"], r["_time"]) for r in out]
    assert sorted(got, key=repr) == sorted(pairs(left, right, kind), key=repr)


def test_a_row_behind_the_watermark_meets_what_the_join_still_holds() -> None:
    harness = Harness("join", params("left"), LEFT, RIGHT)
    harness.run([], [{"k": "a", "x": 0, "y": 1, "_time": 8 * SECOND}], watermark=10 * SECOND)
    rows = harness.run([{"k": "a", "x": 1, "_time": 6 * SECOND}, {"k": "a", "x": 2, "_time": 4 * SECOND}], [])
    assert [(r["x"], r["y"]) for r in rows] == [(1, 1)]
    assert harness.outcomes[-1].late == 1, "5 s before the watermark nothing is held any more"
    assert harness.end() == []


def test_the_output_of_a_batch_is_ordered_by_left_then_right() -> None:
    harness = Harness("join", params("inner"), LEFT, RIGHT)
    harness.run([{"k": "a", "x": 1, "_time": 0}], [{"k": "a", "x": 0, "y": 1, "_time": 0}])
    rows = harness.run([{"k": "a", "x": 2, "_time": 0}], [{"k": "a", "x": 0, "y": y, "_time": 0} for y in (2, 3)])
    assert [(r["x"], r["y"]) for r in rows] == [(1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]


def test_what_can_match_no_more_leaves_the_state() -> None:
    harness = Harness("join", params("inner"), LEFT, RIGHT)
    harness.run([{"k": "a", "x": 1, "_time": SECOND}], [], watermark=SECOND)
    harness.run([], [], watermark=100 * SECOND)
    harness.restore()
    assert list(harness._image.scan(b"")) == []


def test_many_rows_of_many_keys_are_found_in_merged_runs() -> None:
    harness = Harness("join", params("inner", within_s=10**6), LEFT, RIGHT)
    for batch in range(40):
        harness.run([], [{"k": f"{i % 7}", "x": 0, "y": batch * 10 + i, "_time": 0} for i in range(10)])
    rows = harness.run([{"k": "3", "x": 1, "_time": 0}], [])
    assert [r["y"] for r in rows] == [y for y in range(400) if y % 10 % 7 == 3]

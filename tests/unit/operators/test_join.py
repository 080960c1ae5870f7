"""join: whatever the batches, restores and expiries, the rows are those of one piece, in canonical order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.operator_settings import operator_settings
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.examples import examples
from tests.support.operators import Harness

LEFT = {"k": "string?", "x": "int"}
RIGHT = {"k": "string?", "x": "int", "y": "int"}
SECOND = 1_000_000
Rows = list[dict[str, Any]]


def params(kind: str, within_s: float = 5, between: list[float] | None = None) -> dict[str, Any]:
    times = {"within_s": within_s} if between is None else {"between": between}
    return {"join": {"left": "l", "right": "r", "on": ["k"], "kind": kind, **times}}


KINDS = ["inner", "left", "right", "full", "semi", "anti"]
key = st.sampled_from([None, "a", "b"])
left_row = st.fixed_dictionaries({"k": key, "x": st.integers(0, 99), "_time": st.integers(0, 40 * SECOND)})
right_row = st.fixed_dictionaries(
    {"k": key, "x": st.integers(0, 99), "y": st.integers(0, 99), "_time": st.integers(0, 40 * SECOND)}
)
batches = st.lists(
    st.tuples(st.lists(left_row, max_size=4), st.lists(right_row, max_size=4), st.integers(0, 12), st.booleans()),
    max_size=8,
)


def pairs(left: Rows, right: Rows, kind: str, least: int, most: int) -> list[tuple[Any, ...]]:
    """Two rows meet if the earlier one is still held when the later one comes."""
    found, met = [], set[int]()
    for a in left:
        partners = [
            b
            for b in right
            if a["k"] == b["k"] is not None
            and least <= b["_time"] - a["_time"] <= most
            and a["_time"] >= b["open"][0]
            and b["_time"] >= a["open"][1]
        ]
        met |= {id(b) for b in partners}
        if kind in ("inner", "left", "right", "full"):
            found += [(a["k"], a["x"], b["x"], b["y"], max(a["_time"], b["_time"])) for b in partners]
        if (kind in ("left", "full", "anti") and not partners) or (kind == "semi" and partners):
            found.append((a["k"], a["x"], None, None, a["_time"]))
    alone = [b for b in right if id(b) not in met] if kind in ("right", "full") else []
    return found + [(b["k"], None, b["x"], b["y"], b["_time"]) for b in alone]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("between", [[-5, 5], [-2, 7], [3, 8], [-9, -4]])
@examples(each_run=10, with_long=100)
@given(some=batches)
def test_rows_are_those_of_one_piece(kind: str, between: list[float], some: list[Any]) -> None:
    harness = Harness("join", params(kind, between=between), LEFT, RIGHT)
    least, most = (int(one) * SECOND for one in between)
    out, left, right = [], Rows(), Rows()
    watermark = given_rows = 0
    for lefts, rights, step, restore in some:
        if restore:
            harness.restore()
        since = harness.watermark - max(most, 0), harness.watermark - max(-least, 0)
        left += [r | {"open": since} for r in lefts if r["_time"] >= since[0]]
        right += [r | {"open": since} for r in rights if r["_time"] >= since[1]]
        given_rows += len(lefts) + len(rights)
        watermark += step * SECOND
        out += harness.run(lefts, rights, watermark=watermark)
    out += harness.end()
    assert sum(o.late for o in harness.outcomes) == given_rows - len(left) - len(right)
    got = [(r["k"], r["x"], r.get("x_right"), r.get("y"), r["_time"]) for r in out]
    assert sorted(got, key=repr) == sorted(pairs(left, right, kind, least, most), key=repr)
    assert harness.entries() == []


def test_a_left_row_comes_out_when_it_first_meets_one_and_never_again() -> None:
    harness, right = Harness("join", params("semi"), LEFT, RIGHT), {"k": "a", "x": 0, "y": 1}
    assert harness.run([{"k": "a", "x": 1, "_time": 0}], []) == []
    assert harness.run([], [right | {"_time": 0}, right | {"_time": 1}]) == [{"k": "a", "x": 1, "_time": 0}]
    harness.restore()
    assert harness.run([], [right | {"_time": 2}]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_two_names_meet_as_those_of_one(kind: str) -> None:
    """The output has the left name; a right column that has the name of a left key gets another."""
    named = Harness("join", params(kind), LEFT, RIGHT)
    given = params(kind)
    given["join"] |= {"on": ["l.k = r.id"]}
    other = Harness("join", given, LEFT, {"id": "string?", "x": "int", "y": "int", "k": "int"})
    for lefts, rights in (("ab", "b"), ("", "cb"), ("c", "a")):
        left = [{"k": k, "x": at, "_time": at * SECOND} for at, k in enumerate(lefts)]
        right = [{"k": k, "x": 2, "y": 3, "_time": at * SECOND} for at, k in enumerate(rights)]
        renamed = [{"id": row["k"], **row, "k": 7} for row in right]
        found = other.run(left, renamed)
        for row in found:
            assert kind in ("semi", "anti") or row.pop("k_right") in (7, None)
        assert found == named.run(left, right)
    ended = other.end()
    assert [row["k"] for row in ended] == [row["k"] for row in named.end()]


def test_columns_of_a_side_that_may_be_absent_may_be_null() -> None:
    def fields(kind: str) -> dict[str, str]:
        sides = [Stream({"k": "string", "x": "int"}), Stream({"k": "string", "y": "int"})]
        return catalogue.describe("join", params(kind), sides).fields

    assert fields("right") == {"k": "string", "x": "int?", "y": "int"}
    assert fields("full") == {"k": "string", "x": "int?", "y": "int?"}
    assert fields("semi") == fields("anti") == {"k": "string", "x": "int"}


@pytest.mark.parametrize(
    ("kind", "between", "held", "closed"),
    [
        ("inner", [-5, 60], (60_000_001, 0, 0), (40, 95)),
        ("left", [-5, 60], (60_000_001, 0, 60 * SECOND), (40, 95)),
        ("right", [-5, 60], (60_000_001, 0, 5 * SECOND), (40, 95)),
        ("full", [3, 8], (8_000_001, 0, 8 * SECOND), (92, 100)),
    ],
)
def test_a_join_says_what_is_late_on_each_side_and_what_it_holds(
    kind: str, between: list[float], held: tuple[int, int, int], closed: tuple[int, int]
) -> None:
    asked, settings = catalogue.OPERATORS["join"], operator_settings("join", params(kind, between=between))
    assert asked.held(settings, 0) == held
    assert tuple(asked.closed_us(settings, 100 * SECOND, slot) // SECOND for slot in (0, 1)) == closed


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


def test_rows_that_can_match_no_more_leave_the_state() -> None:
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

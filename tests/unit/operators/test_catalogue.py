"""The catalogue: what operators make of their inputs, what is wrong with them, and that each can be warmed up."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.operators import plan

ITEMS = {"into": None, "position": None, "keep_empty": False}
NESTED = {"k": "string", "n": "int", "l": "list<int>", "t": "timestamp"}
WINDOW = {"size_s": 10, "slide_s": 5}
COUNT = {"aggregate": {"n": "count()"}, "key": ["k"], "window": None, "emit": "updates"}
JOIN = {"left": "l", "right": "r", "on": ["k"], "within_s": 1, "kind": "inner"}


def problems(kind: str, params: dict[str, Any], *inputs: dict[str, str]) -> list[str]:
    with pytest.raises(JobRejected) as rejected:
        catalogue.describe(kind, params, [Stream(fields) for fields in inputs])
    return [str(problem) for problem in rejected.value.problems]


def test_an_aggregate_s_rows_are_identified_by_key_and_window() -> None:
    running = catalogue.describe("aggregate", COUNT, [Stream(NESTED)])
    assert running == Stream({"k": "string", "n": "int"}, ("k",), False)
    windowed = catalogue.describe("aggregate", {**COUNT, "window": WINDOW, "emit": "final"}, [Stream(NESTED)])
    assert windowed.fields == {"k": "string", "n": "int", "window_start": "timestamp", "window_end": "timestamp"}
    assert windowed.row_key == ("k", "window_start", "window_end")
    assert windowed.windowed
    assert not catalogue.describe("aggregate", {**COUNT, "window": WINDOW}, [Stream(NESTED)]).windowed


def test_a_join_s_columns_stand_side_by_side() -> None:
    right = {"k": "string", "n": "int", "m": "float"}
    inner = catalogue.describe("join", {"join": JOIN}, [Stream(NESTED), Stream(right)])
    assert inner.fields == {**NESTED, "n_right": "int", "m": "float"}
    left = catalogue.describe("join", {"join": {**JOIN, "kind": "left"}}, [Stream(NESTED), Stream(right)])
    assert left.fields == {**NESTED, "n_right": "int?", "m": "float?"}
    assert left.row_key == ()


def test_a_top_adds_the_rank() -> None:
    described = catalogue.describe("top", {"top": {"k": 3, "by": "n"}}, [Stream(NESTED, ("k",))])
    assert described == Stream({**NESTED, "rank": "int"}, ("rank",), False)


@pytest.mark.parametrize(
    ("kind", "params", "inputs", "message"),
    [
        ("aggregate", {**COUNT, "key": ["l"]}, [NESTED], "key[0]: 'l' is a list<int>, which is no key"),
        ("aggregate", {**COUNT, "aggregate": {"x": "last(l)"}}, [NESTED], "aggregate.x: last cannot hold a list"),
        ("aggregate", {**COUNT, "aggregate": {"x": "max(l)"}}, [NESTED], "needs values that have an order"),
        ("join", {"join": {**JOIN, "on": ["l"]}}, [NESTED, NESTED], "join.on[0]: 'l' is a list<int>"),
        ("join", {"join": {**JOIN, "on": ["x"]}}, [NESTED, NESTED], "join.on[0]: there is no column 'x'"),
        ("join", {"join": JOIN}, [{"k": "int"}, {"k": "string"}], "'k' is int on the left and string on the right"),
        (
            "join",
            {"join": JOIN},
            [{"k": "int", "n": "int", "n_right": "int"}, {"k": "int", "n": "int"}],
            "join.right: its column 'n' would be a second 'n_right'",
        ),
        ("unnest", {"unnest": {"column": "n", **ITEMS}}, [NESTED], "unnest.column: 'n' is an int"),
        ("unnest", {"unnest": {"column": "l", **ITEMS, "into": "n"}}, [NESTED], "two columns 'n'"),
        ("top", {"top": {"k": 3, "by": "m"}}, [NESTED], "top.by: there is no column 'm'"),
        ("top", {"top": {"k": 3, "by": "l"}}, [NESTED], "top.by: 'l' is a list<int>"),
        ("top", {"top": {"k": 3, "by": "n"}}, [{"n": "int", "rank": "int"}], "a column 'rank' already"),
        ("python", {"python": "no_such_module:X", "key": [], "params": {}}, [NESTED], "python: module no_such_module"),
    ],
)
def test_a_mistake_is_said_with_path_and_reason(
    kind: str, params: dict[str, Any], inputs: list[dict[str, str]], message: str
) -> None:
    assert message in "; ".join(problems(kind, params, *inputs))


@pytest.mark.parametrize(
    ("kind", "params", "inputs"),
    [
        ("filter", {"filter": "n > 1"}, 1),
        ("select", {"select": ["k", "n / 2 AS h"]}, 1),
        ("aggregate", COUNT, 1),
        ("aggregate", {**COUNT, "key": [], "emit": "final"}, 1),
        ("aggregate", {**COUNT, "window": WINDOW, "emit": "final"}, 1),
        ("join", {"join": {**JOIN, "kind": "left"}}, 2),
        ("asof_join", {"asof_join": {**JOIN, "kind": "left"}}, 2),
        ("top", {"top": {"k": 3, "by": "n"}}, 1),
        ("union", {"union": ["l", "r"]}, 2),
        ("unnest", {"unnest": {"column": "l", "into": "item", "position": "at", "keep_empty": True}}, 1),
        ("dedup", {"dedup": {"within_s": 1}, "key": ["k"]}, 1),
    ],
)
def test_every_operator_can_be_warmed_up(kind: str, params: dict[str, Any], inputs: int) -> None:
    catalogue.warm_up(plan(kind, params, [Stream(NESTED)] * inputs), [NESTED] * inputs)

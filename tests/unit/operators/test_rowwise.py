"""filter, select and union: row by row, in order, and one bad row never takes its companions with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs.maps import entries
from holdfast.services.kernel.errors import InvalidRecord, JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.operators import Harness

FIELDS = {"a": "int?", "b": "int?", "s": "string?"}


def rows(*values: tuple[int | None, int | None, str | None]) -> list[dict[str, Any]]:
    return [{"a": a, "b": b, "s": s, "_time": index} for index, (a, b, s) in enumerate(values)]


def test_a_filter_keeps_what_is_true_and_drops_null() -> None:
    harness = Harness("filter", {"filter": "a > 1"}, FIELDS)
    assert [r["a"] for r in harness.run(rows((1, 0, ""), (2, 0, ""), (None, 0, ""), (3, 0, "")))] == [2, 3]
    assert harness.run([]) == []


def test_a_select_computes_from_the_old_columns_and_keeps_the_time() -> None:
    harness = Harness("select", {"select": ["b AS a", "a + b AS b", "a / b AS q", "'x' AS c", "s"]}, FIELDS)
    assert harness.run(rows((1, 2, "u"), (3, 0, None))) == [
        {"a": 2, "b": 3, "q": 0.5, "c": "x", "s": "u", "_time": 0},
        {"a": 0, "b": 3, "q": None, "c": "x", "s": None, "_time": 1},
    ]
    assert harness.plan.fields == {"a": "int?", "b": "int?", "q": "float?", "c": "string?", "s": "string?"}


def test_a_select_without_columns_still_gives_a_row_for_each() -> None:
    assert len(Harness("select", {"select": ["1 AS one"]}, FIELDS).run(rows((1, 1, ""), (2, 2, "")))) == 2


def test_a_union_concatenates_in_slot_order_and_finds_columns_by_name() -> None:
    other = {"s": "string", "a": "int", "b": "int?"}
    harness = Harness("union", {"union": ["x", "y"]}, FIELDS, other)
    got = harness.run(rows((1, 1, "l")), [{"s": "r", "a": 2, "b": None, "_time": 5}])
    assert [(r["a"], r["s"], r["_time"]) for r in got] == [(1, "l", 0), (2, "r", 5)]
    assert harness.run([], []) == []
    assert harness.run([], [{"s": "r", "a": 2, "b": None, "_time": 5}])[0]["s"] == "r"


REGEX = {"filter": "s ~ 'a' OR REGEXP_LIKE('aa', s)"}
"""A text that is no regular expression makes polars raise."""
texts = st.lists(st.sampled_from(["a", "b", "(", "a(", "", None]), max_size=10)


@given(texts)
def test_rows_at_fault_are_refused_and_the_others_stay(some: list[str | None]) -> None:
    harness = Harness("filter", REGEX, FIELDS)
    got = harness.run(rows(*[(index, 0, text) for index, text in enumerate(some)]))
    alone = [Harness("filter", REGEX, FIELDS) for _ in some]
    expected = [
        row
        for harness, row in zip(alone, rows(*[(i, 0, t) for i, t in enumerate(some)]), strict=True)
        for row in harness.run([{**row, "_time": 0}])
    ]
    assert [r["a"] for r in got] == [r["a"] for r in expected]
    refused = [(one.reason, one.row, at) for at, each in enumerate(alone) for one in each.outcomes[-1].refused]
    assert [(one.reason, one.row, one.place) for one in harness.outcomes[-1].refused] == refused
    assert len(refused) == sum(text is not None and "(" in text for text in some)


def test_a_refused_row_says_what_it_was_and_why() -> None:
    harness = Harness("filter", REGEX, FIELDS)
    harness.run(rows((7, None, "(")))
    (refused,) = harness.outcomes[-1].refused
    assert refused.row == '{"a":7,"b":null,"s":"("}'
    assert "regex" in refused.reason


def test_the_operator_stops_if_nothing_may_be_refused() -> None:
    harness = Harness("filter", {**REGEX, "on_error": "fail"}, FIELDS)
    with pytest.raises(InvalidRecord):
        harness.run(rows((1, 1, "(")))


def problems(kind: str, params: dict[str, Any], *inputs: dict[str, str]) -> dict[str, str]:
    with pytest.raises(JobRejected) as rejected:
        catalogue.describe(kind, params, [Stream(fields) for fields in inputs])
    return {problem.path: str(problem) for problem in rejected.value.problems}


def test_every_problem_of_an_operator_is_told_at_once() -> None:
    found = problems("select", {"select": ["a", "x", "a + 1", "b AS a", "a AS _b", "SUM(a) AS n", "s"]}, FIELDS)
    assert list(found) == [f"select[{index}]" for index in (1, 2, 3, 4, 5)]
    assert "there is no column 'x'" in found["select[1]"]
    assert "has no name: write 'a + 1 AS name'" in found["select[2]"]
    assert "two columns 'a'" in found["select[3]"]
    assert "begins with an underscore" in found["select[4]"]
    assert "use an aggregate" in found["select[5]"]


def test_a_filter_is_a_condition() -> None:
    assert "not true or false" in problems("filter", {"filter": "a + 1"}, FIELDS)["filter"]


def test_streams_of_a_union_have_the_same_columns() -> None:
    found = problems("union", {"union": ["x", "y"]}, FIELDS, {"a": "string", "b": "int?", "t": "date"})
    assert list(found) == ["union[1]"]
    described = catalogue.describe("union", {"union": ["x", "y"]}, [Stream({"a": "int"}), Stream({"a": "int?"})])
    assert described == Stream({"a": "int?"})


def test_a_row_key_stays_with_its_columns() -> None:
    stream = Stream({"k": "string", "n": "int"}, ("k",), False)
    assert catalogue.describe("filter", {"filter": "n > 1"}, [stream]) == stream
    assert catalogue.describe("select", {"select": ["k", "n + 1 AS m"]}, [stream]).row_key == ("k",)
    assert catalogue.describe("select", {"select": ["n"]}, [stream]).row_key == ()


STARRED = {"a": "int", "b": "float?", "PM2.5": "float", "s": "string?"}


@pytest.mark.parametrize(
    ("items", "fields"),
    [
        (["*"], STARRED),
        (['* EXCEPT (b, "PM2.5")'], {"a": "int", "s": "string?"}),
        (["* exclude a", "a AS id"], {"b": "float?", "PM2.5": "float", "s": "string?", "id": "int?"}),
        (['* EXCEPT (s) REPLACE (b / 2 AS b, LEFT(s, 1) AS "PM2.5")'], {"a": "int", "b": "float?", "PM2.5": "string?"}),
        (['"PM2.5"', 'a AS "a b"'], {"PM2.5": "float", "a b": "int?"}),
    ],
)
def test_a_star_stands_for_columns_and_a_name_in_quotes_is_kept(items: list[str], fields: dict[str, str]) -> None:
    harness = Harness("select", {"select": items, "on_error": "dead-letter"}, Stream(STARRED, ("a", "s")))
    assert harness.plan.fields == fields
    assert harness.plan.row_key == (("a", "s") if {"a", "s"} <= fields.keys() else ())
    row = {"a": 1, "b": 3.0, "PM2.5": 4.5, "s": "xy", "_time": 1}
    found = harness.run([row])[0]
    values = {**row, "id": 1, "a b": 1} | ({"b": 1.5, "PM2.5": "x"} if "REPLACE" in items[0] else {})
    assert found == {name: values[name] for name in (*fields, "_time")}


def test_a_star_that_cannot_be_read_or_repeats_a_column_is_refused() -> None:
    items = ["*", "a + 1 AS a", "* EXCEPT (x)", "* WITHOUT (a)", "* REPLACE (1 AS y)"]
    found = problems("select", {"select": items}, STARRED)
    assert "write `* REPLACE (a + 1 AS a)`" in found["select[1]"]
    assert "there is no column 'x'" in found["select[2]"]
    assert "write `* EXCEPT (a, b)`" in found["select[3]"]
    assert "there is no column 'y'" in found["select[4]"]


ITEMS = {"a": "int", "l": "list<struct<x: int, y: string?>>?"}
LISTS: list[dict[str, Any]] = [
    {"a": 1, "l": [{"x": 1, "y": "p"}, {"x": 2, "y": None}], "_time": 5},
    {"a": 2, "l": [], "_time": 4},
    {"a": 3, "l": None, "_time": 3},
]


def test_each_item_of_a_list_is_a_row_with_the_time_and_the_other_columns_of_its_row() -> None:
    wanted = {"column": "l", "into": "item", "position": "at", "keep_empty": False}
    harness = Harness("unnest", {"unnest": wanted}, Stream(ITEMS, ("a",)))
    assert harness.plan.fields == {"a": "int", "item": "struct<x: int, y: string?>", "at": "int"}
    assert harness.plan.row_key == ()
    assert harness.run(LISTS) == [
        {"a": 1, "item": {"x": 1, "y": "p"}, "at": 1, "_time": 5},
        {"a": 1, "item": {"x": 2, "y": None}, "at": 2, "_time": 5},
    ]
    assert harness.run(LISTS[1:]) == []


def test_rows_without_items_may_stay() -> None:
    wanted = {"column": "l", "into": None, "position": "at", "keep_empty": True}
    harness = Harness("unnest", {"unnest": wanted}, ITEMS)
    assert harness.plan.fields == {"a": "int", "l": "struct<x: int, y: string?>?", "at": "int?"}
    assert [(row["a"], row["at"]) for row in harness.run(LISTS)] == [(1, 1), (1, 2), (2, None), (3, None)]


def test_each_entry_of_a_map_is_a_row_with_its_key_and_value() -> None:
    wanted = {"column": "m", "into": "entry", "position": "at", "keep_empty": True}
    harness = Harness("unnest", {"unnest": wanted}, {"a": "int", "m": "map<string, int?>?"})
    assert harness.plan.fields == {"a": "int", "entry": "struct<key: string, value: int?>?", "at": "int?"}
    given = [{"a": a, "m": None if m is None else entries(m), "_time": 5} for a, m in enumerate(MAPS)]
    assert [(row["a"], row["entry"], row["at"]) for row in harness.run(given)] == [
        (0, {"key": "", "value": None}, 1),
        (0, {"key": "b", "value": 2}, 2),
        (1, None, None),
        (2, None, None),
    ]
    said = problems("unnest", {"unnest": wanted | {"column": "a"}}, {"a": "int"})
    assert "not a list or a map" in said["unnest.column"]


MAPS: list[Any] = [{"b": 2, "": None}, {}, None]


@pytest.mark.parametrize(
    ("kind", "params", "path"),
    [
        ("aggregate", {"aggregate": {"n": "count()"}, "key": ["m"], "emit": "updates"}, "key[0]"),
        ("aggregate", {"aggregate": {"n": "max(m)"}, "key": ["a"], "emit": "updates"}, "aggregate.n"),
        ("aggregate", {"aggregate": {"n": "count_distinct(m)"}, "key": ["a"], "emit": "updates"}, "aggregate.n"),
        ("top", {"top": {"k": 1, "by": "m"}}, "top.by"),
        ("dedup", {"dedup": {"within_s": 1}, "key": ["m"]}, "key[0]"),
    ],
)
def test_a_map_is_no_key_and_has_no_order(kind: str, params: dict[str, Any], path: str) -> None:
    said = problems(kind, params, {"a": "int", "m": "map<string, int>"})[path]
    assert "take out what distinguishes rows" in said or "take one value, `MAP_GET(m, 'key')`" in said


def test_a_union_fills_what_a_stream_lacks() -> None:
    streams = [Stream({"a": "int", "s": "string"}), Stream({"b": "int", "a": "int?"})]
    assert (
        "fill_missing: true" in problems("union", {"union": ["l", "r"]}, *(one.fields for one in streams))["union[1]"]
    )
    harness = Harness("union", {"union": ["l", "r"], "fill_missing": True}, *streams)
    assert harness.plan.fields == {"a": "int?", "s": "string?", "b": "int?"}
    assert harness.run([{"a": 1, "s": "x", "_time": 1}], [{"b": 2, "a": None, "_time": 2}]) == [
        {"a": 1, "s": "x", "b": None, "_time": 1},
        {"a": None, "s": None, "b": 2, "_time": 2},
    ]

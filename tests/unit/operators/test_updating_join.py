"""A join whose rows replace each other: tables with tables, totals with tables, and what a change corrects."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.services.kernel.codecs.fields import DELETED, TIME
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.operators import Harness, without_time

ORDERS = Stream({"id": "int", "customer": "string?", "price": "float", DELETED: "bool?"}, ("id",))
CUSTOMERS = Stream({"customer": "string", "city": "string?", DELETED: "bool?"}, ("customer",))
TOTALS = Stream({"customer": "string?", "n": "int"}, ("customer",))


def harness(kind: str = "inner", left: Stream = ORDERS, on: str = "customer", **more: Any) -> Harness:
    join = {"left": "o", "right": "c", "on": [on], "kind": kind, "within_s": None, "emit": "updates"}
    return Harness("join", {"join": join, **more}, left, CUSTOMERS)


def order(id: int, customer: str | None, price: float = 1.0, at: int = 0) -> dict[str, Any]:
    return {"id": id, "customer": customer, "price": price, TIME: at}


def city(customer: str, name: str | None, at: int = 0) -> dict[str, Any]:
    return {"customer": customer, "city": name, TIME: at}


def gone(**key: Any) -> dict[str, Any]:
    return {**key, DELETED: True, TIME: 0}


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(one.values()) for one in without_time(rows)]


def test_a_change_of_either_table_sends_the_rows_that_it_changes() -> None:
    join = harness()
    assert join.plan.row_key == ("id",)
    assert list(join.plan.fields) == ["id", "customer", "price", "city", "op"]
    assert shown(join.run([order(1, "a"), order(2, "a"), order(3, "b"), order(4, None)], [city("a", "Aachen")])) == [
        (1, "a", 1.0, "Aachen", "u"),
        (2, "a", 1.0, "Aachen", "u"),
    ]
    join.restore()
    assert shown(join.run([], [city("a", "Aachen"), city("b", "Bonn")])) == [(3, "b", 1.0, "Bonn", "u")]
    assert shown(join.run([], [city("a", "Ulm")])) == [(1, "a", 1.0, "Ulm", "u"), (2, "a", 1.0, "Ulm", "u")]
    assert shown(join.run([order(1, "b"), order(2, "c")], [])) == [
        (1, "b", 1.0, "Bonn", "u"),
        (2, "a", 1.0, "Ulm", "d"),
    ]
    join.restore()
    assert shown(join.run([gone(id=3)], [gone(customer="a")])) == [(3, "b", 1.0, "Bonn", "d")]
    assert shown(join.run([], [gone(customer="b"), city("a", "Ulm")])) == [(1, "b", 1.0, "Bonn", "d")]
    assert join.run([], [city("a", "Bern")]) == [], "no order names a any more"


def test_a_left_join_keeps_its_rows_and_corrects_what_stands_beside_them() -> None:
    join = harness("left")
    assert shown(join.run([order(1, "a"), order(2, None)], [])) == [(1, "a", 1.0, None, "u"), (2, None, 1.0, None, "u")]
    assert shown(join.run([], [city("a", "Ulm")])) == [(1, "a", 1.0, "Ulm", "u")]
    assert shown(join.run([], [gone(customer="a")])) == [(1, "a", 1.0, None, "u")]
    assert shown(join.run([gone(id=1)], [])) == [(1, "a", 1.0, None, "d")]


@pytest.mark.parametrize(("kind", "there"), [("semi", "u"), ("anti", "d")])
def test_semi_and_anti_say_whether_the_other_side_has_a_row(kind: str, there: str) -> None:
    join, absent = harness(kind), {"u": "d", "d": "u"}[there]
    first = shown(join.run([order(1, "a")], []))
    assert first == ([] if kind == "semi" else [(1, "a", 1.0, "u")])
    assert shown(join.run([], [city("a", "Ulm")])) == [(1, "a", 1.0, there)]
    assert join.run([], [city("a", "Bern")]) == [], "no column of it is in the result"
    assert shown(join.run([], [gone(customer="a")])) == [(1, "a", 1.0, absent)]


def test_a_full_join_on_the_key_of_both_sides_has_the_rows_of_either() -> None:
    join = harness("full", TOTALS)
    assert join.plan.fields == {"customer": "string?", "n": "int?", "city": "string?", "op": "string"}
    assert shown(join.run([], [city("a", "Ulm")])) == [("a", None, "Ulm", "u")]
    assert shown(join.run([{"customer": "a", "n": 1, TIME: 0}, {"customer": None, "n": 2, TIME: 0}], [])) == [
        ("a", 1, "Ulm", "u"),
        (None, 2, None, "u"),
    ]
    assert shown(join.run([], [gone(customer="a")])) == [("a", 1, None, "u")]


def test_the_rows_of_a_join_are_the_left_side_of_another_one() -> None:
    left = Stream({"id": "int", "customer": "string?", "op": "string"}, ("id",), changes=True)
    join = harness("left", left, left_changes=True)
    row = {"id": 1, "customer": "a", TIME: 0}
    assert shown(join.run([{**row, "op": "u"}], [city("a", "Ulm")])) == [(1, "a", "Ulm", "u")]
    assert shown(join.run([{**row, "op": "d"}], [])) == [(1, "a", "Ulm", "d")]


def test_rows_of_two_tables_promise_no_time_and_those_of_a_total_are_never_late() -> None:
    tables, totals = harness(), harness("left", TOTALS)
    tables.run([order(1, "a")], [city("a", "Ulm")], watermark=LOADED_WATERMARK)
    assert tables.outcomes[-1].watermark == NO_WATERMARK
    tables.run([], [], watermark=END_WATERMARK)
    assert tables.outcomes[-1].watermark is None
    totals.run([{"customer": "a", "n": 1, TIME: 90}], [], watermark=80)
    (row,) = totals.run([], [city("a", "Ulm", 7)], watermark=80)
    assert row[TIME] == 80, "a change of the table is no older than what was promised"


@pytest.mark.parametrize(
    ("kind", "left", "message"),
    [
        ("inner", Stream({"customer": "string", "n": "int"}), "its rows have no key by which a corrected row"),
        ("full", ORDERS, "full gives rows of the right side alone, which have no id"),
        ("left", Stream({"customer": "string", "op": "int"}, ("customer",)), "there are two columns 'op'"),
    ],
)
def test_rows_that_could_not_be_corrected_are_refused(kind: str, left: Stream, message: str) -> None:
    with pytest.raises(JobRejected, match=message):
        harness(kind, left)


def test_rows_that_may_be_gone_are_not_ranked() -> None:
    joined = Stream({"id": "int", "price": "float", "op": "string"}, ("id",), changes=True)
    with pytest.raises(JobRejected, match="rows of its input that are gone come once more, with op d"):
        Harness("top", {"top": {"k": 3, "by": "price", "order": "descending"}, "key": []}, joined)

"""join with a table: the row of a key as of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.cuts import END_WATERMARK, LOADED_WATERMARK, NO_WATERMARK
from holdfast.services.kernel.codecs.fields import DELETED, TIME
from holdfast.services.kernel.operators.catalogue import Stream
from tests.support.operators import Harness, without_time

ORDERS = {"customer": "string?", "amount": "int"}
CUSTOMERS = Stream({"customer": "string", "city": "string?", "amount": "float", DELETED: "bool?"}, ("customer",))


def harness(kind: str = "inner", on: list[str] | None = None, left: Any = ORDERS, right: Any = CUSTOMERS) -> Harness:
    join = {"left": "o", "right": "c", "on": on or ["customer"], "kind": kind, "within_s": None}
    return Harness("join", {"join": join}, left, right)


def order(customer: str | None, amount: int, at: int = 0) -> dict[str, Any]:
    return {"customer": customer, "amount": amount, TIME: at}


def row(customer: str, city: str | None) -> dict[str, Any]:
    return {"customer": customer, "city": city, "amount": 0.5, TIME: 0}


def deletion(customer: str) -> dict[str, Any]:
    return {"customer": customer, DELETED: True, TIME: 0}


def cities(rows: list[dict[str, Any]]) -> list[tuple[str | None, int, str | None]]:
    return [(one["customer"], one["amount"], one["city"]) for one in rows]


def test_an_inner_join_has_each_left_row_whose_key_has_a_row_in_the_order_they_came() -> None:
    join = harness()
    assert join.run([], [row("b", "Bonn"), row("a", "Aachen")]) == []
    got = join.run([order("a", 1, 7), order("c", 2, 8), order("b", 3, 9), order("a", 4, 5)], [])
    assert cities(got) == [("a", 1, "Aachen"), ("b", 3, "Bonn"), ("a", 4, "Aachen")]
    assert [one[TIME] for one in got] == [7, 9, 5], "the time is that of the left row"
    assert list(got[0]) == ["customer", "amount", "city", "amount_right", TIME]


def test_the_key_of_a_table_may_have_another_name_than_the_column_that_looks_it_up() -> None:
    buyers = {"amount": "int", "buyer": "string?"}
    join = harness("left", ["buyer = customer"], buyers)
    join.run([], [row("b", "Bonn")])
    join.restore()
    got = join.run([{"amount": 1, "buyer": one, TIME: 0} for one in ("b", "c", None)], [])
    assert [(one["buyer"], one["city"]) for one in got] == [("b", "Bonn"), ("c", None), (None, None)]
    assert "customer" not in got[0]


def test_a_left_join_has_nulls_where_there_is_no_row() -> None:
    join = harness("left")
    got = join.run([order("a", 1), order("c", 2)], [row("a", None)])
    assert cities(got) == [("a", 1, None), ("c", 2, None)]
    assert [one["amount_right"] for one in got] == [0.5, None]
    assert cities(join.run([order("c", 3)], [])) == [("c", 3, None)], "with no row of the table found at all"


def test_left_rows_that_are_in_the_table_or_that_are_not_come_as_they_are() -> None:
    for kind, expected in (("semi", ["a", "a"]), ("anti", [None, "c"])):
        join = harness(kind)
        rows = [order("a", 1), order(None, 2), order("c", 3), order("a", 4)]
        found = join.run(rows, [row("a", None), row("b", "Bonn")])
        assert [one["customer"] for one in found] == expected
        assert list(found[0]) == ["customer", "amount", TIME]


@pytest.mark.parametrize(("kind", "expected"), [("inner", []), ("left", [(None, 1, None)])])
def test_a_null_key_meets_nothing_not_even_a_null_key(kind: str, expected: list[Any]) -> None:
    join = harness(kind, right=Stream({**CUSTOMERS.fields, "customer": "string?"}, ("customer",)))
    assert cities(join.run([order(None, 1)], [{**row("", "Nowhere"), "customer": None}])) == expected


def test_a_change_of_the_same_batch_counts_first_and_the_last_one_of_a_key_wins() -> None:
    join = harness()
    join.run([], [row("a", "old")])
    assert cities(join.run([order("a", 1)], [row("a", "newer"), row("b", "x"), row("a", "newest")])) == [
        ("a", 1, "newest")
    ]


def test_a_later_change_sends_nothing_again() -> None:
    join = harness("left")
    join.run([order("a", 1), order("b", 2)], [row("a", "Aachen")])
    assert join.run([], [row("a", "Bonn"), row("b", "Berlin")]) == []


def test_a_deleted_row_is_met_no_more_until_it_comes_again() -> None:
    join = harness()
    join.run([], [row("a", "Aachen"), row("b", "Bonn")])
    assert join.run([order("a", 1)], [deletion("a"), deletion("never there")]) == []
    assert cities(join.run([order("b", 2)], [deletion("b"), row("b", "Berlin")])) == [("b", 2, "Berlin")]
    assert join.run([order("b", 3)], [row("b", "Basel"), deletion("b")]) == []
    assert cities(join.run([order("a", 4)], [row("a", "Ahlen")])) == [("a", 4, "Ahlen")]


def test_the_table_is_what_it_was_after_a_restore_before_every_batch() -> None:
    def story(before: Callable[[Harness], None]) -> list[Any]:
        join = harness("left")
        sent = []
        for step in range(12):
            before(join)
            changes = [
                row(f"c{step % 5}", f"city {step}"),
                *([deletion(f"c{(step + 2) % 5}")] if step % 3 == 0 else []),
            ]
            sent.append(cities(join.run([order(f"c{key}", step) for key in range(5)], changes)))
        return sent

    assert story(lambda _: None) == story(Harness.restore)


def test_keys_of_several_columns_and_of_floats_are_equal_as_everywhere() -> None:
    left = {"x": "float", "d": "date"}
    right = Stream({"d": "date", "x": "float", "n": "int", DELETED: "bool?"}, ("d", "x"))
    join = harness(on=["d", "x"], left=left, right=right)
    day = pl.Series(["2024-01-02"]).str.to_date()[0]
    nan = float("nan")
    changes = [{"d": day, "x": x, "n": n, TIME: 0} for n, x in enumerate([0.0, -0.0, nan, nan])]
    got = join.run([{"x": x, "d": day, TIME: 0} for x in (0.0, -0.0, nan, 1.0)], changes)
    assert [one["n"] for one in got] == [1, 1, 3]
    got = join.run([{"x": -0.0, "d": day, TIME: 0}], [{"d": day, "x": -0.0, DELETED: True, TIME: 0}])
    assert got == []


def test_a_table_of_nothing_but_its_key_tells_whether_it_is_there() -> None:
    join = harness(right=Stream({"customer": "string", DELETED: "bool?"}, ("customer",)))
    got = join.run([order("a", 1), order("b", 2)], [{"customer": "b", TIME: 0}])
    assert without_time(got) == [{"customer": "b", "amount": 2}]


def test_the_output_keeps_the_left_sides_key() -> None:
    totals = Stream({"customer": "string?", "amount": "int"}, ("customer",))
    assert harness(left=totals).plan.row_key == ("customer",)


def test_the_watermark_of_a_loaded_table_is_told_to_nobody() -> None:
    join = harness()
    join.run([], [], watermark=5)
    assert join.outcomes[-1].watermark is None, "that of the inputs"
    join.run([], [], watermark=LOADED_WATERMARK)
    assert join.outcomes[-1].watermark == NO_WATERMARK, "the left side has ended, the table has not"
    join.run([], [], watermark=END_WATERMARK)
    assert join.outcomes[-1].watermark is None

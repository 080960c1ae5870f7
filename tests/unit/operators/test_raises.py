"""PROTOCOL 3: the smallest ranges at which code raised say which calls were made of a batch; a copy makes the same."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Context, PythonOperator, State
from holdfast.schemas.cuts import NO_WATERMARK, RaisedRows, TaskRaised
from holdfast.schemas.operator_settings import FilterSettings, operator_settings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import Divergence
from holdfast.services.kernel.operators import raises
from holdfast.services.kernel.operators.catalogue import KINDS
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.python import PythonTask
from holdfast.services.kernel.operators.raises import Found, Places
from tests.support.tables import DictTables

MODULE = "code_that_raises"
FIELDS = {"n": "int"}
Bad = Callable[[list[int]], bool]


class Fussy(PythonOperator):
    """Counts the rows it has seen, and draws a number for each call; raises where it is told to."""

    output = {"n": "int", "seen": "int", "lot": "int"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        numbers, table = batch["n"].to_list(), state.table("seen")
        calls.append(tuple(numbers))
        table.put("all", table.get("all", 0) + len(numbers))
        if bad[0](numbers):
            raise ValueError(f"{numbers[0]} of {len(numbers)}")
        lot = ctx.random.randrange(10**9)
        return batch.select("n", TIME).with_columns(seen=pl.lit(table.get("all")), lot=pl.lit(lot))


_FIRST = inspect.getsourcelines(Fussy.on_batch)[1]
AT, AT_RAISE = (f"test_raises.py, line {_FIRST + below}, in on_batch" for below in (4, 5))
"""Where the code asks whether it is to raise, and where it raises."""

calls: list[tuple[int, ...]] = []
bad: list[Bad] = [lambda numbers: False]


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = ModuleType(MODULE)
    vars(made).update(Code=Fussy)
    monkeypatch.setitem(sys.modules, MODULE, made)
    yield
    calls.clear()


def run(count: int, raising: Bad, raised: TaskRaised | None = None) -> tuple[Outcome, dict[bytes, object]]:
    """A batch of rows 0, 1, ..., and the state behind it."""
    bad[0] = raising
    calls.clear()
    tables = DictTables()
    plan = OperatorPlan("op", "python", 1, ("in",), {"python": f"{MODULE}:Code"}, dict(Fussy.output))
    task = PythonTask(plan, FIELDS, tables)
    rows = pl.DataFrame([(n, n) for n in range(count)], schema=with_time(schema(FIELDS)), orient="row")
    outcome = task.on_batch([rows], BatchContext(7, NO_WATERMARK, NO_WATERMARK, raised))
    return outcome, dict(tables.table("seen").entries)


def at(*places: int) -> Bad:
    return lambda numbers: any(place in numbers for place in places)


def test_code_that_raises_nowhere_is_called_once_and_says_nothing() -> None:
    outcome, _ = run(5, at())
    assert outcome.raised is None
    assert calls == [(0, 1, 2, 3, 4)]


def test_rows_are_named_with_their_reasons() -> None:
    outcome, _ = run(8, lambda numbers: 2 in numbers or 5 in numbers)
    assert outcome.raised == TaskRaised(
        (RaisedRows(2, 3, 0), RaisedRows(5, 6, 1)),
        (f"ValueError: 2 of 1 ({AT_RAISE})", f"ValueError: 5 of 1 ({AT_RAISE})"),
    )
    assert [refused.reason for refused in outcome.refused] == [
        f"ValueError: 2 of 1 ({AT_RAISE})",
        f"ValueError: 5 of 1 ({AT_RAISE})",
    ]


def test_rows_at_which_it_raises_only_together_are_named_and_none_is_skipped() -> None:
    outcome, _ = run(8, lambda numbers: len(numbers) > 2 and 0 in numbers)
    assert outcome.raised == TaskRaised((RaisedRows(0, 4),), ())
    assert not outcome.refused
    assert outcome.rows.height == 8


def test_a_thousand_rows_with_one_reason_are_one_range() -> None:
    def fail(numbers: list[int]) -> bool:
        raise KeyError("shop")

    line = inspect.getsourcelines(fail)[1] + 1
    outcome, _ = run(1000, fail)
    assert outcome.raised == TaskRaised(
        (RaisedRows(0, 1000, 0),), (f"KeyError: 'shop' ({AT}; test_raises.py, line {line}, in fail)",)
    )
    assert len(outcome.refused) == 1000


def test_many_long_reasons_are_cut_and_the_dead_letters_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raises, "MAX_REASONS", 100)

    def fail(numbers: list[int]) -> bool:
        raise ValueError(f"{numbers[0]:04} is wrong{'!' * 500}")

    outcome, _ = run(4, fail)
    assert outcome.raised is not None
    assert outcome.raised.reasons[1] == f"ValueError: 0001 is wrong{'!' * 500}"[:25]
    assert [refused.reason for refused in outcome.refused] == list(outcome.raised.reasons)
    assert run(4, fail, outcome.raised)[0].refused == outcome.refused


@given(
    count=st.integers(1, 40),
    rows=st.frozensets(st.integers(0, 39), max_size=8),
    together=st.frozensets(st.tuples(st.integers(0, 39), st.integers(2, 40)), max_size=4),
)
def test_a_copy_that_follows_makes_the_same_calls_without_a_try(
    count: int, rows: frozenset[int], together: frozenset[tuple[int, int]]
) -> None:
    """Whatever its own code would say of the rows that are named, rows, state and random numbers are the same."""

    def fails(numbers: list[int]) -> bool:
        return bool(rows & set(numbers)) or any(len(numbers) >= size and n in numbers for n, size in together)

    first, state = run(count, fails)
    succeeded = [numbers for numbers in calls if not fails(list(numbers))]
    known = first.raised or TaskRaised()
    second, follows = run(count, lambda numbers: False, known)
    assert calls == succeeded, "nothing that raised there is tried here"
    assert second.rows.equals(first.rows)
    assert (second.refused, second.raised, follows) == (first.refused, first.raised, state)
    places = Places(known)
    assert [n for n in range(count) if fails([n])] == [n for n in range(count) if places.within(n, n + 1)]


def test_code_that_raises_elsewhere_disagrees() -> None:
    first, _ = run(8, at(2))
    with pytest.raises(Divergence, match=r"code_that_raises:Code, batch 7: raised at rows 4 to 7: ValueError: 4 of 4"):
        run(8, at(2, 5), first.raised)
    with pytest.raises(Divergence, match=r"raised at rows 0 to 7.*Run the same versions everywhere; `on_error: fail`"):
        run(8, at(2), TaskRaised())


@pytest.mark.parametrize("count", [1, 3, 13])
def test_a_record_of_other_rows_disagrees(count: int) -> None:
    first, _ = run(8, lambda numbers: numbers[:2] == [0, 1])
    assert first.raised == TaskRaised((RaisedRows(0, 2),))
    with pytest.raises(Divergence, match="batch 7: has other rows, the code would raise at "):
        run(count, at(), first.raised)


def test_a_row_of_which_no_record_says_anything_has_no_reason() -> None:
    with pytest.raises(LookupError, match="nothing is said of the row at 3"):
        Places(TaskRaised((RaisedRows(0, 2), RaisedRows(4, 5, 0)), ("no",))).reason(3)


def test_found_ranges_are_in_the_order_of_the_rows() -> None:
    found = Found()
    found.row(1, "a")
    found.row(2, "a")
    found.together(4, 8)
    found.row(9, "b")
    found.row(10, "a")
    assert found.raised() == TaskRaised(
        (RaisedRows(1, 3, 0), RaisedRows(4, 8), RaisedRows(9, 10, 1), RaisedRows(10, 11, 0)), ("a", "b")
    )


@pytest.mark.parametrize(
    ("on_error", "skips"), [(None, True), ("dead-letter", True), ("fail", False), ("retry", False)]
)
def test_rows_are_skipped_only_where_they_become_dead_letters(on_error: str | None, skips: bool) -> None:
    assert KINDS["python"].skips(operator_settings("python", {"python": "a:B", "on_error": on_error})) is skips
    assert not KINDS["filter"].skips(FilterSettings(filter="x > 1"))

"""User code computes from its arguments alone; what it raises goes the way of on_error and leaves nothing behind."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs import keys
from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.errors import InvalidRecord, JobRejected, Retriable
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Outcome
from holdfast.services.kernel.operators.python import (
    CodeUnavailable,
    Context,
    PythonOperator,
    PythonTask,
    State,
    load,
    restrict,
)
from holdfast.services.kernel.operators.user_state import KeyedTable, decode_key, encode_key
from tests.support.tables import DictTable, DictTables

FIELDS = {"key": "string", "n": "int?"}
MODULE = "user_code_of_a_test"


class Count(PythonOperator):
    """Counts rows by key; raises on a negative number after it has written."""

    output = {"key": "string", "count": "int"}  # noqa: RUF012 - as users write it

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        counts, found = state.table("counts"), []
        for key, n in batch.select("key", "n").iter_rows():
            counts.put(key, counts.get(key, 0) + 1)
            if n is not None and n < 0:
                raise ValueError(f"{n} is negative")
            found.append(counts.get(key))
        return batch.select("key", TIME).with_columns(count=pl.Series(found))


AT = "test_python.py, line 53, in on_batch"

Batch = Callable[[pl.DataFrame, State, Context], Any]


def operator(on_batch: Batch, output: Mapping[str, str] = FIELDS) -> type[PythonOperator]:
    return type("Made", (PythonOperator,), {"output": dict(output), "on_batch": lambda self, *given: on_batch(*given)})


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that holds what a test puts there."""
    made = ModuleType(MODULE)
    vars(made).update(Count=Count, helper=len)
    monkeypatch.setitem(sys.modules, MODULE, made)
    yield made
    restrict(None)


class Runner:
    """A Python task over batches."""

    def __init__(self, code: type[PythonOperator] = Count, on_error: str = "dead-letter", **params: Any) -> None:
        vars(sys.modules[MODULE])["Code"] = code
        self.tables = DictTables()
        settings = {"python": f"{MODULE}:Code", "params": params, "on_error": on_error}
        declared = dict(catalogue.describe("python", settings, [Stream(FIELDS)]).fields)
        self._task = PythonTask(OperatorPlan("op", "python", 1, ("in",), settings, declared), FIELDS, self.tables)
        self.schema = with_time(schema(declared))
        self.watermark, self.batch = NO_WATERMARK, 0

    def run(self, rows: Sequence[tuple[Any, ...]], watermark: int | None = None) -> Outcome:
        """rows: (key, n), at times 1, 2, ..."""
        self.batch += 1
        before, self.watermark = self.watermark, self.watermark if watermark is None else watermark
        timed = [(*row, time) for time, row in enumerate(rows, 1)]
        frame = pl.DataFrame(timed, schema=with_time(schema(FIELDS)), orient="row")
        outcome = self._task.on_batch([frame], BatchContext(self.batch, before, self.watermark))
        assert outcome.rows.schema == self.schema
        return outcome


def test_state_lives_from_batch_to_batch() -> None:
    task = Runner()
    assert task.run([("a", 1), ("b", 1), ("a", 1)]).rows["count"].to_list() == [1, 1, 2]
    assert task.run([("a", 1)]).rows.rows() == [("a", 3, 1)]


def test_no_rows_no_call() -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    assert Runner(operator(fail)).run([]).rows.is_empty()


@given(numbers=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-2, 5)), max_size=20))
def test_rows_at_fault_are_refused_and_leave_no_trace_in_the_state(numbers: list[tuple[str, int]]) -> None:
    task, spared = Runner(), Runner()
    outcome = task.run(numbers)
    good = [(time, row) for time, row in enumerate(numbers, 1) if row[1] >= 0]
    assert outcome.rows[TIME].to_list() == [time for time, _ in good]
    assert outcome.rows["count"].to_list() == spared.run([row for _, row in good]).rows["count"].to_list()
    assert task.tables.table("counts").entries == spared.tables.table("counts").entries
    assert [(refused.reason, refused.row) for refused in outcome.refused] == [
        (f"ValueError: {n} is negative ({AT})", f'{{"key":"{key}","n":{n}}}') for key, n in numbers if n < 0
    ]


@pytest.mark.parametrize(("on_error", "error"), [("fail", InvalidRecord), ("retry", Retriable)])
def test_other_ways_of_on_error_stop_with_the_cause(on_error: str, error: type[Exception]) -> None:
    task = Runner(on_error=on_error)
    with pytest.raises(error, match="raised in batch 1: ValueError: -1 is negative") as caught:
        task.run([("a", 1), ("a", -1)])
    assert isinstance(caught.value.__cause__, ValueError)
    assert not task.tables.table("counts").entries
    assert task.run([("a", 1)]).rows["count"].to_list() == [1]


def test_an_error_reads_the_same_in_every_process() -> None:
    def fail(*_: object) -> None:
        raise ValueError(object())

    reason = Runner(operator(fail)).run([("a", 1)]).refused[0].reason
    assert re.fullmatch(r"ValueError: <object object> \(test_python\.py, line \d+, .*in fail\)", reason), reason


def test_a_reason_holds_the_last_lines_of_a_deep_recursion() -> None:
    def deep() -> None:  # with *arguments Python 3.13.0 itself sees no limit, and fills the memory
        deep()

    reason = Runner(operator(lambda *_: deep())).run([("a", 1)]).refused[0].reason
    assert reason.count("in deep") == 5
    assert len(reason) <= 1000


def test_a_broken_store_is_no_row_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise Retriable("the store is gone")

    monkeypatch.setattr(DictTable, "get_many", broken)
    with pytest.raises(Retriable, match="store is gone"):
        Runner().run([("a", 1)])


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (pl.DataFrame({"key": ["a"]}), "the output has no column 'n', it has key"),
        (pl.DataFrame({"key": [1], "n": [1]}), "the output's column 'key' is int, not string"),
        (pl.DataFrame({"key": ["a"], "n": [1.0]}), "the output's column 'n' is float, not int?"),
        (pl.DataFrame({"key": [None], "n": [1]}), "the output's column 'key' holds null, and string may not"),
        (pl.DataFrame({"key": ["a"], "n": [1], TIME: [0.5]}), "the output's column '_time' is not an int in every row"),
        ([("a", 1)], "returned a list, not a polars DataFrame or None"),
    ],
)
def test_output_is_held_to_what_is_declared(returned: object, reason: str) -> None:
    (refused,) = Runner(operator(lambda *_: returned)).run([("a", 1)]).refused
    assert reason in refused.reason


def test_columns_that_can_be_widened_are_and_others_are_dropped() -> None:
    made = pl.DataFrame({"n": pl.Series([1], dtype=pl.Int8), "more": [1], "key": ["x"]})
    assert Runner(operator(lambda *_: made)).run([("a", 1), ("b", 2)]).rows.rows() == [("x", 1, 2)]


def test_rows_without_time_get_the_newest_of_the_whole_batch_whoever_is_refused() -> None:
    def keep(batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
        assert batch["n"].null_count() == 0
        return batch.drop(TIME)

    outcome = Runner(operator(keep)).run([("a", 1), ("b", None), ("c", 3)])
    assert outcome.rows.rows() == [("a", 1, 3), ("c", 3, 3)]


class Closing(Count):
    """Counts, and gives the counts when the watermark rises."""

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> Any:
        super().on_batch(batch, state, ctx)

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> pl.DataFrame:
        entries = list(state.table("counts").items())
        state.table("counts").delete_many([key for key, _ in entries])
        return pl.DataFrame(entries, schema={"key": pl.String, "count": pl.Int64}, orient="row")


def test_on_watermark_is_called_when_it_rises_after_the_batch() -> None:
    task = Runner(Closing)
    assert task.run([("b", 1), ("a", 1)]).rows.is_empty()
    assert task.run([("a", 1)], watermark=50).rows.rows() == [("a", 2, 50), ("b", 1, 50)]
    assert task.run([("c", 1)]).rows.is_empty()
    assert task.run([], watermark=END_WATERMARK).rows.rows() == [("c", 1, 50)]


def test_an_error_of_on_watermark_stops_the_job_and_undoes_its_writes() -> None:
    class Broken(Count):
        def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> pl.DataFrame:
            state.table("counts").put("x", 1)
            raise ValueError("no")

    task = Runner(Broken)
    with pytest.raises(InvalidRecord, match="ValueError: no"):
        task.run([("a", 1)], watermark=5)
    assert [decode_key(key) for key in task.tables.table("counts").entries] == ["a"]


def test_chance_and_time_are_the_batch_s() -> None:
    seen: list[tuple[float, datetime, int]] = []

    def note(batch: pl.DataFrame, state: State, ctx: Context) -> None:
        seen.append((ctx.random.random(), ctx.now, ctx.batch))

    for _ in range(2):
        task = Runner(operator(note))
        task.run([("a", 1), ("b", 2)])
        task.run([("a", 1)])
    assert seen[:2] == seen[2:]
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] == datetime(1970, 1, 1, 0, 0, 0, 2, UTC)


def test_params_reach_the_code_and_output_may_depend_on_them_and_on_the_input() -> None:
    class Renamed(PythonOperator):
        def __init__(self, to: str) -> None:
            self.to = to

        def output(self, fields: dict[str, str]) -> dict[str, str]:
            return {self.to: fields["n"]}

        def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
            return batch.select(pl.col("n").alias(self.to))

    assert Runner(Renamed, to="m").run([("a", 7)]).rows.to_dicts() == [{"m": 7, TIME: 1}]
    with pytest.raises(JobRejected, match=r"does not take the params .*'too': 1"):
        Runner(Renamed, too=1)


@pytest.mark.parametrize(
    ("reference", "allow", "message"),
    [
        ("nothing", None, "is not of the form package.module:Class"),
        (
            f"{MODULE}:Count",
            ["other"],
            f"module {MODULE} is not on the allow-list, start the workers with HOLDFAST_PLUG",
        ),
        (f"{MODULE}:Count", [MODULE[:-1]], f"is not on the allow-list, did you mean '{MODULE[:-1]}'"),
        (
            "no_such_module:A",
            ["no_such_module"],
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_mod",
        ),
        (f"{MODULE}:Cuont", [MODULE], "has no class Cuont, did you mean 'Count'?"),
        (f"{MODULE}:helper", None, "is no subclass of PythonOperator"),
    ],
)
def test_code_that_cannot_be_loaded_says_why(reference: str, allow: list[str] | None, message: str) -> None:
    with pytest.raises(CodeUnavailable) as caught:
        load(reference, allow)
    assert message in str(caught.value)


def test_a_package_allows_what_is_below_it() -> None:
    assert load("holdfast.services.kernel.operators.user_code:PythonOperator", ["holdfast.services"]) is PythonOperator


def test_a_restricted_process_loads_nothing_else() -> None:
    restrict(["other"])
    with pytest.raises(JobRejected, match="allow-list"):
        Runner()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({}, "has no output"),
        ({"n": "integer"}, "unknown type 'integer', did you mean"),
        ({"_n": "int"}, "begins with an underscore"),
        ({"n": int}, "is not a name and the text of a type"),
    ],
)
def test_an_output_that_declares_no_columns_is_refused(output: dict[str, Any], message: str) -> None:
    with pytest.raises(JobRejected, match=message):
        Runner(operator(lambda *_: None, output))


def test_tables_hold_what_users_hold() -> None:
    table = KeyedTable(DictTable())
    value = {"list": [1, (2,)], "text": "x", "raw": b"\0", "number": pl.Series([3]).to_numpy()[0]}
    table.put_many({("a", 1): value, "b": None})
    table.apply()
    assert table.get_many([("a", 1), "b", "c"], 0) == [
        {"list": [1, [2]], "text": "x", "raw": b"\0", "number": 3},
        None,
        0,
    ]
    table.get(("a", 1))["list"].append(9)
    assert table.get(("a", 1))["list"] == [1, [2]], "what is read is a copy"
    table.delete("b")
    assert [key for key, _ in table.items()] == [("a", 1)]
    table.forget()
    assert table.get("b", 5) is None
    with pytest.raises(TypeError, match="cannot hold an object"):
        table.put("x", object())
    with pytest.raises(TypeError, match="a key is text"):
        table.put(["x"], 1)  # type: ignore[arg-type]


def test_keys_are_those_of_rows() -> None:
    key = ("a", None, 1, True, 2.5, Decimal("1.50"), datetime(2013, 1, 1, tzinfo=UTC))
    rows = pl.DataFrame([key], schema=["a", "b", "c", "d", "e", ("f", pl.Decimal(5, 2)), "g"], orient="row")
    assert encode_key(key) == keys.encode(rows, rows.columns)[0]
    assert encode_key(-0.0) == encode_key(0.0)
    assert encode_key("a") == encode_key(("a",))


def test_every_name_for_users_has_one_home_and_is_documented_there() -> None:
    assert holdfast.PythonOperator is PythonOperator, "the path of before works"
    assert holdfast.State is State
    assert {"Context", "KeyedTable", "PythonOperator", "State"} <= set(holdfast.__all__)
    assert all(getattr(holdfast, name).__doc__ for name in holdfast.__all__)

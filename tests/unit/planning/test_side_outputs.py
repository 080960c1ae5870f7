"""Outputs of a Python operator: each that is read is an operator of its own, in the unit of the code."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import polars as pl
import pytest

from holdfast import Context, Job, JobRejected, PythonOperator, State, output, python, query, select, source, union
from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.operators.user_output import OutputError, SeveralShapes
from holdfast.services.planning import side_outputs
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan
from tests.unit.planning.jobs import GENERATION, job

MODULE = __name__
SPLIT = f"{MODULE}:Split"


class Split(PythonOperator):
    """Even numbers, odd ones with a text, and nothing of zero; at the end how many there were."""

    outputs: ClassVar[dict[str, dict[str, str]]] = {
        "even": {"x": "int"},
        "odd": {"x": "string", "half": "float"},
        "count": {"n": "int", "output": "string?"},
    }

    def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> dict[str, pl.DataFrame | None]:
        seen = state.table("seen")
        seen.put("n", seen.get("n", 0) + batch.height)
        odd = batch.filter(pl.col("x") % 2 == 1)
        return {
            "odd": odd.select(pl.col("x").cast(pl.String), "_time", half=pl.col("x") / 2),
            "even": batch.filter(pl.col("x") % 2 == 0, pl.col("x") != 0).select("x", "_time"),
            "count": None,
        }

    def on_watermark(self, watermark_us: int, state: State, ctx: Context) -> dict[str, pl.DataFrame] | None:
        if watermark_us < 2**63 - 1:
            return None
        return {"count": pl.DataFrame({"n": [state.table("seen").get("n")], "output": [None]})}


class One(PythonOperator):
    """Has one output."""

    output: ClassVar[dict[str, str]] = {"x": "int"}


def written(code: str = SPLIT, outputs: list[str] | None = None, **operators: Any) -> dict[str, Any]:
    split: dict[str, Any] = {"python": code, "input": "s"}
    if outputs != []:
        split["outputs"] = outputs or ["count", "even", "odd"]
    operators = operators or {"late": {"filter": "half > 1", "input": "split.odd"}}
    return job({"split": split, **operators}, {"s": {"topic": "in", "fields": {"x": "int"}}})


def plan(given: dict[str, Any]) -> Plan:
    read = interpret(given)
    return make_plan(
        read,
        generation=GENERATION,
        id=Id("test", 1),
        topics=None,
        first={},
        prefix="holdfast",
        versions={},
        allow=[MODULE],
    )


def test_an_output_that_is_read_is_an_operator_of_the_unit() -> None:
    made = plan(written())
    kinds = {one.name: one.kind for one in made.operators}
    assert kinds == {"s": "source", "split": "python", "split-odd": "output", "late": "filter", "sink-q": "sink"}
    assert len(made.units) == 1
    assert next(one.fields for one in made.operators if one.name == "late") == {"x": "string", "half": "float"}
    again = interpret(made.spec)
    assert side_outputs.whole(again).spec == again
    named = written(odd={"output": "odd", "input": "split"}, late={"select": ["x"], "input": "odd"})
    assert "odd" in {one.name for one in plan(named).operators}
    placed = {**written(), "placement": {"units": [["split"]]}}
    assert ("split", "split-odd") in [one.operators for one in plan(placed).units]


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (written(late={"select": ["x"], "input": "split.od"}), "operators.late.input", "no output 'od'.*'odd'"),
        (written(late={"select": ["x"], "input": "split"}), "operators.late.input", "several outputs.*split.even"),
        (written(late={"select": ["x"], "input": "s.x"}), "operators.late.input", "'s' has not several.*read s"),
        (written(late={"select": ["x"], "input": "t.x"}), "operators.late.input", "no source or operator 't.x'"),
        (written(outputs=["odd"]), "operators.split.outputs", r"code's outputs are \[even, odd, count\].*\[odd\]"),
        (written(outputs=[]), "operators.late.input", "has not several outputs"),
        (written(f"{MODULE}:One"), "operators.split.outputs", "has one output"),
        (
            written(
                SPLIT,
                None,
                **{"split-odd": {"select": ["x"], "input": "s"}, "late": {"filter": "x = '1'", "input": "split.odd"}},
            ),
            "operators.late.input",
            "split-odd is taken",
        ),
        (
            written(odd={"output": "x", "input": "s"}, late={"select": ["x"], "input": "odd"}),
            "operators.odd.input",
            "has not several",
        ),
        (written(late={"filter": "haf > 1", "input": "split.odd"}), "operators.late.filter", "'half'"),
        (
            written(split={"spark": {"sql": "SELECT * FROM input"}, "input": "s", "outputs": ["odd"]}),
            "operators.split.outputs",
            "a query has one output",
        ),
    ],
)
def test_a_mistake_stands_where_it_was_written(given: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(JobRejected) as caught:
        plan(given)
    (problem,) = (one for one in caught.value.problems if one.path == path)
    assert re.search(words, f"{problem.message} ({problem.hint})"), problem


def test_each_output_has_its_rows() -> None:
    made = Job(
        name="split",
        sources={"s": source(topic="in", fields={"x": "int"})},
        operators={
            "split": python(python=SPLIT, input="s", outputs=["even", "odd", "count"]),
            "halves": select(select=["x", "half * 2 AS twice"], input="split.odd"),
            "counted": output(output="count", input="split"),
            "texts": select(select=["CAST(x AS VARCHAR) AS x"], input="split.even"),
            "odd-texts": select(select=["x"], input="split.odd"),
            "both": union(union=["texts", "odd-texts"]),
        },
        queries={
            "h": query(input="halves"),
            "c": query(input="counted"),
            "e": query(input="split.even"),
            "b": query(input="both"),
        },
    )
    found = made.try_({"s": pl.DataFrame({"x": [0, 1, 2, 3, 4]})})
    assert found["h"].rows() == [("1", 1.0), ("3", 3.0)]
    assert found["e"].rows() == [(2,), (4,)]
    assert found["c"].rows() == [(5, None)]
    assert sorted(found["b"]["x"]) == ["1", "2", "3", "4"]
    assert "split-odd" in made._repr_html_()


def test_rows_are_held_to_the_columns_of_their_output() -> None:
    shapes = SeveralShapes(Split.outputs)
    for returned, words in (
        (pl.DataFrame({"x": [1]}), "a DataFrame, not a dict of frames by output: even, odd, count"),
        ({"od": None}, "rows for 'od', and the outputs are even, odd, count"),
        ({"odd": pl.DataFrame({"x": ["a"]})}, "the output 'odd' has no column 'half'"),
    ):
        with pytest.raises(OutputError, match=words):
            shapes.checked(returned, 0)

"""Under which name each operator counts what it drops as late, and which operators count before it."""

from __future__ import annotations

from typing import Any

import polars as pl

from holdfast.services.kernel.plans.layout import unit_layouts
from tests.unit.planning.jobs import TOPICS, job, plan, query, source

SECOND = 1_000_000


def windows(name: str, size_s: int = 60, **more: Any) -> dict[str, Any]:
    return {"aggregate": {"n": "count()"}, "key": ["x"], "input": name, "window": {"size_s": size_s}, **more}


def keep(name: str) -> dict[str, Any]:
    return {"filter": "x > 1", "input": name}


def counted(operators: dict[str, Any], *names: str) -> dict[str, list[tuple[str, list[str]]]]:
    """By operator and slot: the name, and the operators before it."""
    sources = {"s": source(), "t": source("other")}
    read = {one for spec in operators.values() for one in (spec.get("input"), *spec.get("union", ()))}
    queries = {f"q-{name}": query(name, f"out-{name}") for name in operators if name not in read}
    made = plan(job(operators, sources, queries))
    tasks = {task.operator.name: task for one in unit_layouts(made, TOPICS).values() for task in one.tasks}
    return {name: [(c.name, [o.name for o, _ in c.before]) for c in tasks[name].counted] for name in names}


def test_operators_on_the_same_records_count_one_after_the_other() -> None:
    operators = {"a": windows("s"), "c": windows("same", 7), "same": {"select": ["x", "y"], "input": "s"}}
    assert counted(operators, "a", "c", "same") == {"a": [("s", [])], "c": [("s", ["a"])], "same": []}


def test_an_operator_that_sees_some_of_the_records_counts_after_those_that_see_all() -> None:
    operators = {"a": windows("some"), "b": windows("s"), "some": keep("s"), "c": windows("other"), "other": keep("s")}
    found = counted(operators, "a", "b", "c")
    assert found == {"a": [("s>some", ["b"])], "b": [("s", [])], "c": [("s>other", ["b"])]}


def test_behind_a_dedup_come_those_that_it_has_not_dropped() -> None:
    operators = {"first": {"dedup": {"within_s": 9}, "key": ["x"], "input": "s"}, "a": windows("first")}
    assert counted(operators, "first", "a") == {"first": [("s", [])], "a": [("s>first", ["first"])]}


def test_a_join_with_another_stream_has_a_watermark_of_its_own() -> None:
    operators = {"a": windows("s"), "j": {"join": {"left": "s", "right": "t", "on": ["x"], "within_s": 5}}}
    assert counted(operators, "a", "j") == {"a": [("s", [])], "j": [("s|j", []), ("t|j", [])]}


def test_a_join_of_a_stream_with_itself_drops_a_record_once() -> None:
    operators = {"j": {"join": {"left": "s", "right": "some", "on": ["x"], "within_s": 5}}, "some": keep("s")}
    assert counted(operators, "j") == {"j": [("s", []), ("s>some", ["j"])]}


def test_a_union_keeps_records_of_different_sources_and_makes_rows_of_those_of_one() -> None:
    operators = {"both": {"union": ["s", "t"]}, "a": windows("both"), "twice": {"union": ["s", "s2"]}, "s2": keep("s")}
    operators["b"] = windows("twice")
    assert counted(operators, "a", "b") == {"a": [("s+t>both", [])], "b": [("rows of twice", [])]}


def test_rows_that_an_operator_computes_are_its_own() -> None:
    operators = {"a": windows("s"), "b": windows("a", 3_600)}
    assert counted(operators, "b") == {"b": [("rows of a", [])]}


def test_only_what_the_others_keep_is_counted() -> None:
    operators = {"a": windows("s", 60), "c": windows("s", 7)}
    made = plan(job(operators, queries={"q": query("a"), "r": query("c", "more")}))
    tasks = {task.operator.name: task for one in unit_layouts(made, TOPICS).values() for task in one.tasks}
    (after,) = tasks["c"].counted
    times = pl.Series([0, 59 * SECOND, 60 * SECOND, 90 * SECOND])
    assert after.number(times, 100 * SECOND) == 2, "the minute that ends at 60 s has closed for `a`"

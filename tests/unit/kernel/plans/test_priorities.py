"""A unit matters as much as the most important query that needs it (JOBS "queries")."""

from __future__ import annotations

from typing import Any

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Edge, OperatorPlan, Plan, SparkPlan, UnitPlan
from holdfast.services.kernel.plans.priorities import priorities


def operator(name: str, kind: str = "filter", query: str = "") -> OperatorPlan:
    return OperatorPlan(name, kind, 1, (), {"query": query} if query else {}, {})


def plan(
    edges: list[tuple[str, str]], queries: dict[str, Any], spark: tuple[SparkPlan, ...] = (), **units: str
) -> Plan:
    """units: by name, the names of operators. A sink is called sink-<query>."""
    names = [name for held in units.values() for name in held.split()]
    sinks = {name: name.removeprefix("sink-") for name in names if name.removeprefix("sink-") in queries}
    operators = tuple(
        operator(name, "sink" if name.startswith(("sink", "input")) else "filter", sinks.get(name, ""))
        for name in names
        if not name.startswith("spark-")
    )
    made = tuple(UnitPlan(name, 0, tuple(held.split()), 0) for name, held in units.items())
    spec = {"queries": {name: {"priority": priority} for name, priority in queries.items()}}
    wired = tuple(Edge(producer, consumer, 0, "forward") for producer, consumer in edges)
    return Plan("job", "1-abcdef", Id("c", 1), spec, operators, wired, made, (), {}, 10, {}, spark=spark)


def test_units_that_a_query_needs_are_as_important_as_the_query() -> None:
    edges = [("s", "a"), ("s", "b"), ("a", "sink-dear"), ("b", "sink-cheap"), ("c", "sink-cheap")]
    made = plan(edges, {"dear": 7, "cheap": 2}, u0="s", u1="a sink-dear", u2="b sink-cheap", u3="c")
    assert priorities(made) == {"u0": 7, "u1": 7, "u2": 2, "u3": 2}


def test_without_a_priority_and_without_a_query_it_is_1() -> None:
    made = plan([("s", "sink-q")], {"q": None}, u0="s sink-q", u1="lonely")
    assert priorities(made) == {"u0": 1, "u1": 1}
    assert priorities(Plan("job", "1-abcdef", Id("c", 1), {}, (), (), made.units, (), {}, 10, {})) == {"u0": 1, "u1": 1}


def test_inputs_and_driver_of_spark_are_as_important_as_its_output() -> None:
    heavy = SparkPlan("heavy", "spark-heavy", "rows", {}, {}, {}, writers=("u0",))
    edges = [("s", "before"), ("before", "input-heavy"), ("heavy", "sink-q"), ("s", "sink-other")]
    units = {"u0": "s before input-heavy sink-other", "u1": "heavy sink-q", "spark-heavy": "spark-heavy"}
    made = plan(edges, {"q": 9, "other": 3}, (heavy,), **units)
    assert priorities(made) == {"u0": 9, "u1": 9, "spark-heavy": 9}


def test_sources_that_spark_reads_itself_are_as_important_too() -> None:
    heavy = SparkPlan("heavy", "spark-heavy", "in", {}, {}, {}, source="s")
    units = {"u0": "s", "u1": "heavy sink-q", "spark-heavy": "spark-heavy"}
    assert priorities(plan([("heavy", "sink-q")], {"q": 4}, (heavy,), **units)) == {"u0": 4, "u1": 4, "spark-heavy": 4}

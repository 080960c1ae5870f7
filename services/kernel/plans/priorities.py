"""The units that each query needs, and the priority of each unit: the highest priority of the queries that need it.

Source: JOBS "queries", MECHANISMS H9 and R6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from holdfast.schemas.plan_settings import QueryPlan
from holdfast.schemas.plans import OperatorPlan, Plan

LEAST = 1


def priorities(plan: Plan) -> dict[str, int]:
    """The priority of each unit, by name."""
    of = _of_operators(plan)
    hosted = {spark.unit: of.get(spark.operator, LEAST) for spark in plan.spark}
    return {
        unit.name: hosted.get(unit.name, max((of.get(name, LEAST) for name in unit.operators), default=LEAST))
        for unit in plan.units
    }


def needed(plan: Plan) -> dict[str, frozenset[str]]:
    """The names of all units that each query needs, in the order of the job file."""
    hosted = {spark.unit: {spark.operator} for spark in plan.spark}
    operators = {unit.name: hosted.get(unit.name, set(unit.operators)) for unit in plan.units}
    return {
        query: frozenset(unit for unit, own in operators.items() if own & reached)
        for query, reached in _of_queries(plan).items()
    }


def delivering(plan: Plan) -> dict[str, frozenset[str]]:
    """The names of the units that deliver the rows of each query."""
    sinks = {one.name: one.sink.query for one in plan.operators if one.sink.query}
    return {
        query: frozenset(unit.name for unit in plan.units if sink in unit.operators) for sink, query in sinks.items()
    }


def tentative(plan: Plan, query: str) -> bool:
    """True if the query has tentative results while units that it needs are out."""
    return _of_query(plan, query).results == "tentative"


def priority(plan: Plan, query: str) -> int:
    """The priority of a query in the job file."""
    return _of_query(plan, query).priority


def _of_query(plan: Plan, query: str) -> QueryPlan:
    return plan.settings.queries.get(query, QueryPlan())


def _of_queries(plan: Plan) -> dict[str, set[str]]:
    """The operators that each query needs: its sink, and all operators above."""
    above = _above(plan)
    sinks = (one for one in plan.operators if one.sink.query)
    return {one.sink.query: _reached(one.name, above) for one in sinks}


def _of_operators(plan: Plan) -> dict[str, int]:
    found: dict[str, int] = {}
    for query, reached in _of_queries(plan).items():
        for name in reached:
            found[name] = max(found.get(name, LEAST), priority(plan, query))
    return found


def _above(plan: Plan) -> Mapping[str, set[str]]:
    """The operators whose output each operator reads. Rows that a sink writes for Spark return as rows of a Spark
    operator.
    """
    above = defaultdict[str, set[str]](set)
    for edge in plan.edges:
        above[edge.consumer].add(edge.producer)
    written = {name for unit in plan.units for name in unit.operators if _writes_for_spark(plan, name)}
    for spark in plan.spark:
        units = (unit for unit in plan.units if unit.name in spark.every_writer)
        above[spark.operator] |= {name for unit in units for name in unit.operators if name in written}
        above[spark.operator] |= {given.source for given in spark.inputs if given.source}
    return above


def _writes_for_spark(plan: Plan, name: str) -> bool:
    of: OperatorPlan | None = next((one for one in plan.operators if one.name == name), None)
    return of is not None and of.kind == "sink" and not of.sink.query


def _reached(name: str, above: Mapping[str, set[str]]) -> set[str]:
    found, left = {name}, [name]
    while left:
        new = above.get(left.pop(), set()) - found
        found |= new
        left += new
    return found

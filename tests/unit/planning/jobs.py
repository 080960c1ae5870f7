"""Small jobs for tests, and an operator catalogue that believes everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan, Problem
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.planning.loader import interpret
from holdfast.services.planning.plan import make_plan

GENERATION = "7-abcdef"
TOPICS = JobTopics("holdfast", "job", GENERATION)


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """Columns without expressions: an aggregate's output is its key, its window and its names."""
    if kind != "aggregate":
        return inputs[0]
    window = {"window_start": "timestamp", "window_end": "timestamp"} if params["window"] else {}
    key = {column: "int" for column in params["key"]}
    return Stream({**key, **window, **dict.fromkeys(params["aggregate"], "int")}, (*key, *window), bool(window))


def source(topic: str = "in", **more: Any) -> dict[str, Any]:
    return {"topic": topic, "fields": {"x": "int", "y": "int"}, **more}


def query(name: str, topic: str = "out", **more: Any) -> dict[str, Any]:
    return {"input": name, "sink": {"topic": topic}, **more}


def job(
    operators: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
    queries: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A job over source `s`, whose query reads the last operator."""
    operators = dict(operators or {})
    last = list(operators)[-1] if operators else "s"
    return {
        "name": "job",
        "sources": dict(sources or {"s": source()}),
        "operators": operators,
        "queries": dict(queries or {"q": query(last)}),
        **more,
    }


def plan(raw: Mapping[str, Any], topics: Mapping[str, int] | None = None, allow: Sequence[str] = ("mine",)) -> Plan:
    """Planned for a cluster on which `topics` exist; for a local run without them."""
    first = {topic: dict.fromkeys(range(partitions), 0) for topic, partitions in (topics or {}).items()}
    return make_plan(
        interpret(dict(raw)),
        generation=GENERATION,
        id=Id("controller", 1),
        topics=topics,
        first=first,
        prefix="holdfast",
        versions={"polars": "1"},
        allow=allow,
        describe=describe,
    )


def problems(raw: Mapping[str, Any], topics: Mapping[str, int] | None = None) -> list[Problem]:
    try:
        plan(raw, topics)
    except JobRejected as error:
        return list(error.problems)
    return []


def units(made: Plan) -> list[str]:
    """Each unit as `name: operator operator`."""
    return [f"{unit.name}: {' '.join(unit.operators)}" for unit in made.units]


def routes(made: Plan) -> dict[str, str]:
    """Routing by `producer consumer`."""
    return {f"{edge.producer} {edge.consumer}": edge.routing for edge in made.edges}

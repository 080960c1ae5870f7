"""What a job file may say and this release does not do yet.

Source: JOBS "What a release does not have yet is accepted, run as `none`, and warned of". That holds for how a job
runs; what a job computes is never quietly another thing, so there it is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.job_operators import Aggregate, Spark
from schemas.jobs import JobSpec
from schemas.plans import Problem

SCHEMES = frozenset({"none"})
"""Fault-tolerance schemes that work; a unit that asks for another runs as `none`."""

_QUANTILE = re.compile(r"\bquantile\w*\s*\(", re.IGNORECASE)

_WORKING: dict[str, object] = {
    "fault_tolerance.precision": "exact",
    "fault_tolerance.checkpoint.policy": "sweep",
    "fault_tolerance.buffering": "upstream",
    "fault_tolerance.replication_budget": None,
    "placement.spread_by": None,
}
"""The only value that works, by setting."""


def scheme(wanted: str) -> str:
    """The scheme that a unit really gets."""
    return wanted if wanted in SCHEMES else "none"


def missing_problems(spec: JobSpec) -> Iterator[Problem]:
    """What cannot be computed yet."""
    for name, source in spec.sources.items():
        if source.format == "arrow":
            yield Problem(f"sources.{name}.format", "arrow is not available yet", "use json or csv")
    for name, operator in spec.operators.items():
        if isinstance(operator, Spark):
            yield Problem(f"operators.{name}.spark", "spark operators are not available yet", "use python")
        if isinstance(operator, Aggregate):
            yield from _missing_of_aggregate(name, operator)


def _missing_of_aggregate(name: str, operator: Aggregate) -> Iterator[Problem]:
    if operator.emit == "each":
        yield Problem(f"operators.{name}.emit", "each is not available yet", "use updates")
    for column, expression in operator.aggregate.items():
        if _QUANTILE.search(expression):
            yield Problem(f"operators.{name}.aggregate.{column}", "quantile is not available yet")


def ignored_warnings(spec: JobSpec) -> Iterator[str]:
    """Settings that have nothing behind them yet."""
    settings = spec.fault_tolerance
    wanted = {"default": settings.default} | {f"units.{name}": one for name, one in settings.units.items()}
    for path, one in wanted.items():
        if one.scheme not in SCHEMES:
            yield f"fault_tolerance.{path}.scheme: {one.scheme} is not available yet, runs as none"
    for path, works in _WORKING.items():
        value: object = spec
        for step in path.split("."):
            value = getattr(value, step)
        if value != works:
            yield f"{path}: {value} is not available yet, runs as {'none' if works is None else works}"
    for name, query in spec.queries.items():
        if query.results != "final":
            yield f"queries.{name}.results: {query.results} is not available yet, runs as final"

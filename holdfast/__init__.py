"""All that a user's Python imports: for operators of a job, and for jobs.

An operator:

    import polars as pl
    from holdfast import Context, PythonOperator, State

    class Score(PythonOperator):
        output = {"carrier": "string", "score": "float"}

        def on_batch(self, batch: pl.DataFrame, state: State, ctx: Context) -> pl.DataFrame:
            return batch.select("carrier", score=pl.col("dep_delay") / 60)

A job file names it by `python: "my_module:Score"`, see docs/jobs.md. `help(PythonOperator)` says what a subclass gives,
and what its methods get and return. A job:

    from holdfast import Job, aggregate, count, query, sink, source

    visits = Job(
        name="visits",
        sources={"visits": source(topic="visits", fields={"page": "string"})},
        operators={"by_page": aggregate(aggregate={"n": count()}, key=["page"], input="visits")},
        queries={"pages": query(input="by_page", sink=sink(topic="pages"))},
    )

A consumer of a query with `results: tentative` keeps the newest row of each key with `Newest`.

Each name is loaded when it is first used: a worker that runs an operator needs nothing of a job in Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.expressions import count, count_distinct, first, last, max, mean, min, quantile, sum
    from holdfast.job import Job
    from holdfast.newest import Newest
    from holdfast.parts import (
        aggregate,
        asking,
        asof_join,
        asof_sides,
        checkpoint_settings,
        correlated_failure,
        csv_options,
        dedup,
        every,
        fault_tolerance,
        filter,
        hybrid_settings,
        join,
        join_sides,
        list_items,
        metadata,
        output,
        pace,
        placement,
        python,
        query,
        ranking,
        renamed,
        scheme_settings,
        select,
        sink,
        source,
        spark,
        spark_sql,
        sql,
        top,
        union,
        unnest,
        weights,
        window,
        within,
    )
    from holdfast.services.kernel.errors import JobRejected
    from holdfast.services.kernel.operators.typed_state import ListState, MapState, ValueState
    from holdfast.services.kernel.operators.user_code import Context, PythonOperator
    from holdfast.services.kernel.operators.user_maps import dicts_of, map_column
    from holdfast.services.kernel.operators.user_state import KeyedTable, State

__all__ = [
    "Context",
    "Job",
    "JobRejected",
    "KeyedTable",
    "ListState",
    "MapState",
    "Newest",
    "PythonOperator",
    "State",
    "ValueState",
    "aggregate",
    "asking",
    "asof_join",
    "asof_sides",
    "checkpoint_settings",
    "correlated_failure",
    "count",
    "count_distinct",
    "csv_options",
    "dedup",
    "dicts_of",
    "every",
    "fault_tolerance",
    "filter",
    "first",
    "hybrid_settings",
    "join",
    "join_sides",
    "last",
    "list_items",
    "map_column",
    "max",
    "mean",
    "metadata",
    "min",
    "output",
    "pace",
    "placement",
    "python",
    "quantile",
    "query",
    "ranking",
    "renamed",
    "scheme_settings",
    "select",
    "sink",
    "source",
    "spark",
    "spark_sql",
    "sql",
    "sum",
    "top",
    "union",
    "unnest",
    "weights",
    "window",
    "within",
]

_HOMES = {
    "Context": "holdfast.services.kernel.operators.user_code",
    "Job": "holdfast.job",
    "JobRejected": "holdfast.services.kernel.errors",
    "KeyedTable": "holdfast.services.kernel.operators.user_state",
    "ListState": "holdfast.services.kernel.operators.typed_state",
    "MapState": "holdfast.services.kernel.operators.typed_state",
    "Newest": "holdfast.newest",
    **dict.fromkeys(("dicts_of", "map_column"), "holdfast.services.kernel.operators.user_maps"),
    "PythonOperator": "holdfast.services.kernel.operators.user_code",
    "State": "holdfast.services.kernel.operators.user_state",
    "ValueState": "holdfast.services.kernel.operators.typed_state",
    **dict.fromkeys(
        ("count", "count_distinct", "first", "last", "max", "mean", "min", "quantile", "sum"), "holdfast.expressions"
    ),
}
"""Modules of names that are no part of a job."""


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name in ("expressions", "job", "newest", "parts"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "holdfast.parts")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Chooses the mode of a query, and finds out if a watermark at the end of time releases its rows.

Source: PROTOCOL 12.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.schemas.plans import MICRO_BATCH, REAL_TIME

_HOLDING = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "Join",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)
"""Nodes of a logical plan that keep rows, or state made from rows, between micro-batches."""


STATIC_JOIN = "Join with a table"
PASSING = frozenset({"Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark"})
"""Nodes that make at most one row from a row, and combine no rows."""

_OUTPUT_MODES = {"final": "append", "updates": "update"}


def output_mode(emit: str) -> str:
    """Spark's name for a value of the setting `emit`."""
    return _OUTPUT_MODES[emit]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a logical plan; `nodes` holds the names of its streaming nodes."""

    nodes: frozenset[str]

    @property
    def watermark(self) -> bool:
        return "EventTimeWatermark" in self.nodes

    @property
    def stateful(self) -> bool:
        return bool(self.nodes & _HOLDING)

    def holds(self, emit: str) -> bool:
        """True if rows wait for a later micro-batch. In update mode only rows of a join do."""
        waiting = self.nodes & _HOLDING if emit == "final" else self.nodes & {"Join"}
        return bool(waiting - {"Deduplicate", "DeduplicateWithinWatermark", "Distinct"})


def choice(found: Shape, *, sql: bool, steady: bool, plain: bool) -> tuple[str, str]:
    """The mode and its reason, as `holdfast check` shows them.

    Args:
        sql: True if the operator is a query in SQL.
        steady: True if a record that is read again gives the same row.
        plain: True if no column of the output is a list or a struct.
    """
    if not sql:
        return MICRO_BATCH, "it may call Python functions, which real-time mode does not run"
    if found.stateful:
        return MICRO_BATCH, "it keeps state, which real-time mode does not"
    if others := sorted(found.nodes - PASSING):
        return MICRO_BATCH, f"a row of it does not come from one record alone: {', '.join(others)}"
    if not steady:
        return MICRO_BATCH, "a record that is read again may give another row"
    if not plain:
        return MICRO_BATCH, "real-time mode brings no lists or structs"
    return REAL_TIME, "each row comes from one record, and is written as soon as that is read"


def shape(nodes: Collection[str]) -> Shape:
    return Shape(frozenset(nodes))

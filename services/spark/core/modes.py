"""Modes of a query: the choice of one, and the effect of a watermark at the end on rows that it holds.

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
"""Nodes of a logical plan that keep rows, or what became of them, from micro-batch to micro-batch."""


STATIC_JOIN = "Join with a table"
PASSING = frozenset({"Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark"})
"""Nodes that make at most one row of a row, and nothing of several."""

_OUTPUT_MODES = {"final": "append", "updates": "update"}


def output_mode(emit: str) -> str:
    """Spark's name for what the job file calls `emit`."""
    return _OUTPUT_MODES[emit]


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a logical plan. nodes: names of its streaming nodes."""

    nodes: frozenset[str]

    @property
    def watermark(self) -> bool:
        return "EventTimeWatermark" in self.nodes

    @property
    def stateful(self) -> bool:
        return bool(self.nodes & _HOLDING)

    def holds(self, emit: str) -> bool:
        """Rows wait for a later micro-batch; in update mode none does, except for a partner."""
        waiting = self.nodes & _HOLDING if emit == "final" else self.nodes & {"Join"}
        return bool(waiting - {"Deduplicate", "DeduplicateWithinWatermark", "Distinct"})


def choice(found: Shape, *, sql: bool, steady: bool, plain: bool) -> tuple[str, str]:
    """The mode, and why, as `holdfast check` says it.

    Args:
        steady: a record that is read again gives the same row. plain: no column of the output is a list or a struct.
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

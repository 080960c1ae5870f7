"""How a query runs: the choice of its mode, and whether a watermark at the end brings out what it holds.

Source: PROTOCOL 12.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

MICRO_BATCH = "micro-batch"

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


_OUTPUT_MODES = {"final": "append", "updates": "update"}


def output_mode(emit: str) -> str:
    """Spark's name for what the job file calls `emit`."""
    return _OUTPUT_MODES[emit]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a logical plan is made of. nodes: names of its streaming nodes."""

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


def reason(found: Shape, sql: bool) -> str:
    """Why the query runs in micro-batches, as `holdfast check` says it."""
    if not sql:
        return "it may call Python functions, which real-time mode does not run"
    if found.stateful:
        return "it keeps state, which real-time mode does not"
    return "its rows could come in real-time mode, which is not available yet"


def shape(nodes: Collection[str]) -> Shape:
    return Shape(frozenset(nodes))

"""Places of a job's operators in its picture, each to the right of all operators that feed it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SWEEPS = 4


def layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Columns from left to right, each from top to bottom.

    names: names in topological order.
    edges: pairs (from, to).
    """
    before: dict[str, list[str]] = {name: [] for name in names}
    after: dict[str, list[str]] = {name: [] for name in names}
    for producer, consumer in edges:
        before[consumer].append(producer)
        after[producer].append(consumer)
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[one] + 1 for one in before[name]), default=0)
    for name in reversed(names):  # a source stands just before its first reader
        if not before[name] and after[name]:
            depth[name] = min(depth[one] for one in after[name]) - 1
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in names:
        columns[depth[name]].append(name)
    for _ in range(SWEEPS):
        for index in range(1, len(columns)):
            columns[index] = _by_neighbours(columns[index], before, _heights(columns))
        for index in range(len(columns) - 2, -1, -1):
            columns[index] = _by_neighbours(columns[index], after, _heights(columns))
    return columns


def _heights(columns: Sequence[Sequence[str]]) -> dict[str, float]:
    """0 at the top to 1 at the bottom."""
    return {name: (at + 0.5) / len(column) for column in columns for at, name in enumerate(column)}


def _by_neighbours(
    column: list[str], neighbours: Mapping[str, Sequence[str]], heights: Mapping[str, float]
) -> list[str]:
    """The column sorted by the mean height of the neighbours; a name without neighbours keeps its height."""

    def wanted(name: str) -> float:
        near = neighbours[name]
        return sum(heights[one] for one in near) / len(near) if near else heights[name]

    return sorted(column, key=wanted)

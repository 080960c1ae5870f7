"""Panes of closed windows, column by column, and sums of several panes.

Source: JOBS "window", MECHANISMS C10. A pane is part of as many windows as slides fit into a window's size: it is read
from the state once for all of them. A row that is late for one of these windows may still change the pane for the
others; then the pane is forgotten and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from holdfast.services.kernel.operators.accumulators import Columns, as_list
from holdfast.services.kernel.operators.grouping import Grouping

MAX_KEPT = 500_000
"""The most keys of all cached panes; other panes are read from the state again."""


class Pane(NamedTuple):
    """Distinct keys, and the column of each accumulator."""

    keys: list[bytes]
    columns: Columns


class Panes:
    """A cache of panes.

    Args:
        load: reads a pane from the state.
    """

    def __init__(self, load: Callable[[int], Pane]) -> None:
        self._load = load
        self._kept: dict[int, Pane] = {}
        self._size = 0

    def get(self, start: int) -> Pane:
        kept = self._kept.get(start)
        if kept is not None:
            return kept
        pane = self._load(start)
        if self._size + len(pane.keys) <= MAX_KEPT:
            self._kept[start] = pane
            self._size += len(pane.keys)
        return pane

    def forget(self, starts: Iterable[int]) -> None:
        for start in starts:
            if (pane := self._kept.pop(start, None)) is not None:
                self._size -= len(pane.keys)


class GrowingPane:
    """The sum of the first panes of windows with the same begin, so that the next window adds only its own panes."""

    def __init__(self, load: Callable[[int], Pane], grouping: Grouping) -> None:
        self._load = load
        self._grouping = grouping
        self._begin = 0
        self._panes = list[int]()
        self._sum = Pane([], [])

    def get(self, begin: int, panes: list[int]) -> Pane:
        """The sum of the panes of a window that begins at `begin`."""
        known = len(self._panes)
        if begin != self._begin or panes[:known] != self._panes:
            known, self._sum = 0, Pane([], [])
        first = [self._sum] if known else []
        self._sum = merged([*first, *map(self._load, panes[known:])], self._grouping)
        self._begin = begin
        self._panes = panes
        return self._sum

    def forget(self, panes: Iterable[int]) -> None:
        if not set(self._panes).isdisjoint(panes):
            self._panes = []


def merged(panes: Iterable[Pane], grouping: Grouping) -> Pane:
    """Merges several panes into one, added in the given order; panes with the same keys are added column by column.

    Keys are in the order of their first occurrence.
    """
    keys: list[bytes] = []
    columns: Columns = [[] for _ in range(grouping.width)]
    for pane in panes:
        if not keys:
            keys, columns = pane
        elif pane.keys == keys:
            columns = grouping.merge_columns(columns, pane.columns)
        else:
            keys, columns = _joined(keys, columns, pane, grouping)
    return Pane(keys, columns)


def _joined(keys: list[bytes], columns: Columns, pane: Pane, grouping: Grouping) -> Pane:
    places = dict(zip(keys, range(len(keys)), strict=True))
    new = [key for key in pane.keys if key not in places]
    places.update(zip(new, range(len(keys), len(keys) + len(new)), strict=True))
    at = [places[key] for key in pane.keys]
    found = [[*as_list(column), *[None] * len(new)] for column in columns]
    added = grouping.merge_columns([[column[place] for place in at] for column in found], pane.columns)
    for column, values in zip(found, added, strict=True):
        for place, value in zip(at, as_list(values), strict=True):
            column[place] = value
    return Pane([*keys, *new], [*found])

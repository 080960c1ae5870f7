"""Counts of records that several operators drop as late: the operator that counts one, and the name of the count.

Operators that see the same records by the same watermark drop some of them together. The rows that the others have
dropped follow from the watermark alone, so the first one counts a record and the later ones leave it out. A name says
which records those are: the source, then the operators that let only some of its records pass. services/view/losses.py
adds the counts up. Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import Edge, OperatorPlan
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Passing


@dataclass(frozen=True, slots=True)
class Counted:
    """Count of one slot. before: slots of operators, as planned, that count what they drop of the same records."""

    name: str
    before: tuple[tuple[OperatorPlan, int], ...] = ()

    def number(self, times: pl.Series, watermark: int) -> int:
        """Number of the dropped rows that no other operator counts. watermark: after the batch before."""
        closed = (catalogue.KINDS[one.kind].closed_us(one.params, watermark, slot) for one, slot in self.before)
        return int((times >= max(closed, default=NO_WATERMARK)).sum())


class Stream(NamedTuple):
    """Records of an edge. roots: where they began; path: the operators that let some of them pass."""

    roots: frozenset[str]
    path: tuple[str, ...] = ()


def counted(
    operators: Mapping[str, OperatorPlan], into: Mapping[str, Sequence[Edge]]
) -> dict[str, tuple[Counted, ...]]:
    """By operator that closes something by time, one a slot."""
    streams = _Streams(operators, into)
    slots = sorted(
        (streams.clocked(name, slot), name, slot)
        for name, operator in operators.items()
        if catalogue.KINDS[operator.kind].closes(operator.params)
        for slot in range(len(into[name]))
    )
    found: dict[str, list[Counted]] = {}
    for path, name, slot in sorted(slots, key=lambda one: (one[1], one[2])):
        before = [other for other in slots if _behind(path, other[0]) and _rank(other) < _rank((path, name, slot))]
        counting = ((operators[one], its) for _, one, its in before)
        drops = tuple((one, its) for one, its in counting if one.params.get("late") != "topic")
        found.setdefault(name, []).append(Counted(">".join(path), drops))
    return {name: tuple(some) for name, some in found.items()}


_Slot = tuple[tuple[str, ...], str, int]


def _rank(slot: _Slot) -> tuple[int, str, int]:
    """An operator that sees all records comes before one that sees some of them."""
    path, name, index = slot
    return len(path), name, index


def _behind(path: Sequence[str], other: Sequence[str]) -> bool:
    """All its records pass by the other place, too."""
    return tuple(path[: len(other)]) == tuple(other)


class _Streams:
    """The streams of a plan."""

    def __init__(self, operators: Mapping[str, OperatorPlan], into: Mapping[str, Sequence[Edge]]) -> None:
        self._operators, self._into = operators, into
        self._known: dict[str, Stream] = {}

    def clocked(self, name: str, slot: int) -> tuple[str, ...]:
        """The records of a slot. An operator that waits for other records, too, judges by a watermark of its own."""
        inputs = [self.of(edge.producer) for edge in self._into[name]]
        mine = inputs[slot]
        own = frozenset().union(*(one.roots for one in inputs)) != mine.roots
        return ("+".join(sorted(mine.roots)) + (f"|{name}" if own else ""), *mine.path)

    def of(self, name: str) -> Stream:
        """Records that an operator puts out."""
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> Stream:
        operator = self._operators[name]
        passing = catalogue.KINDS[operator.kind].passing(operator.params)
        if operator.kind == "source":
            return Stream(frozenset({name}))
        inputs = [self.of(edge.producer) for edge in self._into[name] if not self._table(edge.producer)]
        roots = [root for one in inputs for root in one.roots]
        if passing is Passing.NONE or not inputs or len(set(roots)) < len(roots):
            return Stream(frozenset({f"rows of {name}"}))
        if len(inputs) == 1 and passing is Passing.ALL:
            return inputs[0]
        path = inputs[0].path if len(inputs) == 1 else ()
        return Stream(frozenset(roots), (*path, name))

    def _table(self, name: str) -> bool:
        return bool(self._operators[name].params.get("table"))

"""Counts of records dropped as late by several operators: which operator counts a record, and the name of the count.

Operators that read the same records by the same watermark drop some of them together. The drops of each operator follow
from the watermark alone, so the first operator counts a record and later ones leave it out. The name of a count
describes its records: the source, then the operators that pass only some of its records. services/view/losses.py adds
the counts up. Source: PROTOCOL 3.
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
    """The count of one slot.

    name: the name of the count.
    before: the slots of operators, as planned, that count their drops of the same records first.
    """

    name: str
    before: tuple[tuple[OperatorPlan, int], ...] = ()

    def number(self, times: pl.Series, watermark: int) -> int:
        """The number of dropped rows that no other operator counts.

        times: the event times of the dropped rows.
        watermark: the watermark after the batch before.
        """
        closed = (catalogue.KINDS[one.kind].closed_us(one.settings, watermark, slot) for one, slot in self.before)
        return int((times >= max(closed, default=NO_WATERMARK)).sum())


class Stream(NamedTuple):
    """The records of an edge.

    roots: the sources of the records.
    path: the operators that pass only some of them.
    """

    roots: frozenset[str]
    path: tuple[str, ...] = ()


def counted(
    operators: Mapping[str, OperatorPlan], into: Mapping[str, Sequence[Edge]]
) -> dict[str, tuple[Counted, ...]]:
    """The count of each slot, by operator that closes windows or rows by time."""
    streams = _Streams(operators, into)
    slots = sorted(
        (streams.clocked(name, slot), name, slot)
        for name, operator in operators.items()
        if catalogue.KINDS[operator.kind].closes(operator.settings)
        for slot in range(len(into[name]))
    )
    found: dict[str, list[Counted]] = {}
    for path, name, slot in sorted(slots, key=lambda one: (one[1], one[2])):
        before = [other for other in slots if _behind(path, other[0]) and _rank(other) < _rank((path, name, slot))]
        counting = ((operators[one], its) for _, one, its in before)
        drops = tuple((one, its) for one, its in counting if not one.settings.keeps_late)
        found.setdefault(name, []).append(Counted(">".join(path), drops))
    return {name: tuple(some) for name, some in found.items()}


_Slot = tuple[tuple[str, ...], str, int]


def _rank(slot: _Slot) -> tuple[int, str, int]:
    """The order of counting: an operator that reads all records comes before one that reads some of them."""
    path, name, index = slot
    return len(path), name, index


def _behind(path: Sequence[str], other: Sequence[str]) -> bool:
    """True if all records of the path also reach the other place."""
    return tuple(path[: len(other)]) == tuple(other)


class _Streams:
    """The streams of a plan."""

    def __init__(self, operators: Mapping[str, OperatorPlan], into: Mapping[str, Sequence[Edge]]) -> None:
        self._operators = operators
        self._into = into
        self._known: dict[str, Stream] = {}

    def clocked(self, name: str, slot: int) -> tuple[str, ...]:
        """The path of a slot's records. An operator that also waits for other records has a watermark of its own."""
        inputs = [self.of(edge.producer) for edge in self._into[name]]
        mine = inputs[slot]
        own = frozenset().union(*(one.roots for one in inputs)) != mine.roots
        return ("+".join(sorted(mine.roots)) + (f"|{name}" if own else ""), *mine.path)

    def of(self, name: str) -> Stream:
        """The records that an operator outputs."""
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> Stream:
        operator = self._operators[name]
        passing = catalogue.KINDS[operator.kind].passing(operator.settings)
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
        return bool(self._operators[name].source.table)

"""Fuses operators into units: by default along one-to-one edges, unless the units would then wait for each other.

Source: MECHANISMS "HA unit", JOBS "placement". A unit processes a batch as a whole, so a path that leaves the unit and
returns to it would never end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.schemas.plans import Problem
from holdfast.services.planning.wiring import Link


@dataclass(slots=True)
class Fused:
    """The groups of operators that form units, and what prevented a group.

    Attributes:
        groups: groups in the order of their first operators, each in topological order; every operator is in one group.
        problems: groups of the job file that cannot be made.
        warnings: groups of the job file that were left out.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def inside(self, links: Iterable[Link]) -> set[Link]:
        """The links that stay inside a group: task i feeds task i directly, without a topic."""
        of = {name: index for index, group in enumerate(self.groups) for name in group}
        return {link for link in links if link.one_to_one and of[link.producer] == of[link.consumer]}


def fuse(
    tasks: Mapping[str, int],
    links: Sequence[Link],
    placed: Sequence[Sequence[str]],
    sinks: Mapping[str, bool] = MappingProxyType({}),
) -> Fused:
    """Returns the groups of operators whose tasks of equal index form a unit.

    A sink outside Kafka that would share a unit with another sink has one of its own: a unit has one transaction
    for all its sinks, and waits for all of them (docs/decisions/0240).

    Args:
        tasks: number of tasks by operator, in topological order.
        links: the links between the operators.
        placed: `placement.units` as names of operators; each name appears at most once.
        sinks: the sinks by name, each with True if it lies outside Kafka.
    """
    fused = _fuse(tasks, links, placed, set())
    shared = [group for group in fused.groups if len(sinks.keys() & set(group)) > 1]
    named = {name for written in placed for name in written}
    alone = {name for group in shared for name in group if sinks.get(name)} - named
    return _fuse(tasks, links, placed, alone) if alone else fused


def _fuse(
    tasks: Mapping[str, int], links: Sequence[Link], placed: Sequence[Sequence[str]], alone: Collection[str]
) -> Fused:
    grouping, fused = _Grouping(list(tasks), links), Fused()
    taken: set[str] = set()
    for index, written in enumerate(placed):
        names = [name for name in written if name in tasks]
        if _place(grouping, tasks, links, names, f"placement.units[{index}]", fused):
            taken |= set(names)
    for link in links:
        if link.one_to_one and link.consumer not in alone and not taken & {link.producer, link.consumer}:
            grouping.join(link.producer, link.consumer)
    fused.groups = grouping.groups()
    return fused


def _place(
    grouping: _Grouping,
    tasks: Mapping[str, int],
    links: Sequence[Link],
    names: Sequence[str],
    path: str,
    fused: Fused,
) -> bool:
    """Makes one group of `names`. Returns False if the group is impossible, and adds the reason to `fused`."""
    if len({tasks[name] for name in names}) > 1:
        counts = ", ".join(f"{name} {tasks[name]}" for name in names)
        message = f"a unit holds one task of each, but their numbers of tasks differ: {counts}"
        fused.problems.append(Problem(path, message, "give them the same parallelism"))
        return False
    within = [link for link in links if link.one_to_one and link.producer in names and link.consumer in names]
    if len(_connected(names, within)) > 1:
        # Without this group the job has one more hop over a topic and works, so this is only a warning.
        shown = " | ".join(", ".join(part) for part in _connected(names, within))
        fused.warnings.append(f"{path}: not connected one to one, so it cannot be one unit: {shown}")
        return False
    apart = [
        f"{link.producer} and {link.consumer}" for link in within if not grouping.join(link.producer, link.consumer)
    ]
    if apart:
        message = f"rows leave the unit and come back, so it would wait for itself: {'; '.join(apart)}"
        fused.problems.append(Problem(path, message, "leave one of them out"))
    return not apart


def _connected(names: Sequence[str], links: Iterable[Link]) -> list[list[str]]:
    """The parts of `names` that the links connect."""
    part = {name: name for name in names}
    for link in links:
        keep, gone = part[link.producer], part[link.consumer]
        part = {name: keep if of == gone else of for name, of in part.items()}
    return [[name for name in names if part[name] == of] for of in dict.fromkeys(part.values())]


class _Grouping:
    """A partition of the operators into groups that never wait for each other."""

    def __init__(self, order: Sequence[str], links: Sequence[Link]) -> None:
        self._order = order
        self._links = links
        self._of = {name: name for name in order}

    def join(self, one: str, other: str) -> bool:
        """Merges the groups of two operators. Returns False and changes nothing if the merged group would close a
        cycle."""
        before = dict(self._of)
        keep, gone = self._of[one], self._of[other]
        self._of = {name: keep if group == gone else group for name, group in before.items()}
        if self._has_cycle():
            self._of = before
            return False
        return True

    def groups(self) -> tuple[tuple[str, ...], ...]:
        found: dict[str, list[str]] = {}
        for name in self._order:
            found.setdefault(self._of[name], []).append(name)
        return tuple(tuple(group) for group in found.values())

    def _has_cycle(self) -> bool:
        """True if the groups have no order in which each group reads only earlier groups."""
        left = {group: set(self._reads(group)) for group in set(self._of.values())}
        while ready := {group for group, reads in left.items() if not reads & left.keys()}:
            left = {group: reads for group, reads in left.items() if group not in ready}
        return bool(left)

    def _reads(self, group: str) -> Iterator[str]:
        """Groups that feed this group. The group itself is among them if its rows leave it and return by key."""
        for link in self._links:
            producer, consumer = self._of[link.producer], self._of[link.consumer]
            if consumer == group and (producer != group or not link.one_to_one):
                yield producer

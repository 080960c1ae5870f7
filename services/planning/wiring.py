"""Wiring of tasks: the routing of every edge and the data topics between units.

Source: PROTOCOL 1 and 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from holdfast.schemas.plans import Edge
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import targets
from holdfast.services.planning.check import Checked


@dataclass(frozen=True, slots=True)
class Link:
    """An edge of the plan, before the plan decides which edges stay inside a unit."""

    producer: str
    consumer: str
    slot: int
    routing: str
    key: tuple[str, ...]

    @property
    def one_to_one(self) -> bool:
        return self.routing == "forward"


def links(checked: Checked, tasks: Mapping[str, int]) -> list[Link]:
    """The links of every input slot of the plan, in topological order of the consumers."""
    return [
        Link(slot.producer, name, index, *_route(checked, tasks, slot.producer, name, index))
        for name in checked.graph.order
        if name in tasks
        for index, slot in enumerate(checked.graph.slots[name])
    ]


def _route(
    checked: Checked, tasks: Mapping[str, int], producer: str, consumer: str, slot: int
) -> tuple[str, tuple[str, ...]]:
    writing, reading = tasks[producer], tasks[consumer]
    apart = catalogue.KINDS[checked.kind(consumer)].asks(checked.settings(consumer))
    if reading == 1:
        return ("forward" if writing == 1 and not apart else "merge"), ()
    if key := _key(checked, consumer, slot):
        return "keyed", key
    # Rows that replace one another must stay in one task, else the older could arrive last.
    replaced = checked.streams[producer].row_key
    if replaced and not set(_key(checked, producer)) <= set(replaced) and writing > 1:
        # A join with a table keeps its left side's key, whatever it was joined on.
        return "keyed", replaced
    if writing == reading:
        return ("merge" if apart else "forward"), ()  # by frames, which lie here while others are asked
    if writing > reading:
        return "merge", ()
    return ("keyed", replaced) if replaced else ("spread", ())


def _key(checked: Checked, consumer: str, slot: int = 0) -> tuple[str, ...]:
    """Columns of an input whose equal values must reach the same task; empty if any task may get any row."""
    return catalogue.KINDS[checked.kind(consumer)].key_of(checked.settings(consumer), slot)


def edges(
    found: Iterable[Link], tasks: Mapping[str, int], inside: Collection[Link], topics: JobTopics
) -> tuple[Edge, ...]:
    """Returns the edges of the plan. Each link that leaves its unit gets a data topic; consumers that read in the same
    way share it. `inside` holds the one-to-one links whose ends share a unit."""
    numbers: dict[str, dict[tuple[str, tuple[str, ...], int], int]] = {}
    made = []
    for link in found:
        topic = None
        if link not in inside:
            known = numbers.setdefault(link.producer, {})
            number = known.setdefault((link.routing, link.key, tasks[link.consumer]), len(known))
            topic = topics.data(link.producer, number)
        made.append(Edge(link.producer, link.consumer, link.slot, link.routing, key=link.key, topic=topic))
    return tuple(made)


def frames_per_batch(made: Iterable[Edge], tasks: Mapping[str, int]) -> int:
    """The number of frames that all writers send for one batch: one for each target in each data topic."""
    written = {edge.topic: edge for edge in made if edge.topic is not None}
    return sum(
        len(targets(edge.routing, writer, tasks[edge.consumer]))
        for edge in written.values()
        for writer in range(tasks[edge.producer])
    )

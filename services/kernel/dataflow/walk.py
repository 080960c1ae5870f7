"""The path of a batch through a unit: from sources and frames, through the tasks, to rows, frames and dead letters.

Workers, `try` and replays use this path and deliver the outcome in their own ways. Source: PROTOCOL 3 and 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import TaskRaised
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.services.kernel.dataflow.cut_records import Brought
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.inputs import Inputs
from holdfast.services.kernel.dataflow.unit import Produced, Unit
from holdfast.services.kernel.plans.layout import TaskLayout


class Source(Protocol):
    """The feed of a source task.

    task: the source task.
    ended: True once its last cut is done.
    """

    task: TaskLayout
    ended: bool

    def ready(self, batch: int) -> bool:
        """True if the batch is cut and its records are here, or the source has ended."""
        ...

    def take(self, batch: int) -> Brought:
        """Returns a ready batch and drops it."""
        ...


class Walked(NamedTuple):
    """The outcome of a batch.

    produced: the outcome of the unit's tasks.
    dead: the dead letters of the sources, then those of the operators.
    rows: True if the batch had input rows.
    records: the number of records that the sources took in.
    lost: by source, the number of records that were gone before they were read.
    edges: records and bytes along each edge into the unit, by source or by the edge's name (schemas/topics.py).
    """

    produced: Produced
    dead: list[DeadLetter]
    rows: bool
    records: int
    lost: Counter[str]
    edges: dict[str, tuple[int, int]]


def ready(batch: int, sources: Mapping[str, Source], inputs: Inputs) -> bool:
    """True if all that the batch needs is here."""
    for source in sources.values():  # called in every turn of a copy: a generator would take twice as long
        if not source.ready(batch):
            return False
    return inputs.ready(batch)


def pass_over(batch: int, sources: Mapping[str, Source], inputs: Inputs) -> dict[str, tuple[int, int]]:
    """Takes a ready batch without processing it; returns records and bytes along each edge, as in Walked.

    Records that were gone before they were read count among those of their source.
    """
    edges: dict[str, tuple[int, int]] = {}
    for source in sources.values():
        if not source.ended:
            brought = source.take(batch)
            edges[source.task.operator.name] = (brought.records + brought.lost, brought.bytes)
    frames = inputs.take(batch)
    for edge, slot in inputs.edges.items():
        edges[edge] = (frames[slot].rows.height, frames[slot].bytes)
    return edges


def walk(
    unit: Unit,
    batch: int,
    sources: Mapping[str, Source],
    inputs: Inputs,
    raised: Mapping[str, TaskRaised] | None = None,
    answers: Mapping[str, Answer] = MappingProxyType({}),
) -> Walked:
    """Processes a ready batch.

    Args:
        sources: by source task, its feed.
        raised: see Unit.process.
        answers: see Unit.process.
    """
    fed: dict[str, Fed] = {}
    dead: list[DeadLetter] = []
    records, lost, edges = 0, Counter[str](), dict[str, tuple[int, int]]()
    for name, source in sources.items():
        if source.ended:
            continue
        brought = source.take(batch)
        fed[name] = brought.fed
        dead += brought.dead
        records += brought.taken_in
        lost[source.task.operator.name] += brought.lost
        edges[source.task.operator.name] = (brought.records, brought.bytes)
    frames = inputs.take(batch)
    for edge, slot in inputs.edges.items():
        edges[edge] = (frames[slot].rows.height, frames[slot].bytes)
    produced = unit.process(batch, fed, frames, raised, answers)
    rows = any(one.rows.height for some in (fed, frames) for one in some.values())
    return Walked(produced, [*dead, *produced.dead], rows, records, lost=lost, edges=edges)

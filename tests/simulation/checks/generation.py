"""An admitted job, as the checkers fold what was written of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.plans import Ended, Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.plans.layout import readers
from tests.simulation.kafka.broker import Written, decision_of
from tests.simulation.kafka.names import TOPICS


@dataclass(slots=True)
class Generation:
    """An admitted job, and its checkpoint logs as folded so far."""

    plan: Plan
    topics: JobTopics
    ended: str | None = None
    reading: Mapping[Partition, tuple[str, ...]] = field(default_factory=dict)
    folds: dict[Partition, CheckpointLog] = field(default_factory=dict)

    def unit_of(self, partition: Partition) -> str:
        return next(unit.name for unit in self.plan.units if unit.partition == partition.index)

    def fold(self, unit: str) -> CheckpointLog:
        partition = next(one.partition for one in self.plan.units if one.name == unit)
        return self.folds[Partition(self.topics.checkpoints, partition)]


def generations_of(written: list[Written]) -> list[Generation]:
    admitted, found = Admitted(), {}
    for one in written:
        if one.partition.topic != TOPICS.plans:
            continue
        decision = decision_of(one)
        if decision is not None and admitted.read(decision):
            if isinstance(decision, Plan):
                topics = TOPICS.job(decision.job, decision.generation)
                found[decision.generation] = Generation(decision, topics, reading=readers(decision, topics))
            elif isinstance(decision, Ended):
                found[decision.generation].ended = decision.reason
    return list(found.values())

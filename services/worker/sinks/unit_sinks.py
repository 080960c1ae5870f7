"""The sinks of a unit: what the plan says about the rows that it delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.schemas.plans import OperatorPlan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.sinks.outside_kafka import OutsideKafka


@dataclass(frozen=True, slots=True)
class UnitSinks:
    """The sinks of one unit, for one delivery."""

    topics: JobTopics
    """The topics of the job."""
    unit: str
    """The unit named in the position record."""
    partition: int = 0
    """The partition of the topic of positions."""
    dead_letters: bool = True
    """True if rows too large for their topic become dead letters; otherwise they raise InvalidRecord."""
    interval_ms: int = 0
    """The time for which rows gather between two transactions; 0 for none."""
    tentative: Mapping[str, OperatorPlan] = field(default_factory=dict)
    """The sinks of queries with tentative results, by query."""
    outside: OutsideKafka = field(default_factory=OutsideKafka)
    """The sinks that write files or tables."""

    @classmethod
    def of(cls, job: JobView, layout: UnitLayout) -> UnitSinks:
        unit = layout.unit
        return cls(
            job.topics,
            unit.name,
            unit.partition,
            dead_letters=job.plan.settings.on_error != "fail",
            interval_ms=_commit_interval_ms(layout),
            tentative=_tentative(layout),
            outside=OutsideKafka.of(layout, job.topics),
        )

    @property
    def position(self) -> Partition:
        """The partition of the unit's position records."""
        return Partition(self.topics.delivered, self.partition)


def written(layout: UnitLayout, topics: JobTopics) -> list[str]:
    """The topics that the unit's transactions write."""
    sinks = {topic for task in layout.tasks if (topic := task.operator.written_topic)}
    return [*sorted(sinks), topics.delivered, topics.dead_letters]


def _tentative(layout: UnitLayout) -> dict[str, OperatorPlan]:
    sinks = [task.operator for task in layout.tasks if task.operator.sink.tentative]
    return {sink.sink.query: sink for sink in sinks}


def _commit_interval_ms(layout: UnitLayout) -> int:
    """The smallest interval of the unit's queries; 0 if rows do not wait."""
    sinks = (task.operator for task in layout.tasks if task.operator.kind == "sink")
    return min((sink.sink.commit_interval_ms or 0 for sink in sinks), default=0)

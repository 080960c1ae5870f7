"""What a worker knows of one job it takes part in: the plan, its topics and layouts, and everybody's progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.assignments import unit_key
from schemas.plans import Plan, SourcePlan
from schemas.progress import Progress
from schemas.topics import ClusterTopics, JobTopics, Partition, generation_number
from services.kernel.assigned import Assigned
from services.kernel.planning.layout import UnitLayout, readers, unit_layouts
from services.worker.core.cutting import Rhythm
from services.worker.core.trimming import later


@dataclass(slots=True)
class JobView:
    """One generation of a job. progress: the newest known of each unit, by unit name. assigned: who runs what."""

    plan: Plan
    topics: JobTopics
    layouts: dict[str, UnitLayout]
    readers: dict[Partition, tuple[str, ...]]
    assigned: Assigned
    progress: dict[str, Progress] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, cluster: ClusterTopics, assigned: Assigned) -> JobView:
        topics = cluster.job(plan.job, plan.generation)
        return cls(plan, topics, unit_layouts(plan, topics), readers(plan, topics), assigned)

    @property
    def number(self) -> int:
        return generation_number(self.plan.generation)

    @property
    def rhythm(self) -> Rhythm:
        spec = self.plan.spec
        return Rhythm(
            interval_ms=self.plan.interval_ms,
            max_records=int(spec["max_batch_records"]),
            max_bytes=int(spec["max_batch_bytes"]),
        )

    @property
    def checkpoint_interval_ms(self) -> int:
        checkpoint: dict[str, Any] = (self.plan.spec.get("fault_tolerance") or {}).get("checkpoint") or {}
        return int(checkpoint.get("interval_ms") or 500)

    def key(self, unit: str) -> str:
        return unit_key(self.plan.job, self.plan.generation, unit)

    def switched(self, unit: str) -> bool:
        """Its primary is away and may come back."""
        change = self.assigned.of(self.key(unit))
        return change is not None and change.switched

    def source(self, operator: str) -> SourcePlan:
        return next(source for source in self.plan.sources if source.operator == operator)

    def read_progress(self, record: Progress) -> None:
        known = self.progress.get(record.unit)
        self.progress[record.unit] = record if known is None else later(known, record)

    @property
    def slowest(self) -> int:
        """The lowest batch that a unit of the job has processed; ended units do not count."""
        known = [self.progress.get(unit) for unit in self.layouts]
        return min((0 if p is None else p.processed for p in known if p is None or not p.ended), default=0)

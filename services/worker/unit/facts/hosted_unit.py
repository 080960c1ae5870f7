"""A unit of a job on this host: what every part of its copy is made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.services.kernel.plans.layout import UnitLayout
from holdfast.services.worker.core.spent import Spent
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.surroundings import HostServices


@dataclass(frozen=True, slots=True, eq=False)
class HostedUnit:
    """A unit for one copy of it."""

    job: JobView
    layout: UnitLayout
    around: HostServices
    """The services of the host."""
    spent: Spent = field(default_factory=Spent)
    """The costs of the copy so far."""

    @property
    def name(self) -> str:
        return self.layout.unit.name

    @property
    def key(self) -> str:
        return self.job.key(self.name)

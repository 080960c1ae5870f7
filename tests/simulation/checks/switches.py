"""Rules for a switched unit: both copies work until its primary is calm, whoever leads meanwhile, and nothing lasts.

Source: MECHANISMS H3, H4 and H6, PROTOCOL 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Change, generation_of
from holdfast.schemas.plan_settings import TolerancePlan
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.unit.facts.schemes import Rung
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS

HYBRID = "hybrid"
LASTS_US = 5_000_000
"""A unit may be switched for so much longer than its terms say: replicas, brokers and standbys may be away."""


@dataclass(slots=True)
class _Trace:
    """All that was written so far, by unit. before_us: time of its last record. rungs: of its second copy."""

    plan: Plan
    assigned: Assigned = field(default_factory=Assigned)
    before_us: dict[str, int] = field(default_factory=dict)
    switched_us: dict[str, int] = field(default_factory=dict)
    rungs: dict[str, Rung | None] = field(default_factory=dict)

    @property
    def _tolerance(self) -> TolerancePlan:
        return self.plan.settings.fault_tolerance

    @property
    def _calm_us(self) -> int:
        return 1000 * self._tolerance.hybrid.calm_ms

    @property
    def _lasts_us(self) -> int:
        return int(self._tolerance.fail_stop_timeout_s * 1_000_000) + self._calm_us + LASTS_US

    def read(self, one: Written) -> Iterator[str]:
        if one.partition.topic == TOPICS.assignments:
            for change in self.assigned.read(assignments.decode(one.value)):
                if generation_of(change.unit) == self.plan.generation:
                    yield from self._changed(change, one.time_us)

    def _changed(self, change: Change, now_us: int) -> Iterator[str]:
        what = f"{change.unit.rpartition('/')[2]}#{change.epoch}"
        since_us = self.switched_us.pop(change.unit, now_us)
        if now_us - since_us > self._lasts_us:
            yield f"switched: until {what} the unit was switched for {(now_us - since_us) / 1_000_000:.1f} s"
        if stance(change) is Stance.SWITCHED:
            self.switched_us[change.unit] = since_us
            if Rung.of(change.copies[0].flags) is not Rung.ACTIVE:
                yield f"switched: the primary of {what} does not process and send"
        if change.reason.startswith(Sign.SECONDARY_SILENT.value) and _rung(change) is not Rung.ACTIVE:
            yield f"switched: the secondary of {what} is suspended though it may have to lead"
        was, self.rungs[change.unit] = self.rungs.get(change.unit), _rung(change)
        down = change.scheme == HYBRID and was is Rung.ACTIVE and change.reason.startswith(Sign.STEP_DUE.value)
        if down or change.reason.startswith(Sign.PRIMARY_WELL.value):
            calm_us = now_us - self.before_us[change.unit]
            if calm_us < self._calm_us:
                worker = change.copies[0].worker
                yield f"switched: {worker} leads alone by {what}, {calm_us / 1000:.0f} ms after the record before"
        self.before_us[change.unit] = now_us


def _rung(change: Change) -> Rung | None:
    """The rung of the second copy; None: it leads, or there is none."""
    return Rung.of(change.copies[1].flags) if len(change.copies) > 1 else None


def check(written: list[Written], plan: Plan) -> Iterator[str]:
    """Checks one job. written: everything, in the order of time."""
    trace = _Trace(plan)
    for one in written:
        yield from trace.read(one)

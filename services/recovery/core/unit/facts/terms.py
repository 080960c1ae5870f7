"""Terms of a job for its units, from its plan and from later requests of users, and the goal of the job for each unit.

Source: JOBS "fault_tolerance", PROTOCOL 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.schemas.assignments import unit_key
from holdfast.schemas.incidents import Place
from holdfast.schemas.plan_settings import TolerancePlan
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.gaps import skipping_units
from holdfast.services.kernel.plans.pinning import ANY, Pin, pins
from holdfast.services.kernel.plans.priorities import LEAST, priorities
from holdfast.services.recovery.core.placement.domains import ZONE
from holdfast.services.recovery.core.unit.facts.promise import Promise, promise
from holdfast.services.recovery.core.unit.facts.schemes import ADAPTIVE, SCHEMES, Rung

_DEFAULTS = TolerancePlan()
CUTTING = ("source", "spark")
"""Kinds of operators whose batches the leader of their unit cuts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A scheme that a user asked for; the last request counts.

    offset: of the job or the command in `jobs.submit`.
    """

    scheme: str
    offset: int

    @property
    def adaptive(self) -> bool:
        return self.scheme == ADAPTIVE


@dataclass(frozen=True, slots=True)
class AskedMove:
    """A worker to which a user wants a unit moved.

    offset: of the command in `jobs.submit`.
    since_us: time at which this replica read the command.
    drill: true for a drill: the next leader takes over as if the primary had failed.
    """

    worker: str
    offset: int
    since_us: int
    drill: bool = False


@dataclass(frozen=True, slots=True)
class Directed:
    """The scheme that the replication plan directs for a unit.

    number: of the plan.
    asked: offset of the job, as in Asked; a scheme that a user asked for later takes the unit out of the plan.
    fidelity: the expected output fidelity of the plan, 0 to 1.
    """

    scheme: str
    number: int
    asked: int
    fidelity: float


@dataclass(frozen=True, slots=True)
class Want:
    """The goal of the job for one unit.

    placed: true if the unit is to have copies.
    since: offset of the goal in `assignments`.
    reason, asked: those of the stop.
    """

    placed: bool
    since: int = -1
    reason: str = ""
    asked: int = -1

    def undone(self, offset: int) -> bool:
        """True if a record at this offset that leaves the unit without copies does not meet the stop.

        A record from before the goal does not meet it: another record without copies follows the goal, so that a
        replica that
        has not read the goal cannot place the unit.
        """
        return not self.placed and offset < self.since


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one unit in an incident, as long as no copy of the unit can continue.

    turn: its place in the plan; -1: no slot yet.
    line: the line on which it begins again; 0: at its own newest checkpoint.
    place: the worker that has its slot.
    held_up: true while units that send to it have not gone back yet, so that its input is not resent.
    limited: true if the unit is restored only while the slot is free.
    """

    turn: int = -1
    line: int = 0
    place: Place | None = None
    held_up: bool = False
    limited: bool = True

    @property
    def granted(self) -> bool:
        return self.turn >= 0


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of one unit.

    misses: missed heartbeats before a takeover, in place of the scheme's own number.
    fail_stop_us: silence after which a worker is gone.
    inputs_held: true if a suspended secondary under `hybrid` receives.
    calm_us: time for which a primary under `hybrid` must have answered before it leads again.
    pin: versions that may lead.
    host: the kind of process that takes a copy.
    rebalance_us: least time between two moves of the unit that no user asked for.
    spread: the kind of domain that keeps its copies apart.
    priority: of the most important query that needs it.
    policy: the checkpoint policy of the plan.
    promise: of an adaptive unit.
    planned: true if a replication plan decides on its replica.
    delivers: true if the unit may write rows.
    alone: true if the unit has work that only its leader does.
    interval_ms: time between two batches.
    """

    asked: Asked
    misses: int | None = None
    fail_stop_us: int = int(_DEFAULTS.fail_stop_timeout_s * 1_000_000)
    inputs_held: bool = True
    calm_us: int = _DEFAULTS.hybrid.calm_ms * 1000
    pin: Pin = ANY
    host: str = ""
    rebalance_us: int = int(_DEFAULTS.rebalance_period_s * 1_000_000)
    spread: str = ZONE
    priority: int = LEAST
    policy: str = _DEFAULTS.checkpoint.policy
    promise: Promise = field(default_factory=Promise)
    planned: bool = False
    delivers: bool = False
    alone: bool = False
    interval_ms: float = 10.0

    @property
    def unsteady_us(self) -> int:
        """Time after a switch from which an unwell primary counts as gone; until then the records that it needs are
        kept.
        """
        return self.fail_stop_us + self.calm_us

    def target(self, scheme: str) -> Rung:
        """Returns the rung of the secondary while all is well."""
        if scheme == "hybrid" and not self.inputs_held:
            return Rung.COLD
        return SCHEMES[scheme].secondary

    def misses_of(self, scheme: str) -> int | None:
        own = SCHEMES[scheme].misses
        return own if own is None else self.misses or own


def terms(plan: Plan) -> dict[str, Terms]:
    """Returns the terms of each unit of the plan, by unit key."""
    tolerance, placement = plan.settings.fault_tolerance, plan.settings.placement
    skipping = skipping_units(plan)
    cutting = {operator.name for operator in plan.operators if operator.kind in CUTTING}
    offset, important, pinned = int(plan.generation.split("-")[0]), priorities(plan), pins(plan)
    return {
        (key := unit_key(plan.job, plan.generation, unit.name)): Terms(
            Asked(unit.scheme if unit.scheme in (*SCHEMES, ADAPTIVE) else "none", offset),
            misses=tolerance.misses,
            fail_stop_us=int(tolerance.fail_stop_timeout_s * 1_000_000),
            inputs_held=tolerance.hybrid.inputs == "held",
            calm_us=1000 * tolerance.hybrid.calm_ms,
            pin=pinned[key],
            host=unit.host,
            rebalance_us=int(tolerance.rebalance_period_s * 1_000_000),
            spread=placement.spread_by,
            priority=important[unit.name],
            policy=tolerance.checkpoint.policy,
            promise=promise(tolerance, unit.name not in skipping),
            planned=unit.planned,
            delivers=unit.delivers,
            alone=unit.delivers or not cutting.isdisjoint(unit.operators),
            interval_ms=float(plan.interval_ms),
        )
        for unit in plan.units
    }

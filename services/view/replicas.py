"""Units of a running job that have a replica by its budget, and why: the plan in force beside the measurements.

Source: MECHANISMS P14.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.schemas.assignments import ReplicationPlan
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.fidelity.loss import of_queries
from holdfast.services.kernel.fidelity.of_job import Rates, budget_share, planned
from holdfast.services.kernel.fidelity.planners.plan import names, presence, value
from holdfast.services.kernel.fidelity.planners.structured import structure_aware


class Replica(msgspec.Struct, frozen=True):
    """Replica of one unit.

    planned: true if the plan in force gives the unit a replica.
    scheme: its present scheme.
    lost: output fidelity that this unit's replica alone adds to the others, or would add.
    """

    unit: str
    planned: bool
    scheme: str
    lost: float


class Replicas(msgspec.Struct, frozen=True):
    """Output of `holdfast explain JOB --replicas`.

    number: number of the plan in force; 0: there is none yet.
    budget: number of units that may have a replica.
    left_out: number of units that have a scheme of their own, are adaptive or run on Spark.
    fidelity, queries: output fidelity, of all and by query, without the unplanned units, at the rates measured now.
    following: units that a larger budget would add next.
    following_fidelity: output fidelity with these units.
    """

    number: int
    budget: int
    left_out: int
    units: tuple[Replica, ...]
    fidelity: float
    queries: dict[str, float]
    following: tuple[str, ...]
    following_fidelity: float


def replicas(plan: Plan, current: ReplicationPlan | None, schemes: Mapping[str, str], rates: Rates) -> Replicas | None:
    """The job's replicas; None if the job has no budget.

    schemes: the present scheme, by unit.
    """
    share = budget_share(plan)
    if share is None:
        return None
    of = planned(plan, rates)
    topology = of.topology
    chosen = [topology.numbers[name] for name in (() if current is None else current.units) if name in of.units]
    fidelity = value(topology, chosen)
    more = structure_aware(topology, len(of.units) - len(chosen), chosen).steps[:1]
    units = tuple(
        Replica(name, number in chosen, schemes.get(name, "-"), abs(fidelity - value(topology, {*chosen} ^ {number})))
        for name in of.units
        for number in [topology.numbers[name]]
    )
    return Replicas(
        0 if current is None else current.number,
        of.budget(share),
        len(of.left_out),
        units,
        fidelity=fidelity,
        queries=of_queries(topology, presence(topology, chosen)),
        following=names(topology, more[0].units) if more else (),
        following_fidelity=more[0].fidelity if more else fidelity,
    )

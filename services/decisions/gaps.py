"""Units that may skip batches when a copy takes over: precision `gap`.

Source: MECHANISMS A2 (gap recovery), docs/decisions/0102. Every copy of a unit must send the same frames to others, so
only a unit without readers may skip batches. A unit without state has nothing to catch up with. The entries of a table,
and the rows at which code raises, must be complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.services.decisions.answers import asking_units
from holdfast.services.decisions.policies import ALIGNED, planned
from holdfast.services.decisions.raises import may_raise
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import OperatorKind


def asked(plan: Plan) -> bool:
    """True if the job asks for gap recovery."""
    return plan.settings.fault_tolerance.precision == "gap"


def skipping_units(plan: Plan) -> frozenset[str]:
    """Returns the units that skip the batches which their predecessor processed since the newest marker."""
    if not asked(plan):
        return frozenset()
    return frozenset(unit.name for unit in plan.units if not unit.host and not next(_against(plan, unit), ""))


def replaying_units(plan: Plan) -> dict[str, str]:
    """Returns the other units of a job that asks for gap recovery, and the reason why each replays."""
    if not asked(plan):
        return {}
    found = {unit.name: next(_against(plan, unit), "") for unit in plan.units if not unit.host}
    return {unit: why for unit, why in found.items() if why}


def _against(plan: Plan, unit: UnitPlan) -> Iterator[str]:
    if planned(plan).policy == ALIGNED:
        yield "its checkpoints are aligned, so that it may be rolled back"
    own = [one for one in plan.operators if one.name in unit.operators]
    tables = plan.tables
    if any(edge.topic is not None and edge.producer in unit.operators for edge in plan.edges):
        yield "it feeds other units"
    kinds = ((catalogue.KINDS[one.kind], one.settings) for one in own)
    if not any(isinstance(kind, OperatorKind) and kind.stateful(settings) for kind, settings in kinds):
        yield "it has no state to catch up with"
    if tables & set(unit.operators):
        yield "it reads a table"
    if unit.name in may_raise(plan):
        yield "its code may raise"
    if unit.name in asking_units(plan):
        yield "its code awaits answers"

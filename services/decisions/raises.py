"""Fold of the cut log for users' code that raised: the leader of a unit, and its valid records.

A leader announces itself in the cut log, and only its records count from there on: a former leader that was frozen with
a record in hand, and wakes, changes nothing any more. Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import structs

from holdfast.schemas.cuts import Leading, Leads, Raised, TaskRaised
from holdfast.schemas.plans import Plan, UnitPlan
from holdfast.services.kernel.operators import catalogue


class Raises:
    """Raises of one job.

    Args:
        units: names of the units whose code may raise.
        leads: the leaders of units where the fold begins.
    """

    def __init__(self, units: Collection[str], leads: Mapping[str, Leading]) -> None:
        self._units = frozenset(units)
        self._leads = dict(leads)

    @property
    def leads(self) -> dict[str, Leading]:
        """The leaders by unit, as a copy."""
        return dict(self._leads)

    def of(self, unit: str) -> Leading | None:
        """Returns the leader of a unit; None before its first announcement."""
        return self._leads.get(unit)

    def read(self, record: Leads | Raised, newest: int) -> bool:
        """Takes a record; True if it is valid.

        newest: the highest batch that any source task has cut.
        """
        before = self._leads.get(record.unit)
        if isinstance(record, Leads):
            valid = record.unit in self._units and (before is None or record.epoch >= before.epoch)
            if valid:
                batch = 0 if before is None else before.batch
                self._leads[record.unit] = Leading(record.epoch, record.id, batch)
            return valid
        if before is None or before.id != record.lead or not before.batch < record.batch <= newest:
            return False
        if not record.tasks or not all(map(_well_formed, record.tasks.values())):
            return False
        self._leads[record.unit] = structs.replace(before, batch=record.batch)
        return True


def _well_formed(raised: TaskRaised) -> bool:
    """True if the ranges are in order, none is empty, and each has a reason or several rows."""
    end = 0
    for rows in raised.rows:
        if rows.start < end or rows.stop <= rows.start:
            return False
        if not (0 <= rows.reason < len(raised.reasons) or (rows.reason == -1 and rows.stop - rows.start > 1)):
            return False
        end = rows.stop
    return bool(raised.rows)


def may_raise(plan: Plan) -> frozenset[str]:
    """Returns the units with an operator that skips the rows at which its code raises."""
    skipping = {one.name for one in plan.operators if catalogue.KINDS[one.kind].skips(one.settings)}
    return frozenset(unit.name for unit in plan.units if not unit.host and _has(unit, skipping))


def _has(unit: UnitPlan, operators: Collection[str]) -> bool:
    return any(name in operators for name in unit.operators)

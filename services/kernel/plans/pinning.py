"""Versions that may lead a unit: those that have given equal bytes, by the unit's last valid change.

Source: PROTOCOL 0.2 and 8, decision 0077. A unit that was never placed accepts all versions; its first leader pins
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from holdfast.schemas.assignments import Change, unit_key
from holdfast.schemas.plans import OperatorPlan, Plan, UnitPlan
from holdfast.services.kernel.versions import text_of


class Fit(Enum):
    """The relation of a worker's versions to a unit."""

    EQUAL = "they have shown equal bytes"
    UNSHOWN = "they have not shown equal bytes yet"
    DIFFERS = "they give other bytes"


@dataclass(frozen=True, slots=True)
class Pin:
    """The versions on which the bytes of one unit depend.

    modules: the modules of its users' code.
    pure: False if bytes are not compared: Spark's commits name the valid rows, and with `on_divergence: continue` the
    rows of the first copy count.
    planned: the versions of the process that made the plan; they count for a unit placed by an earlier release, which
    recorded no others.
    """

    modules: tuple[str, ...] = ()
    pure: bool = True
    planned: str = ""

    def text(self, versions: Mapping[str, str]) -> str:
        """The text of the versions of a worker that matter for the unit; empty if none do."""
        return text_of(versions, self.modules) if self.pure else ""

    def shown(self, change: Change) -> tuple[str, ...]:
        """The versions that may lead the unit; empty: any."""
        if change.shown or not change.epoch or not self.planned:
            return change.shown
        return (self.planned,)

    def fit(self, change: Change, versions: Mapping[str, str]) -> Fit:
        """The fit of a worker with these versions; a worker that reports no versions is trusted."""
        text, shown = self.text(versions), self.shown(change)
        if not text or not shown or text in shown:
            return Fit.EQUAL
        differ = any(one.versions == text for one in change.differ)
        return Fit.DIFFERS if differ else Fit.UNSHOWN


ANY = Pin(pure=False)


def pins(plan: Plan) -> dict[str, Pin]:
    """The pin of each unit, by unit key."""
    operators = {operator.name: operator for operator in plan.operators}
    lax = plan.settings.on_divergence == "continue"
    return {unit_key(plan.job, plan.generation, unit.name): _pin(plan, unit, operators, lax) for unit in plan.units}


def _pin(plan: Plan, unit: UnitPlan, operators: Mapping[str, OperatorPlan], lax: bool) -> Pin:
    if unit.host or lax:
        return ANY
    code = (operators[name] for name in unit.operators if name in operators)
    modules = tuple(sorted({one.python.module for one in code if one.kind == "python"}))
    return Pin(modules, planned=text_of(plan.versions, modules))

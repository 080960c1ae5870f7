"""The units of a job: each group of fused operators becomes one unit for each task index, with a fault-tolerance
scheme.

Source: PROTOCOL 1, 8 and 9, JOBS "fault_tolerance".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Plan, Problem, UnitPlan
from holdfast.services.decisions.gaps import replaying_units
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning import available
from holdfast.services.planning.check import Checked, resolve
from holdfast.services.planning.graph import sink_name


def unit_plans(checked: Checked, tasks: Mapping[str, int], groups: Sequence[Sequence[str]]) -> Iterator[UnitPlan]:
    """Plans of the units, one for each group and index. Their order numbers the checkpoint partitions."""
    names = [(group, index) for group in groups for index in range(tasks[group[0]])]
    for partition, (group, index) in enumerate(names):
        name = task_name(group[0], index)
        wanted = _wanted(checked.spec, name, group)
        scheme = available.scheme(next(iter(wanted), checked.spec.fault_tolerance.default.scheme))
        planned = is_planned(checked.spec, not wanted)
        yield UnitPlan(
            name=name,
            index=index,
            operators=tuple(group),
            partition=partition,
            scheme="passive" if planned and scheme == "none" else scheme,
            delivers=any(_delivers(checked, operator) for operator in group),
            planned=planned,
        )


def is_planned(spec: JobSpec, by_default: bool) -> bool:
    """True if the replication budget decides about a unit. `by_default` is True if the file names no scheme for the
    unit."""
    settings = spec.fault_tolerance
    return settings.replication_budget is not None and by_default and settings.default.scheme != "adaptive"


def _wanted(spec: JobSpec, unit: str, group: Sequence[str]) -> list[str]:
    """Schemes that the file names for a unit. A scheme for the unit itself precedes the schemes of its operators."""
    settings = spec.fault_tolerance.units
    if unit in settings and unit not in _operators(spec):
        return [settings[unit].scheme]
    by_operator = {resolve(name, spec): one.scheme for name, one in settings.items()}
    return list(dict.fromkeys(by_operator[operator] for operator in group if operator in by_operator))


def scheme_of(checked: Checked, operator: str) -> str:
    """The scheme that the file names for the driver of a Spark operator, or the default."""
    by_operator = {resolve(name, checked.spec): one.scheme for name, one in checked.spec.fault_tolerance.units.items()}
    return available.scheme(by_operator.get(operator, checked.spec.fault_tolerance.default.scheme))


def asked_for(spec: JobSpec, operator: str) -> bool:
    """True if the file names a scheme for a Spark operator's driver, or a default for every unit."""
    named = {resolve(name, spec): one for name, one in spec.fault_tolerance.units.items()}
    return "scheme" in named.get(operator, spec.fault_tolerance.default).model_fields_set


def _operators(spec: JobSpec) -> set[str]:
    return {*spec.sources, *spec.operators, *map(sink_name, spec.queries)}


def _delivers(checked: Checked, operator: str) -> bool:
    """True if the operator writes sink rows or may write dead letters."""
    return catalogue.KINDS[checked.kind(operator)].delivers(checked.settings(operator))


def gap_warnings(plan: Plan) -> Iterator[str]:
    """Warnings about units that replay although the job asks for gap recovery."""
    for unit, why in replaying_units(plan).items():
        yield f"fault_tolerance.precision: unit {unit} recovers exactly, and not with a gap: {why}"


def scheme_problems(spec: JobSpec, made: Sequence[UnitPlan]) -> Iterator[Problem]:
    """Problems of schemes for unknown units, and of units with two schemes."""
    names = {unit.name for unit in made}
    for name in spec.fault_tolerance.units:
        if name not in names and resolve(name, spec) not in _operators(spec):
            yield Problem(f"fault_tolerance.units.{name}", "is no operator or unit", suggest(name, sorted(names)))
    for unit in made:
        wanted = _wanted(spec, unit.name, unit.operators)
        if len(wanted) > 1 and unit.index == 0:
            message = f"{', '.join(unit.operators)} are one unit, but want {' and '.join(wanted)}"
            yield Problem("fault_tolerance.units", message, "part them with placement.units")

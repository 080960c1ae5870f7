"""Predicts the effect of a replication budget: the planned units, the fidelity if all other units fail, and the curve.

Source: MECHANISMS section 5, JOBS "fault_tolerance".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from holdfast.schemas.plans import Plan, Problem
from holdfast.services.kernel.fidelity.loss import Standing, of_queries
from holdfast.services.kernel.fidelity.of_job import Rates, budget_share, planned
from holdfast.services.kernel.fidelity.planners.exact import exact
from holdfast.services.kernel.fidelity.planners.greedy import greedy
from holdfast.services.kernel.fidelity.planners.growth import MOST_SIZE, Growth, least_tree
from holdfast.services.kernel.fidelity.planners.plan import Grown, names, presence
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Topology
from holdfast.services.kernel.fidelity.trees import TooMany
from holdfast.services.kernel.plurals import digits, plural
from holdfast.services.kernel.protection.fitting import unfit

PATH = "fault_tolerance.replication_budget"
_ACTIVE = ("active-standby", "active-replication")
_EXACT_PAIRS = 1_000_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one budget, if every unit without a replica has failed.

    Attributes:
        share: the budget as a share of the planned units, 0 to 1.
        budget: number of units that may have a replica.
        planned: number of units that the budget is for.
        left_out: units that the budget does not cover.
        units: units with a replica, in the order in which they were chosen.
        following: units that a larger budget would add next.
        following_fidelity: fidelity with `following`.
        fidelity: fidelity of this plan, 0 to 1.
        queries: fidelity by query.
        curve: pairs of a budget in units and its fidelity.
        greedy: fidelity of the greedy plan.
        best: fidelity of the best plan; None if there are too many plans to compare.
        least: by query, the fewest units for a fidelity above 0; None if no plan has one.
    """

    share: float
    budget: int
    planned: int
    left_out: tuple[str, ...]
    units: tuple[str, ...]
    following: tuple[str, ...]
    following_fidelity: float
    fidelity: float
    queries: Mapping[str, float]
    curve: tuple[tuple[int, float], ...]
    greedy: float
    best: float | None
    least: Mapping[str, int | None]

    def as_plain(self) -> dict[str, Any]:
        return {
            "budget": self.share,
            "budget_units": self.budget,
            "planned": self.planned,
            "left_out": list(self.left_out),
            "units": list(self.units),
            "next": {"units": list(self.following), "fidelity": self.following_fidelity},
            "fidelity": self.fidelity,
            "queries": dict(self.queries),
            "curve": [{"units": units, "fidelity": value} for units, value in self.curve],
            "greedy": self.greedy,
            "exact": self.best,
            "least": dict(self.least),
        }


def predict(plan: Plan, share: float, rates: Rates | None = None) -> Prediction:
    """Predicts the effect of a budget.

    Args:
        share: share of the planned units, 0 to 1.
        rates: measured rates; None or unknown rates count as even.
    """
    of = planned(plan, rates)
    topology, budget = of.topology, of.budget(share)
    grown = structure_aware(topology, budget)
    whole = structure_aware(topology, len(of.units))
    later = structure_aware(topology, len(of.units) - len(grown.units), grown.units)
    following = later.steps[0] if later.steps else None
    return Prediction(
        share,
        budget,
        len(of.units),
        of.left_out,
        units=names(topology, grown.units),
        following=() if following is None else names(topology, following.units),
        following_fidelity=grown.fidelity if following is None else following.fidelity,
        fidelity=grown.fidelity,
        queries=of_queries(topology, presence(topology, grown.units)),
        curve=_curve(whole, len(of.units)),
        greedy=greedy(topology, budget).fidelity,
        best=_best(topology, budget),
        least=least(topology),
    )


def _curve(whole: Grown, units: int) -> tuple[tuple[int, float], ...]:
    """Pairs of budget and fidelity for every budget from 0 to all units."""
    found, used, value = {0: whole.given}, 0, whole.given
    for step in whole.steps:
        found |= dict.fromkeys(range(used, used + len(step.units)), value)
        used, value = used + len(step.units), step.fidelity
    found |= dict.fromkeys(range(used, units + 1), value)
    return tuple(sorted(found.items()))


def _best(topology: Topology, budget: int) -> float | None:
    try:
        return exact(topology, budget, _EXACT_PAIRS)[budget].fidelity
    except TooMany:
        return None


def least(topology: Topology) -> dict[str, int | None]:
    """The fewest replicas that leave a query some of its output, by query; None if no plan does."""
    standing = Standing(topology, presence(topology, ()))
    growth = Growth(standing, least_tree(topology, MOST_SIZE))
    found: dict[str, int | None] = dict.fromkeys(topology.queries)
    for sink in topology.sinks:
        query = topology.nodes[sink].query
        for task in range(len(topology.nodes[sink].units)):
            if standing.outputs[sink][task] > 0:
                found[query] = 0
                continue
            sizes = (growth.gains[sink][task] > 0).nonzero()[0]
            if len(sizes):
                count, before = len(growth.units(sink, task, int(sizes[0]))), found[query]
                found[query] = count if before is None else min(before, count)
    return found


def problems(plan: Plan) -> Iterator[Problem]:
    """Problems of a replication budget that can have no effect."""
    share = budget_share(plan)
    if share is None:
        return
    of = planned(plan)
    if not of.units:
        yield Problem(
            PATH,
            "no unit is left for it: every unit has a scheme of its own, is adaptive, or runs on Spark",
            "leave it out, or take units out of fault_tolerance.units and default to a scheme other than adaptive",
        )
        return
    if active := next((unit.scheme for unit in plan.units if unit.planned and unit.scheme in _ACTIVE), ""):
        yield Problem(
            PATH,
            f"the default scheme {active} gives every unit a replica that processes, whatever the budget",
            "take another fault_tolerance.default.scheme, such as passive, or leave the budget out",
        )
        return
    policy = plan.settings.fault_tolerance.checkpoint.policy
    if why := unfit(policy, "active-standby", "the planned units"):
        yield Problem(PATH, why, "choose another fault_tolerance.checkpoint.policy")


def warnings(plan: Plan) -> Iterator[str]:
    """Warnings with the prediction, and with the queries that keep no output."""
    share = budget_share(plan)
    if share is None:
        return
    of = planned(plan)
    budget = of.budget(share)
    if of.left_out:
        some = ", ".join(of.left_out[:5]) + (" ..." if len(of.left_out) > 5 else "")
        yield f"{PATH}: {plural(len(of.left_out), 'unit')} left out, by a scheme of their own or on Spark: {some}"
    for query, count in least(of.topology).items():
        if count is None:
            yield f"{PATH}: query {query} keeps nothing: a unit that it needs is left out and has no replica"
        elif count > budget:
            allowed, needed = (
                f"{digits(share)} is {plural(budget, 'unit')} of {len(of.units)}",
                f"{plural(count, 'unit')}, {digits(smallest_share(count, len(of.units)))}",
            )
            yield f"{PATH}: query {query} keeps nothing, {allowed}: it needs {needed} or more"


def smallest_share(count: int, units: int) -> float:
    """The smallest budget, with two decimals, that allows `count` of `units` replicas."""
    return ceil(100 * count / units - 1e-9) / 100

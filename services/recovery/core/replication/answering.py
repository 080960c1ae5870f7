"""The answer to a question to the planner of replicas: a function of the question alone.

A question is answered beside the turns of recovery, as planning a thousand units takes a second.
Source: MECHANISMS P8 and P14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.schemas.plans import Plan
from holdfast.services.kernel.fidelity.of_job import Rates, planned
from holdfast.services.kernel.fidelity.planners.plan import names, value
from holdfast.services.kernel.fidelity.planners.structured import structure_aware
from holdfast.services.kernel.fidelity.topology import Topology

KEPT = 0.01
"""Largest loss of output fidelity so that units of the present plan keep their replicas."""
STEADY = 0.05
"""Loss of fidelity against the best plan at the newest rates from which a plan is too early: rates still move."""
MOST_SWAPS = 400
"""Largest number of pairs (unit that loses its replica, unit that gains one) that are tried for a reversal."""


class Measurement(Protocol):
    """Rates of a job's streams, computed when the answer needs them."""

    def rates(self, recent: bool = False) -> Rates: ...


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the planner: the best units for a replica within the budget.

    number: of the plan in force; 0: there is none.
    present: units of that plan.
    share: the budget.
    without: units that have a scheme of their own now.
    measured: the rates of the job's streams, over the window and the newest ones; None: even rates.
    """

    job: str
    plan: Plan
    share: float
    number: int
    present: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    measured: Measurement | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the planner.

    units: of the best plan found.
    fidelity, before: output fidelity of that plan and of the present one, at the same rates. If units have left the
        present plan so that it is too large, the first ones by name count.
    moving: true if at the newest rates another plan would be much better still.
    """

    question: Question
    units: tuple[str, ...]
    fidelity: float
    before: float
    moving: bool = False


def answer(question: Question) -> Answer:
    """Returns the best plan found within the budget; it keeps units of the present plan that cost hardly any
    fidelity.
    """
    rates = None if question.measured is None else question.measured.rates()
    of = planned(question.plan, rates, question.without)
    topology, budget = of.topology, of.budget(question.share)
    open_units = set(topology.open)
    now = [topology.numbers[name] for name in sorted(question.present) if topology.numbers.get(name) in open_units]
    best = list(structure_aware(topology, budget).units)
    units = _with_kept(topology, best, now)
    chosen = tuple(sorted(names(topology, units)))
    moving = set(units) != set(now) and _moving(question, units, budget)
    return Answer(question, chosen, value(topology, units), value(topology, now[:budget]), moving=moving)


def _moving(question: Question, units: Sequence[int], budget: int) -> bool:
    if question.measured is None:
        return False
    newest = planned(question.plan, question.measured.rates(recent=True), question.without).topology
    return structure_aware(newest, budget).fidelity - value(newest, units) >= STEADY


def _with_kept(topology: Topology, best: Sequence[int], now: Sequence[int]) -> list[int]:
    """Keeps units of the present plan in place of new ones, as long as all of that costs at most KEPT."""
    kept, least = set(best), value(topology, best) - KEPT
    swaps = [(goes, comes) for goes in now if goes not in kept for comes in best if comes not in now]
    for goes, comes in swaps[:MOST_SWAPS]:
        if comes in kept and goes not in kept:
            other = (kept - {comes}) | {goes}
            if value(topology, other) >= least:
                kept = other
    return sorted(kept)

"""Which jobs are admitted, rejected or ended, as every reader of `jobs.plans` folds it.

Source: PROTOCOL 1: the first plan or rejection of a generation is the decision; `ended` follows a plan. A plan that
nobody could act on is none (services/kernel/planning/soundness.py).
"""

from __future__ import annotations

import msgspec

from schemas import plans
from schemas.plans import Decision, Ended, Plan, Rejection
from services.kernel.decided import LastValid
from services.kernel.planning.soundness import unsound


def decode(value: bytes) -> Decision:
    """A decision that can be acted on. Raises msgspec.DecodeError on anything else."""
    decision = plans.decode(value)
    if problem := unsound(decision):
        raise msgspec.ValidationError(problem)
    return decision


class Admitted:
    """The decisions by generation."""

    def __init__(self) -> None:
        self._last = LastValid()
        self._plans: dict[str, Plan] = {}
        self._rejections: dict[str, Rejection] = {}
        self._ended: dict[str, Ended] = {}

    def read(self, decision: Decision) -> bool:
        """False if the record is invalid and changes nothing."""
        g = decision.generation
        follows = isinstance(decision, Ended) == (g in self._plans) and g not in {**self._rejections, **self._ended}
        if not follows or not self._last.fits(g, decision.prev) or unsound(decision):
            return False
        self._last.accept(g, decision.id)
        if isinstance(decision, Plan):
            self._plans[g] = decision
        elif isinstance(decision, Rejection):
            self._rejections[g] = decision
        else:
            self._ended[g] = decision
        return True

    def plan(self, generation: str) -> Plan | None:
        return self._plans.get(generation)

    def rejection(self, generation: str) -> Rejection | None:
        return self._rejections.get(generation)

    def ended(self, generation: str) -> Ended | None:
        return self._ended.get(generation)

    def decided(self, generation: str) -> bool:
        return generation in self._plans or generation in self._rejections

    def running(self) -> dict[str, Plan]:
        """Plans whose jobs have not ended, by generation, in the order of their submission."""
        live = {g: plan for g, plan in self._plans.items() if g not in self._ended}
        return dict(sorted(live.items(), key=lambda item: int(item[0].split("-")[0])))

    def named(self, job: str) -> Plan | None:
        """The running job of that name."""
        return next((plan for plan in self.running().values() if plan.job == job), None)

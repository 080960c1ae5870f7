"""Fold of `jobs.plans`: jobs that are admitted, rejected or ended.

Source: PROTOCOL 1: the first plan or rejection of a generation is the decision; `ended` follows a plan, and one more
plan follows that of a job that stands by. An unsound plan, which no process could act on, is invalid
(services/kernel/plans/soundness.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import structs

from holdfast.schemas import plans
from holdfast.schemas.plans import Ended, Plan, Record, Rejection, Retirement, Skip, Snapshot
from holdfast.schemas.retired import Retired
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.decided import LastValid
from holdfast.services.kernel.plans.soundness import unsound

Skipped = Mapping[Partition, frozenset[int]]
"""Offsets of records that readers pass over by a person's decision, by partition."""


def decode(value: bytes) -> Record:
    """Decodes a sound record. Raises msgspec.DecodeError on any other bytes."""
    decision = plans.decode_any(value)
    if not isinstance(decision, Retirement | Snapshot) and (problem := unsound(decision)):
        raise msgspec.ValidationError(problem)
    return decision


class Admitted:
    """The decisions by generation.

    retired: generations whose records have left `jobs.plans`; their later records are invalid.
    """

    def __init__(self, retired: Retired = Retired()) -> None:  # noqa: B008
        self.retired = retired
        self._last = LastValid()
        self._plans: dict[str, Plan] = {}
        self._rejections: dict[str, Rejection] = {}
        self._ended: dict[str, Ended] = {}
        self._skipped: dict[str, dict[Partition, frozenset[int]]] = {}

    def read(self, decision: Record) -> bool:
        """Takes a record; False if it is invalid, or a snapshot, and changes nothing."""
        if isinstance(decision, Retirement):
            return self._retire(decision.retired)
        if isinstance(decision, Snapshot):
            return False
        if isinstance(decision, Skip):
            return self._skip(decision)
        g = decision.generation
        later = isinstance(decision, Ended) or (isinstance(decision, Plan) and self._begins(decision))
        follows = later == (g in self._plans) and g not in {**self._rejections, **self._ended}
        if self.retired.has(g) or not follows or not self._last.fits(g, decision.prev) or unsound(decision):
            return False
        self._last.accept(g, decision.id)
        if isinstance(decision, Plan):
            self._plans[g] = decision
        elif isinstance(decision, Rejection):
            self._rejections[g] = decision
        else:
            self._ended[g] = decision
        return True

    def _begins(self, plan: Plan) -> bool:
        """True if the plan states the beginning of a job that stands by, and changes nothing else of the job."""
        was = self._plans.get(plan.generation)
        if was is None or was.seed is None or not was.seed.waits or plan.seed is None or plan.seed.waits:
            return False
        return was == structs.replace(plan, id=was.id, prev=was.prev, seed=was.seed, sources=was.sources)

    def _retire(self, retired: Retired) -> bool:
        before, self.retired = self.retired, self.retired.joined(retired, self._plans.keys() - self._ended.keys())
        for known in (self._plans, self._rejections, self._ended, self._skipped):
            for g in [g for g in known if self.retired.has(g)]:
                del known[g]
        self._last.forget(self.retired.has)
        return self.retired != before

    def _skip(self, skip: Skip) -> bool:
        plan, at = self._plans.get(skip.generation), Partition(skip.topic, skip.partition)
        if plan is None or plan.job != skip.job or skip.generation in self._ended or unsound(skip):
            return False
        skipped = self._skipped.setdefault(skip.generation, {})
        before = skipped.get(at, frozenset())
        skipped[at] = before | {skip.offset}
        return skip.offset not in before

    def skipped(self, generation: str) -> Skipped:
        """Returns the records of the job's own topics that every reader passes over."""
        return dict(self._skipped.get(generation, {}))

    def plan(self, generation: str) -> Plan | None:
        return self._plans.get(generation)

    def plans(self) -> dict[str, Plan]:
        """Returns the plans by generation, also of jobs that have ended."""
        return dict(self._plans)

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
        """Returns the newest running job of that name, without jobs that stand by; a replaced job may still run."""
        live = (plan for plan in reversed(self.running().values()) if not plan.stands_by)
        return next((plan for plan in live if plan.job == job), None)

"""Checkpoint policy of each job, as its records say, and of every worker.

Source: docs/decisions/0084. Independent of the fold that the services share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Change, CheckpointPolicy
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.policies import planned
from holdfast.services.worker.unit.turns.policy_view import PolicyView
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS

WITHOUT_REPLAY = ("active-standby", "active-replication")


def unfollowed(written: Iterable[Written], plans: Iterable[Plan], copies: Iterable[PolicyView]) -> list[str]:
    """Violations once all is well: copies under another policy than the one in force, policies that cannot be.

    plans: of jobs that run.
    """
    force = {plan.generation: planned(plan) for plan in plans}
    assigned, schemes = Assigned(), dict[str, dict[str, str]]()
    for one in written:
        if one.partition.topic != TOPICS.assignments:
            continue
        record = assignments.decode(one.value)
        for policy in record.policies:
            known = force.get(policy.generation)
            if known is not None and policy.asked > known.asked:
                force[policy.generation] = policy
        for change in assigned.read(record):
            schemes.setdefault(_generation(change), {})[change.unit] = change.scheme
    found = [*_elsewhere(force, copies)]
    for generation, policy in force.items():
        under = {scheme for scheme in schemes.get(generation, {}).values() if scheme in WITHOUT_REPLAY}
        if policy.policy == "idle-minmax" and under:
            found.append(f"{generation} follows idle-minmax, and a unit of it is under {min(under)}")
    return found


def _elsewhere(force: dict[str, CheckpointPolicy], copies: Iterable[PolicyView]) -> Iterator[str]:
    for copy in copies:
        policy = force.get(copy._job.plan.generation)
        if policy is not None and copy._job.checkpoint != policy:
            yield f"{copy._name} follows {copy._job.checkpoint}, and {policy} is in force"


def _generation(change: Change) -> str:
    return change.unit.partition("@")[2].partition("/")[0]

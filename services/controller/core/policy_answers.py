"""Answers to commands that change when a job's units capture: a record of `assignments` that accepts or refuses.

Source: PROTOCOL 1 and 6; docs/decisions/0084. Commands are answered in the order of `jobs.submit`. Each command is
judged by the policy that the answer before it has left in force, and by the schemes that were asked for before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.schemas.assignments import CheckpointPolicy, unit_key
from holdfast.schemas.commands import SETTINGS, Command
from holdfast.schemas.plans import Plan
from holdfast.services.controller.core.job import Job
from holdfast.services.decisions.policies import in_force
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.errors import JobRejected


def due(job: Job, standings: Standings) -> CheckpointPolicy | None:
    """Returns the answer to propose now; None if every command is answered, or an answer is on its way."""
    if not job.policies or job.plan is None:
        return None
    now = in_force(job.plan, standings.assigned)
    job.policies = {offset: command for offset, command in job.policies.items() if offset > now.asked}
    offset = min(job.policies, default=-1)
    if offset <= job.policy_asked:
        return None
    job.policy_asked = offset
    return answer(job.policies[offset], offset, now, job.plan, schemes(job, job.plan, standings, offset))


def answer(
    command: Command, offset: int, now: CheckpointPolicy, plan: Plan, under: Mapping[str, str]
) -> CheckpointPolicy:
    """Returns the answer to the command at this offset under the policy in force.

    under: the scheme of each unit.
    """
    # The planner takes half a second to load; a controller does not wait for that at its start.
    from holdfast.services.planning.checkpoints import changed

    settings = {name: getattr(now, name) for name in SETTINGS} | command.settings
    try:
        asked = changed(plan.spec, command.policy, settings, under)
    except JobRejected as rejected:
        return replace(now, asked=offset, refusal="; ".join(map(str, rejected.problems)))
    return replace(now, asked=offset, since=offset, refusal="", **asked.model_dump())


def schemes(job: Job, plan: Plan, standings: Standings, offset: int) -> dict[str, str]:
    """Returns the scheme of each unit, or the unanswered one asked for before this offset of `jobs.submit`."""
    found = {}
    for unit in plan.units:
        change = standings.assigned.of(unit_key(plan.job, plan.generation, unit.name))
        found[unit.name] = unit.scheme if change is None else change.scheme
        asked, scheme = job.schemes.get(unit.name, (-1, ""))
        if (-1 if change is None else change.asked) < asked < offset:
            found[unit.name] = scheme
    return found

"""A generation that stands by until a command lets it take the place of the leading one, or gives it up.

Source: PROTOCOL 1. Its copies exist, with an earlier state, while the former generation runs. A further plan in
`jobs.plans` decides on it: the first such plan counts, whichever replica wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import Start
from holdfast.services.controller.core.actions import Action, AppendDecision, Switch
from holdfast.services.controller.core.command_effects import Asked
from holdfast.services.controller.core.job import Job, Switched
from holdfast.services.controller.core.life import PLACED, Phase

PATIENCE_MS = 600_000
"""Time after which a generation without a command is given up: the process that submitted it has ended."""
_UP = PLACED | {Phase.CREATING}

Jobs = Mapping[str, Job]


@dataclass(frozen=True, slots=True)
class Noted:
    """Outcome of a command.

    wait: true if the command is judged again later.
    refused: the reason of a refusal; empty: it is not refused.
    """

    wait: bool = False
    refused: str = ""


def note(asked: Asked, jobs: Jobs) -> Noted:
    """Notes the command at the generation that it names; the first command counts."""
    command = asked.command
    job = jobs.get(command.generation)
    if job is not None and job.undecided:
        return Noted(wait=True)
    if job is None or job.name != command.job or not job.stands_by or job.over:
        return Noted(refused=f"no generation {command.generation} of {command.job} stands by")
    if job.switch is None:
        job.switch = Switched(asked.offset, command.begin, _held(job, command.begin, jobs))
    return Noted()


def pending(asked: Asked, jobs: Jobs) -> bool:
    """True while it is undecided which generation a command concerns: the leading one, or the next one."""
    named = (job for job in jobs.values() if job.name == asked.command.job and job.stands_by and not job.given_up)
    return any(job.switch is not None and job.switch.offset < asked.offset for job in named)


def due(job: Job, jobs: Jobs, id: Id, now_ms: int) -> Action | None:
    """Returns the action that is due now for a generation that stands by."""
    if not job.stands_by or job.given_up or job.switch_asked or job.plan is None or job.life.phase not in _UP:
        return None
    job.waits_since_ms = job.waits_since_ms or now_ms
    if why := _lost(job, jobs, now_ms):
        return AppendDecision(given_up(job.plan, why, id))
    if job.switch is None or job.switch.begin is None or job.life.phase is Phase.CREATING:
        return None
    return Switch(job.plan, job.switch.begin, job.switch.offset, id)


def given_up(plan: Plan, why: str, id: Id) -> Plan:
    """Returns the plan that gives the generation up."""
    assert plan.seed is not None
    return structs.replace(plan, id=id, prev=plan.id, seed=structs.replace(plan.seed, waits=False, given_up=why))


def _lost(job: Job, jobs: Jobs, now_ms: int) -> str:
    """Returns why the generation will never lead; empty if it may."""
    if job.switch is not None:
        if job.switch.begin is None:
            return "the update was given up"
        label = f"{job.name}@{job.replaces}"
        unheld = f"{label} is not held any more at the batch of the savepoint: somebody has resumed or ended it"
        return "" if job.switch.held else unheld
    if not _leads(job, jobs):
        return f"{job.name}@{job.replaces}, whose place it was to take, has ended"
    waited = now_ms - job.waits_since_ms >= PATIENCE_MS
    return f"nobody has asked for it within {PATIENCE_MS // 1000} s" if waited else ""


def _leads(job: Job, jobs: Jobs) -> bool:
    former = jobs.get(job.replaces)
    return former is not None and former.may_be_replaced


def _held(job: Job, begin: Start | None, jobs: Jobs) -> bool:
    former = jobs.get(job.replaces)
    return begin is not None and former is not None and former.holds_for(begin)

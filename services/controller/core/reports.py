"""Records that the controller writes to `events`: decisions of its own, and commands that it refuses."""

from __future__ import annotations

from holdfast.schemas.assignments import CheckpointPolicy
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Decision, Plan, QueryState, Rejection
from holdfast.services.kernel.plurals import plural


def decided(decision: Decision, now_ms: int) -> Event:
    if isinstance(decision, Plan) and decision.prev is not None:
        gone = decision.seed.given_up if decision.seed is not None else ""
        return Event(now_ms, "job-given-up" if gone else "job-took-over", job=decision.job, detail=gone)
    if isinstance(decision, Plan):
        return Event(now_ms, "job-admitted", job=decision.job, detail=plural(len(decision.units), "unit"))
    if isinstance(decision, Rejection):
        return Event(now_ms, "job-rejected", job=decision.job, detail="; ".join(map(str, decision.problems)))
    return Event(now_ms, "job-ended", job=decision.job, detail=decision.reason)


def availability(job: str, query: QueryState, now_ms: int) -> Event:
    kind = "query-available" if query.available else "query-unavailable"
    relative = "" if query.relative is None else f", {query.relative:g} times the latency before"
    catching_up = " catches up" if query.catching_up else ""
    return Event(now_ms, kind, job=job, detail=f"{query.query}{catching_up}{relative}")


def answered(policy: CheckpointPolicy, now_ms: int) -> Event:
    """Returns the event for the answer to a command for another checkpoint policy."""
    if policy.refusal:
        return Event(now_ms, "command-refused", job=policy.job, detail=f"checkpoint: {policy.refusal}")
    return Event(now_ms, "checkpoint-policy", job=policy.job, detail=policy.policy)


def refused(command: Command, cause: str, now_ms: int) -> Event:
    return Event(now_ms, "command-refused", job=command.job, unit=command.unit, detail=f"{command.command}: {cause}")

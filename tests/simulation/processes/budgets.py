"""Replication budgets: what jobs ask, what must hold of plans and of the units that follow them.

Source: MECHANISMS P14, docs/decisions/0146.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from math import floor
from random import Random
from typing import Any
from unittest import mock

from holdfast.schemas import assignments, commands
from holdfast.schemas.assignments import Change, ReplicationPlan, job_key, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.plans import Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.fidelity.of_job import budget_share
from holdfast.services.recovery.core import observed
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.core.replication import replanning
from holdfast.services.recovery.core.replication.replanning import holders
from holdfast.services.recovery.core.unit.facts.stance import Stance, stance
from holdfast.services.recovery.core.unit.facts.terms import Asked
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.kafka.timeline import Timeline
from tests.simulation.processes.feeds import Feed, draw_growth
from tests.simulation.processes.jobs import DrawnJob, planned

SHARES = (0.3, 0.5, 0.5, 0.7)
THINKING_US = (1_000, 400_000)
NEAR = 1e-6
"""Records round a fidelity to six digits."""


def draw_budget(random: Random, job: DrawnJob) -> None:
    """The job gets a budget; in half of the histories some units keep a scheme of their own."""
    tolerance = job.spec["fault_tolerance"]
    tolerance["replication_budget"] = random.choice(SHARES)
    if random.random() < 0.5 or not planned(job.spec, job.topics).units:
        tolerance["units"] = {}


def draw_surges(random: Random, job: DrawnJob, until_ms: int) -> list[Feed]:
    """For a while one partition after the other gets far more records than all others."""
    sources = sorted({source["topic"] for source in job.spec["sources"].values() if "table" not in source})
    feed, at_ms = [], random.randint(0, 1_000)
    while at_ms < until_ms:
        topic, lasts_ms = random.choice(sources), random.randint(1_000, 4_000)
        feed += draw_growth(
            random, topic, [random.randrange(job.topics[topic])], at_ms, min(at_ms + lasts_ms, until_ms)
        )
        at_ms += lasts_ms
    return feed


class Planner(Executor):
    """In place of the thread beside a replica: an answer takes some simulated time."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self._timeline, self._random = timeline, random

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        found = fn(*args, **kwargs)
        self._timeline.after(self._random.randint(*THINKING_US), lambda: future.set_result(found))
        return future


# -- what must hold ---------------------------------------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[list[str]]:
    """Violations when a replica proposed another plan, by what it had read."""
    wrong, true = list[str](), Recovery._concerned

    def watch(self: Recovery, event: observed.Event, now_us: int) -> Sequence[str]:
        found = true(self, event, now_us)
        if isinstance(event, observed.Replanned):
            for record in self.known.replication.records:
                if record.number > 1:
                    wrong.extend(_under_way(record, self.known.assigned))
        return found

    with mock.patch.object(Recovery, "_concerned", watch):
        yield wrong


def _under_way(record: ReplicationPlan, assigned: Assigned) -> Iterator[str]:
    where, incident = f"calm: plan {record.number} of {record.job_key}", assigned.incident(record.job_key)
    if incident is not None and not incident.over:
        yield f"{where} in incident {incident.number}"
    for unit, change in sorted(assigned.units().items()):
        if unit.startswith(f"{record.job_key}/") and stance(change) not in (Stance.NORMAL, Stance.ALONE):
            yield f"{where} while {unit} is {stance(change).value}"


def check(written: Sequence[Written], plan: Plan) -> Iterator[str]:
    """Checks one generation."""
    share, units = budget_share(plan), [unit.name for unit in plan.units if unit.planned]
    if share is None:
        return
    most, first = floor(share * len(units) + 1e-9), int(plan.generation.split("-")[0])
    names = {unit_key(plan.job, plan.generation, name): name for name in units}
    assigned, own, since_us = Assigned(), set[str](), 0
    for one in written:
        if one.partition.topic == TOPICS.submit and one.offset > first:
            record = commands.decode(one.value)
            if isinstance(record, Command) and record.command == "scheme":
                own.add(record.unit)
        if one.partition.topic != TOPICS.assignments:
            continue
        before, key = dict(assigned.units()), job_key(plan.job, plan.generation)
        last = assigned.replication(key)
        for change in assigned.read(assignments.decode(one.value)):
            was = before.get(change.unit)
            before[change.unit] = change
            if change.unit in names and (why := _mixed(was, change, names[change.unit], last, bool(own))):
                yield why
            holding = [name for unit, name in sorted(names.items()) if name not in own and _holds(before.get(unit))]
            if len(holding) > most:
                yield f"over budget: {', '.join(holding)} have a replica with {change.unit}#{change.epoch}, of {most}"
        now = assigned.replication(key)
        if now is not None and now is not last:
            yield from _plan(now, last, most, one.time_us - since_us)
            since_us = one.time_us


def _holds(change: Change | None) -> bool:
    """Counted after each change of a record, so that one which makes room must have been read before."""
    return change is not None and change.scheme in ("active-standby", "active-replication")


def _mixed(was: Change | None, change: Change, name: str, plan: ReplicationPlan | None, left: bool) -> str:
    """A unit that changes its scheme, though nobody asked for that, does so as the newest plan says.

    left: units have left the plan, so that it may be too large by now.
    """
    if was is None or not was.copies or not change.copies or (was.scheme, was.asked) == (change.scheme, was.asked):
        return ""
    if change.asked != was.asked:
        return ""
    where = f"mixed: {change.unit}#{change.epoch} becomes {change.scheme}"
    if plan is None or change.plan != plan.number:
        return f"{where} by plan {change.plan}, which is not the newest"
    wanted, gets = name in plan.units, change.scheme == replanning.REPLICA
    return "" if wanted == gets or (left and not gets) else f"{where}, plan {plan.number} has {plan.units}"


def _plan(now: ReplicationPlan, last: ReplicationPlan | None, most: int, after_us: int) -> Iterator[str]:
    where = f"plan {now.number} of {now.job_key}"
    if len(now.units) > most:
        yield f"budget: {where} names {len(now.units)} units, of at most {most}"
    if last is None:
        return
    if after_us < replanning.COOL_DOWN_US:
        yield f"to and fro: {where} {after_us} us after the one before"
    if now.fidelity < now.before + replanning.MARGIN - NEAR:
        yield f"to and fro: {where} has fidelity {now.fidelity}, the one before {now.before}"


def unfollowed(assigned: Assigned, plan: Plan, asked: Mapping[str, Asked]) -> list[str]:
    """Units that differ from the newest plan. asked: by unit, the scheme that was asked for last."""
    share, newest = budget_share(plan), assigned.replication(job_key(plan.job, plan.generation))
    if share is None or newest is None:
        return [] if share is None else ["no plan"]
    first = int(plan.generation.split("-")[0])
    found = holders(plan, assigned)
    free = [name for name in sorted(found) if asked[unit_key(plan.job, plan.generation, name)].offset <= first]
    wanted = [name for name in free if name in newest.units][: floor(share * len(free) + 1e-9)]
    return [f"  {name} differs from plan {newest.number}" for name in free if found[name] != (name in wanted)]

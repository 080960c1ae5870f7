"""Updating: a job that runs becomes its next generation, with its positions and its state.

Source: JOBS "holdfast update". The command holds the job at one batch and brings its state to the cluster. Then one
record of `jobs.submit` says all: from there on controllers end the former generation and start the next one, whatever
becomes of the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import FIELD, Start
from holdfast.services.client.followed_state import FollowedState
from holdfast.services.client.holding import Holding
from holdfast.services.client.saving import manifest_of, new_id
from holdfast.services.client.submitting import Submitted, submit
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.late.savepoints import Upload
from holdfast.services.view.door import Door


@dataclass(frozen=True, slots=True)
class Updated:
    """A job whose next generation runs.

    batch: at which it was held. entries: of its state. held_s: until it was; carried_s: from there on until its state
    was on the cluster; took_s: until the next generation ran. All begin with the pause.
    """

    submitted: Submitted
    batch: int
    entries: int
    held_s: float
    carried_s: float
    took_s: float


def update(
    door: Door,
    plan: Plan,
    raw: dict[str, Any],
    start: Start,
    timeout_s: float,
    holding: Holding | None = None,
    submitting: Callable[[Door, dict[str, Any], float, Callable[[str], None]], Submitted] = submit,
) -> Updated:
    """Returns once the next generation runs.

    Args:
        plan: of the job that runs. raw: the new job file. start: what of its state is left behind.

    Raises:
        JobRejected: the cluster refuses the new job; the former one continues. CommandFailed: it is not done in time;
            what was submitted is done later.
    """
    hold, id = holding or Holding(door, plan), new_id()
    state, way = FollowedState(hold, plan), Upload(door.log, door.topics, id)
    try:
        way.bring(state.base())
        held = hold.hold(timeout_s)
        at_rest_s = time.monotonic()
        way.bring(state.rest(held.batch))
        tasks = state.tasks()
        way.finish(manifest_of(door, plan, held, tasks, id))
        carried_s = time.monotonic() - at_rest_s
        begin = structs.replace(
            start, topic=way.topic, id=id, replaces=plan.generation, paused=held.paused, rests=held.was_paused
        )
    except BaseException:
        hold.release()
        way.abandon()
        raise
    finally:
        way.close()
    try:
        done = submitting(door, raw | {FIELD: structs.asdict(begin)}, timeout_s, lambda how_far: None)
    except BaseException as error:
        if isinstance(error, JobRejected):
            way.abandon()
        hold.release()  # behind the new job in the log it concerns that one, which runs anyway
        raise
    entries, held_s = sum(one.entries for one in tasks.values()), at_rest_s - held.paused_s
    return Updated(done, held.batch, entries, held_s, carried_s=carried_s, took_s=time.monotonic() - held.paused_s)


def undone(door: Door, plan: Plan, start: Start) -> tuple[Plan, Start]:
    """The generation that the job has replaced, and how it takes over: each operator under the name that it had there.

    Raises CommandFailed.
    """
    former = None
    if plan.seed is not None and plan.seed.replaces:
        former = read_admitted(door.log, door.topics).plan(plan.seed.replaces)
    if plan.seed is not None and former is not None:
        back = {was: now for now, was in plan.seed.renamed.items()}
        return former, structs.replace(start, renamed=back | start.renamed)
    message = f"{plan.job}@{plan.generation} has replaced no other one, as far as the cluster remembers"
    raise CommandFailed(message, f"`holdfast update {plan.job} JOB.yaml` takes the former file")

"""Updating: a job that runs becomes its next generation, with its positions and its state.

Source: JOBS "holdfast update". The command holds the job at one batch and brings its state to the cluster. Then one
record of `jobs.submit` says all: from there on controllers end the former generation and start the next one, whatever
becomes of the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import FIELD, Piece, Start, Task
from holdfast.services.client.holding import Holding
from holdfast.services.client.saving import manifest_of, new_id, tasks_of
from holdfast.services.client.submitting import Submitted, submit
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.late.savepoints import upload
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
    try:
        held = hold.hold(timeout_s)
        at_rest_s = time.monotonic()
        tasks: dict[str, Task] = {}
        pieces = _pieces(hold, held.batch, tasks)
        topic = upload(door.log, door.topics, id, pieces, lambda: manifest_of(door, plan, held, tasks, id))
        carried_s = time.monotonic() - at_rest_s
        begin = structs.replace(
            start, topic=topic, id=id, replaces=plan.generation, paused=held.paused, rests=held.was_paused
        )
        try:
            done = submitting(door, raw | {FIELD: structs.asdict(begin)}, timeout_s, lambda how_far: None)
        except JobRejected:
            door.log.delete([topic])
            raise
    except BaseException:
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


def _pieces(hold: Holding, batch: int, tasks: dict[str, Task]) -> Iterator[Piece]:
    """The state of the job that is held. tasks: gets what the manifest says of each."""
    for unit, found in hold.states(batch):
        for name, watermark, pieces in tasks_of(unit, found):
            tables, entries = dict[str, None](), 0
            for piece in pieces:
                tables[piece.table] = None
                entries += len(piece.entries)
                yield piece
            tasks[name] = Task(watermark, tuple(tables), entries)

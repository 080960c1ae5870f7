"""A running job becomes its next generation, with its positions and its state.

Source: JOBS "holdfast update". The next generation stands by, with the state of the job, while the job still runs. Then
    the command holds the job at one batch and uploads the later changes. One more record of `jobs.submit` completes the
    update: from there on controllers end the former generation and make the next one lead, even if the command ends.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from holdfast.schemas.plans import Plan
from holdfast.schemas.progress import decode
from holdfast.schemas.savepoints import FIELD, Start
from holdfast.schemas.topics import Partition
from holdfast.services.client.followed_state import FollowedState
from holdfast.services.client.hold import Held, Hold
from holdfast.services.client.replacement import OnCluster, Replacement
from holdfast.services.client.savepoints import manifest_of, new_id
from holdfast.services.client.submission import Submitted
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.late.last_words import last_words
from holdfast.services.log.late.savepoints import Upload
from holdfast.services.view.door import Door
from holdfast.services.view.trial import trial_of

FEW_BATCHES = 1
"""A job that has cut no more has no state that is worth the way ahead."""


@dataclass(frozen=True, slots=True)
class Updated:
    """A job whose next generation runs.

    batch: batch at which the job was held.
    entries: number of entries of its state.
    held_s: seconds from the pause until the job was held.
    carried_s: seconds from the hold until its state was on the cluster.
    took_s: seconds from the pause until the next generation ran.
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
    holding: Hold | None = None,
    replacing: Replacement | None = None,
) -> Updated:
    """Returns once the next generation runs.

    Args:
        plan: of the job that runs. raw: the new job file. start: what of its state is left behind.

    Raises:
        JobRejected: the cluster refuses the new job; the former one continues. CommandFailed: it is not done in time;
            what was submitted is done later.
    """
    hold = holding or Hold(door, plan)
    way = Upload(door.log, door.topics, new_id())
    try:
        return _Update(door, plan, hold, way, replacing or OnCluster(door)).run(raw, start, timeout_s)
    finally:
        way.close()


class _Update:
    """Steps of an update.

    generation: the generation that stands by; empty: none does.
    asked: true once the cluster was asked to end the former job.
    """

    def __init__(self, door: Door, plan: Plan, hold: Hold, way: Upload, replacing: Replacement) -> None:
        self._door = door
        self._plan = plan
        self._hold = hold
        self._way = way
        self._replacing = replacing
        self._state = FollowedState(hold, plan)
        self._generation = ""
        self._asked = False

    def run(self, raw: dict[str, Any], start: Start, timeout_s: float) -> Updated:
        begin = structs.replace(start, topic=self._way.topic, replaces=self._plan.generation)
        try:
            self._hold.await_format(timeout_s)
            self._way.bring(self._state.base())
            begin = self._stand_by(raw, begin, timeout_s)
            held = self._hold.hold(timeout_s)
            at_rest_s = time.monotonic()
            self._way.bring(self._state.rest(held.batch))
            begin = structs.replace(begin, id=new_id(), paused=held.paused, rests=held.was_paused, waits=False)
            self._finish(held, begin.id)
            carried_s = time.monotonic()
            self._asked = True
            done = self._take_over(raw, begin, timeout_s)
        except BaseException as error:
            self._give_up(error)
            raise
        tasks = self._state.tasks().values()
        return Updated(
            done,
            held.batch,
            entries=sum(one.entries for one in tasks),
            held_s=at_rest_s - held.paused_s,
            carried_s=carried_s - at_rest_s,
            took_s=time.monotonic() - held.paused_s,
        )

    def _stand_by(self, raw: dict[str, Any], begin: Start, timeout_s: float) -> Start:
        """Makes the next generation stand by, unless the job has hardly begun."""
        now = self._hold.now()
        if now.batch <= FEW_BATCHES:
            return begin
        begin = structs.replace(begin, id=new_id(), waits=True)
        behind = self._finish(now, begin.id)
        asked = raw | {FIELD: structs.asdict(begin)}
        self._generation = self._replacing.stand_by(asked, timeout_s, lambda: self._way.bring(self._state.changes()))
        return structs.replace(begin, behind=behind)

    def _finish(self, held: Held, id: str) -> int:
        return self._way.finish(manifest_of(self._door, self._plan, held, self._state.tasks(), id))

    def _take_over(self, raw: dict[str, Any], begin: Start, timeout_s: float) -> Submitted:
        if not self._generation:
            return self._replacing.submit(raw | {FIELD: structs.asdict(begin)}, timeout_s)
        return self._replacing.take_over(self._plan.job, self._generation, begin, timeout_s)

    def _give_up(self, error: BaseException) -> None:
        """Lets the former job continue. Requests made to the cluster concern only the next generation and are not
        withdrawn.
        """
        if self._generation and not self._asked:
            self._replacing.give_up(self._plan.job, self._generation)
        self._hold.release()
        if not self._generation and (not self._asked or isinstance(error, JobRejected)):
            self._way.abandon()


def undone(door: Door, plan: Plan, start: Start) -> tuple[Plan, Start]:
    """The generation that the job has replaced, and how it takes over: each operator under the name that it had there.

    Raises CommandFailed, also if the update is proven healthy.
    """
    if (trial := trial_of(plan, _processed(door, plan))) is not None and trial.over:
        hint = f"`holdfast update {plan.job} JOB.yaml` takes any file, the former one too"
        raise CommandFailed(f"{plan.job}@{plan.generation} is {trial}, and stays", hint)
    former = None
    if plan.seed is not None and plan.seed.replaces:
        former = read_admitted(door.log, door.topics).plan(plan.seed.replaces)
    if plan.seed is not None and former is not None:
        back = {was: now for now, was in plan.seed.renamed.items()}
        return former, structs.replace(start, renamed=back | start.renamed)
    message = f"{plan.job}@{plan.generation} has replaced no other one, as far as the cluster remembers"
    raise CommandFailed(message, f"`holdfast update {plan.job} JOB.yaml` takes the former file")


def _processed(door: Door, plan: Plan) -> list[int]:
    """The newest batch of each unit, as far as it has published one."""
    partition = Partition(door.topics.job(plan.job, plan.generation).progress, 0)
    names = [unit.name for unit in plan.units]
    known = dict.fromkeys(names, 0)
    for one in (decode(value or b"") for value in last_words(door.log, partition, names)):
        known[one.unit] = max(known.get(one.unit, 0), one.processed)
    return [known[name] for name in names]

"""A tree of tasks of which some fail, and how long each takes until it is as far as it was, by technique.

Sixteen sources merge 16-8-4-2-1; the sources live, each of the fifteen other tasks has a worker. A task does its
batches one after the other, and each as soon as every task that it reads has sent it: `done` is that recurrence. What
differs between the techniques is where a task begins, and what is left of the batches that it had sent. Time counts
from detection until the progress is that of the failure at every failed task. Source: MECHANISMS P10 to P13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from random import Random

from bench.model.topologies import sixteen
from holdfast.services.kernel.fidelity.planners.structured import structure_aware

BATCH_S = 0.1
LEVELS = (8, 4, 2, 1)
TASKS = tuple((level, task) for level, count in enumerate(LEVELS) for task in range(count))
CPU_S = 100e-6
"""Processor time of a record: at 1,000 records/s of each source a task, which reads two of them, is busy a fifth."""
RESTORE_S, RESTORE_RECORD_S = 0.2, 20e-6
"""A copy that is made, and what each record of its windows takes of that."""
CAPTURE_RECORD_S = 10e-6
"""A record of the windows, in a checkpoint."""
SWITCH_S, SEND_RECORD_S = 0.1, 20e-6
"""A replica that takes over, and each record that it sends again."""
PATIENCE_S = 0.1
"""A task that works without what is missing has waited so long since its last batch (worker/core/tentative.py)."""
Task = tuple[int, int]
"""Level, and place in it."""


class Technique(Enum):
    """Recovery techniques, with their names in the figures."""

    ACTIVE = "active replication"
    CHECKPOINT = "checkpoint"
    SOURCE = "source replay"


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a run.

    rate_per_s: rate of each source; a task's output has half the rate of its input, so that all levels have equal
        rates.
    window_s: age of the records that are a task's state.
    every_s: seconds between two checkpoints, or between two reports of a primary's progress to its replica.
    """

    rate_per_s: float = 1_000.0
    window_s: float = 10.0
    every_s: float = 5.0

    @property
    def load(self) -> float:
        """Share of a processor that a task takes."""
        return 2 * self.rate_per_s * CPU_S

    @property
    def state(self) -> float:
        """Records of a task's windows."""
        return 2 * self.rate_per_s * self.window_s

    @property
    def checkpoint_share(self) -> float:
        """Share of a processor that checkpoints of all the state take."""
        return self.state * CAPTURE_RECORD_S / self.every_s


def recovered_s(technique: Technique, setting: Setting, failed: Sequence[Task], seed: int) -> float:
    """Seconds until all failed tasks are in their former state."""
    chance = Random(seed)
    ages_s = {task: chance.uniform(0, setting.every_s) for task in TASKS}
    if technique is Technique.ACTIVE:
        return max(SWITCH_S + ages_s[task] * setting.rate_per_s * SEND_RECORD_S for task in failed)
    if technique is Technique.CHECKPOINT:
        restored_s = RESTORE_S + setting.state * RESTORE_RECORD_S
        behind = {task: _batches(ages_s[task]) for task in failed}
        return max(done(setting, behind, restored_s, kept=True).values())
    again = {task for one in failed for task in above(one)}
    return max(done(setting, dict.fromkeys(again, _batches(setting.window_s)), RESTORE_S, kept=False).values())


@dataclass(frozen=True, slots=True)
class Partial:
    """All fifteen have failed, and some have a replica. Times from detection.

    recovered_s: until every task is where it was. first_s: until the last task puts out its first rows, which are
    tentative unless all is there by then. share: of the sources whose records are in these rows.
    """

    recovered_s: float
    first_s: float
    share: float


def partly(setting: Setting, replicated: Set[Task], seed: int) -> Partial:
    """The replicated ones are taken over, the others are restored from checkpoints and repeat what came since."""
    chance = Random(seed)
    ages_s = {task: chance.uniform(0, setting.every_s) for task in TASKS}
    there = {task: SWITCH_S + ages_s[task] * setting.rate_per_s * SEND_RECORD_S for task in replicated}
    left = {task: _batches(ages_s[task]) for task in TASKS if task not in replicated}
    there |= done(setting, left, RESTORE_S + setting.state * RESTORE_RECORD_S, kept=True)
    paths = [max(there[task] for task in _path(first)) for first in TASKS if first[0] == 0]
    first_s = max(min(paths), PATIENCE_S) + BATCH_S
    share = sum(path_s <= first_s for path_s in paths) / len(paths)
    return Partial(max(there.values()), first_s, share)


def _path(task: Task) -> Iterator[Task]:
    """From a task down to the last one."""
    for level in range(task[0], len(LEVELS)):
        yield level, task[1] >> (level - task[0])


def replicas(budget: int) -> tuple[frozenset[Task], float]:
    """Tasks that get a replica where so many may, and the output fidelity without all others. The sources live."""
    tree = sixteen()
    plan = structure_aware(tree, budget, range(tree.units.index("n8-0")))
    names = (tree.units[unit].removeprefix("n").split("-") for unit in plan.units)
    return frozenset((LEVELS.index(int(width)), int(place)) for width, place in names), plan.fidelity


def done(setting: Setting, behind: Mapping[Task, int], restored_s: float, *, kept: bool) -> dict[Task, float]:
    """Time at which each task that repeats batches has processed the last batch before the failure, by task.

    behind: number of batches to repeat, by task.
    restored_s: time at which each task begins.
    kept: true if the output of a restored task up to its own checkpoint, and that of tasks that have not failed, is
        available; false if every task above repeats everything.
    """
    each_s = BATCH_S * setting.load
    most = max(behind.values(), default=0)
    sent: dict[Task, list[float]] = {}
    for level in range(len(LEVELS)):
        for task in [one for one in behind if one[0] == level]:
            first = most - behind[task]
            sent[task] = [restored_s if kept else float("inf")] * first
            at_s = restored_s
            for batch in range(first, most):
                arrived_s = max((sent[one][batch] for one in reads(task) if one in sent), default=0.0)
                at_s = max(at_s, arrived_s) + each_s
                sent[task].append(at_s)
    return {task: times[-1] if behind[task] else restored_s for task, times in sent.items()}


def reads(task: Task) -> tuple[Task, ...]:
    """Tasks whose output a task reads; tasks of the first level read sources."""
    level, place = task
    return ((level - 1, 2 * place), (level - 1, 2 * place + 1)) if level else ()


def above(task: Task) -> set[Task]:
    """The task, and all tasks whose output reaches it."""
    return {task}.union(*(above(one) for one in reads(task)))


def _batches(seconds: float) -> int:
    return round(seconds / BATCH_S)

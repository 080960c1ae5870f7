"""The beginning of a job's cut log, and the share of each source task in the user's topic.

Source: PROTOCOL 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from holdfast.schemas.cuts import NO_WATERMARK, CutsSnapshot, Range, TaskCuts
from holdfast.schemas.plans import Plan
from holdfast.services.kernel.plans.layout import commit_logs, task_name


def beginning(first: Mapping[str, Mapping[int, int]], topics: Mapping[str, str] | None = None) -> CutsSnapshot:
    """Returns the state of the cut log before its first record.

    Args:
        first: task -> partition -> first offset, as in the plan. topics: the ids of the sources' topics.
    """
    tasks = {
        task: TaskCuts(
            last=None,
            batch=0,
            ranges=tuple(Range(p, offset, offset) for p, offset in sorted(positions.items())),
            watermark=NO_WATERMARK,
            idle=False,
            final=False,
        )
        for task, positions in first.items()
    }
    return CutsSnapshot(upto=0, tasks=tasks, topics={name: (id,) for name, id in (topics or {}).items()})


def beginning_of(plan: Plan) -> CutsSnapshot:
    """State of a job's cut log before its first record."""
    first = {
        task_name(source.operator, index): {partition: source.first[partition] for partition in owned}
        for source in plan.sources
        for index, owned in enumerate(source.owners)
    }
    found = beginning(first, {source.operator: source.topic_id for source in plan.sources if source.topic_id})
    if plan.seed is None:
        return found
    return structs.replace(found, tasks=dict(plan.seed.sources), paused=plan.seed.rests, level=plan.seed.rests)


def shares(plan: Plan) -> dict[str, Share]:
    """Returns the share of each source task in the user's topic.

    A table never grows: rows of one key would be in two partitions, in an unknown order.
    """
    tables = plan.tables
    logs = commit_logs(plan)
    return {
        task_name(source.operator, index): Share(index, len(source.owners), source.operator not in tables)
        for source in plan.sources
        if source.topic not in logs
        for index in range(len(source.owners))
    }


def owned(plan: Plan, partitions: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Returns the partitions of each source task, given the present number of partitions of each topic."""
    known, found = shares(plan), {}
    for source in plan.sources:
        for index, own in enumerate(source.owners):
            name = task_name(source.operator, index)
            new = known[name].joining(len(own), partitions.get(source.topic, 0)) if name in known else ()
            found[name] = (*own, *(r.partition for r in new))
    return found


@dataclass(frozen=True, slots=True)
class Share:
    """Share of task `index` of `tasks` in a topic: the partitions index, index + tasks, index + 2 tasks, ...

    grows: true if new partitions are read, too.
    """

    index: int
    tasks: int
    grows: bool = True

    def joining(self, owned: int, partitions: int) -> tuple[Range, ...]:
        """Returns the partitions that a task which owns `owned` of them lacks, of a topic with this number of
        partitions.

        A partition joins at offset 0, its first record; no record of it can have been cut before.
        """
        if not self.grows:
            return ()
        return tuple(Range(p, 0, 0) for p in range(self._nth(owned), partitions, self.tasks))

    def adds(self, owned: int, added: Sequence[Range]) -> bool:
        """True if these are the next partitions of the task, without a gap, each at its start."""
        return self.grows and all(new == Range(self._nth(owned + at), 0, 0) for at, new in enumerate(added))

    def owns(self, partitions: Collection[int]) -> bool:
        """True if these are the task's partitions of some topic: its first ones, without a gap."""
        return set(partitions) == {self._nth(at) for at in range(len(partitions))}

    def _nth(self, owned: int) -> int:
        return self.index + self.tasks * owned

"""Counts of a job, read before its topics are deleted.

Source: PROTOCOL 1 and 7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import msgspec

from holdfast.schemas import plans, progress
from holdfast.schemas.plans import Counts, Plan, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.sums import counted, furthest, summed
from holdfast.services.log.late.last_words import last_words
from holdfast.services.log.protocol import Log


def counts_of(log: Log, cluster: ClusterTopics, plan: Plan) -> Counts:
    """Returns the counts from the job's progress, or, once that is deleted, from its last status. Blocks."""
    where = Partition(cluster.job(plan.job, plan.generation).progress, 0)
    if log.describe([where.topic]):
        return summed(furthest(_read(log, where, {unit.name for unit in plan.units})).values())
    return _published(log, cluster, plan)


def published(log: Log, cluster: ClusterTopics, jobs: Collection[str]) -> dict[str, Status]:
    """Returns the last published status of each of these jobs (`<job>@<generation>`), by generation. Blocks."""
    found: dict[str, Status] = {}
    for value in last_words(log, Partition(cluster.status, 0), jobs):
        with suppress(msgspec.DecodeError):
            status = plans.decode_status(value or b"")
            found[status.generation] = status
    return found


def _read(log: Log, where: Partition, units: set[str]) -> Iterator[Progress]:
    for value in last_words(log, where, units):
        with suppress(msgspec.DecodeError):
            record = progress.decode(value or b"")
            if record.unit in units:
                yield record


def _published(log: Log, cluster: ClusterTopics, plan: Plan) -> Counts:
    """Returns the last counts in the job's statuses; a controller that starts publishes a status without counts
    first.
    """
    last = Counts()
    for message in log.scan(Partition(cluster.status, 0)):
        with suppress(msgspec.DecodeError):
            status = plans.decode_status(message.value() or b"")
            known = counted(status)
            last = known if status.generation == plan.generation and known != Counts() else last
    return last

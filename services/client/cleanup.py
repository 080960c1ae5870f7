"""Removes the topics of a cluster that no longer runs from a shared Kafka.

Users' topics, which jobs read and write, are never touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas.topics import Partition
from holdfast.services.controller.core.job import SETTLED
from holdfast.services.controller.kept import delete_over, kept
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.view.door import Door
from holdfast.services.view.reader import read_jobs

LISTEN_S = 3.0
"""Seconds in which a running cluster writes many heartbeats."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic of the cluster.

    owner: cluster, or job@generation.
    kept_until_ms: of dead letters of an ended job, time at which the topic will be deleted, milliseconds since 1970;
        else None.
    """

    topic: str
    partitions: int
    owner: str
    kept_until_ms: int | None = None


def owned(door: Door) -> list[TopicLine]:
    """Every topic of the cluster that exists, by name."""
    lines = ((name, count, door.topics.owner(name)) for name, count in sorted(door.present.items()))
    until = {one.topics.dead_letters: one.until_ms or 0 for one in kept(door.log, door.topics, door.present)}
    return [TopicLine(name, count, owner, until.get(name)) for name, count, owner in lines if owner is not None]


def clean_over(door: Door) -> list[TopicLine]:
    """Deletes dead letters of ended jobs whose retention is over, as the controller does, also
    while the cluster runs.
    """
    lines, live = owned(door), {one.generation for one in read_jobs(door).jobs() if one.state not in SETTLED}
    deleted = set(delete_over(door.log, door.topics, int(time.time() * 1000), lambda one: one not in live))
    return [line for line in lines if line.topic in deleted]


def clean(door: Door, sleep: Callable[[float], None] = time.sleep) -> list[TopicLine]:
    """Deletes every topic of the cluster, the topic that marks its existence last.

    Raises:
        CommandFailed: the cluster runs; nothing is deleted then.
    """
    if _heard(door, sleep):
        hint = "stop it first: `holdfast down` on each of its hosts"
        raise CommandFailed(f"cluster '{door.topics.prefix}' runs: its heartbeats come in", hint)
    lines = owned(door)
    door.log.delete([line.topic for line in lines if line.topic != door.topics.submit])
    door.log.delete([door.topics.submit])
    return lines


def _heard(door: Door, sleep: Callable[[float], None]) -> bool:
    """True if new heartbeats arrive. Compares offsets, not times, because the clock of either machine may be wrong."""
    heartbeats = Partition(door.topics.heartbeats, 0)
    if heartbeats.topic not in door.present:
        return False
    before = door.log.offsets([heartbeats], "end")
    sleep(LISTEN_S)
    return door.log.offsets([heartbeats], "end") != before

"""Cleaning: the topics of a cluster that runs no more, removed from a Kafka that is not ours to stop.

Topics of people, those that jobs read and write, are never touched.
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
from holdfast.services.view.reading import read_jobs

LISTEN_S = 3.0
"""A cluster that runs writes heartbeats many times in it."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic of the cluster. owner: cluster, or job@generation.

    kept_until_ms: of dead letters of a job that is gone: time of day when the topic goes, too; else None.
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
    """Deletes dead letters of ended jobs whose time is over, as the controller does, also while the cluster runs."""
    lines, live = owned(door), {one.generation for one in read_jobs(door).jobs() if one.state not in SETTLED}
    deleted = set(delete_over(door.log, door.topics, int(time.time() * 1000), lambda one: one not in live))
    return [line for line in lines if line.topic in deleted]


def clean(door: Door, sleep: Callable[[float], None] = time.sleep) -> list[TopicLine]:
    """Deletes every topic of the cluster; the one that says that there is a cluster comes last.

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
    """By offsets and not by times: a clock may be wrong, here or there."""
    heartbeats = Partition(door.topics.heartbeats, 0)
    if heartbeats.topic not in door.present:
        return False
    before = door.log.offsets([heartbeats], "end")
    sleep(LISTEN_S)
    return door.log.offsets([heartbeats], "end") != before

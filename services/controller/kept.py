"""Dead letters of ended jobs, kept until Kafka has deleted the last of them by age.

Source: PROTOCOL 1. A dead letter is kept for the same time whether its job runs or has ended. The topic is deleted once
it holds no younger one, so no process has to keep the time at which the job ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition
from holdfast.services.log.protocol import Log


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """The dead letters of a job.

    until_ms: time of day at which the last one is old enough; None: there are none.
    """

    topics: JobTopics
    until_ms: int | None

    def over(self, now_ms: int) -> bool:
        """True if no dead letter is left to keep."""
        return self.until_ms is None or self.until_ms <= now_ms


def kept(log: Log, cluster: ClusterTopics, present: Collection[str]) -> Iterator[KeptLetters]:
    """Jobs whose dead letters are on Kafka while their cuts are not: topics of a replay stay together. Blocks.

    Args:
        present: the existing topics.
    """
    for name in sorted(present):
        owner = cluster.owner(name)
        job, _, generation = (owner or "").partition("@")
        if not generation:
            continue
        own = cluster.job(job, generation)
        if name == own.dead_letters and own.cuts not in present:
            yield KeptLetters(own, until_ms(log, own))


def until_ms(log: Log, own: JobTopics) -> int | None:
    """Returns the time of day until which the dead letters of a job are kept; None if there are none. Blocks."""
    last = log.last(Partition(own.dead_letters, 0))
    if last is None:
        return None
    keeps_ms = int(log.config(own.dead_letters).get("retention.ms", 0))
    return last.timestamp()[1] + keeps_ms


def delete_over(
    log: Log, cluster: ClusterTopics, now_ms: int, ended: Callable[[str], bool] = lambda generation: True
) -> list[str]:
    """Deletes the dead letters whose time is over; returns the deleted topics. Blocks.

    Args:
        ended: true for a generation that is over; one that begins may have dead letters before its other topics.
    """
    present = log.topics()
    over = [one.topics for one in kept(log, cluster, present) if ended(one.topics.generation) and one.over(now_ms)]
    names = [name for own in over for name in (own.dead_letters, own.replayed.name) if name in present]
    log.delete(names)
    return names

"""Kafka loses a producer's first record for a partition and takes those that follow: the job is still exact.

A leader that has just been chosen refuses a first request, and may take the second, which is under way already
(services/log/kafka/log.py). Three brokers, one restarted: a frame was lost so, its readers began again for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.schemas import checkpoints, cuts
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryAppender
from tests.support.memory_cluster import MemoryCluster
from tests.support.orders import JOB, check, orders

APART = JOB + "placement: {units: [[orders], [large], [per_shop], [hourly], [big]]}\n"
"""Frames go from unit to unit."""


class Loss:
    """Takes the first record of a kind from every appender and partition, and says so once two more are there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self._kind, self.lost = kind, dict[tuple[MemoryAppender, Partition], Any]()
        self._behind = Counter[tuple[MemoryAppender, Partition]]()
        self._append = MemoryAppender.append
        monkeypatch.setattr(
            MemoryAppender, "append", lambda appender, *args, **more: self.append(appender, *args, **more)
        )

    def append(self, appender: MemoryAppender, partition: Partition, value: bytes, **more: Any) -> None:
        place, done = (appender, partition), more.get("done")
        if place not in self.lost and self._loses(partition, value):
            self.lost[place] = done
            return
        self._append(appender, partition, value, **more)
        self._behind[place] += 1
        if self._behind[place] > 1 and (told := self.lost.get(place)) is not None:
            self.lost[place] = None
            told(Retriable("it may be lost"), -1)

    def told(self) -> None:
        """Nothing may follow: then the answer comes by itself."""
        for place, done in self.lost.items():
            if done is not None:
                self.lost[place] = None
                done(Retriable("it may be lost"), -1)

    def _loses(self, partition: Partition, value: bytes) -> bool:
        match self._kind:
            case "frame":
                return ".data." in partition.topic
            case "cut":
                return partition.topic.endswith(".cuts") and isinstance(cuts.decode(value), cuts.Cut)
            case _:
                marker = partition.topic.endswith(".checkpoints")
                return marker and isinstance(checkpoints.decode(value), checkpoints.Marker)


@pytest.mark.parametrize("kind", ["frame", "cut", "marker"])
def test_the_first_record_for_a_partition_is_lost(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    loss, fed = Loss(monkeypatch, kind), orders(400)
    cluster = MemoryCluster(APART)
    workers = [cluster.start("one"), cluster.start("two")]
    cluster.place({unit: [workers[number % 2]] for number, unit in enumerate(cluster.units)})
    for number, order in enumerate(fed):
        cluster.feed("orders", [order], number % 2)
        if number % 20 == 0:
            cluster.turn(20)
            if number % 40 == 0:
                loss.told()

    def ended() -> bool:
        loss.told()
        return cluster.ended()

    cluster.control("drain")
    cluster.until(ended)
    check(cluster.rows, fed)
    assert len(loss.lost) >= 2

"""Where a drain ends: a broker that has fallen behind must not end a source before its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from holdfast.schemas.cuts import Control, Cut, Range, encode
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition
from holdfast.services.controller.core.controller import DRAIN_AGAIN_MS
from holdfast.services.controller.ends import LOOKED_AT, ends_of_sources
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryLog
from tests.unit.controller import test_histories as histories
from tests.unit.controller.cluster import CLUSTER, Cluster, job


class Behind:
    """A log of which the ends of one topic are those of a while ago."""

    def __init__(self, log: MemoryLog, topic: str, end: int) -> None:
        self._log, self._topic, self._end = log, topic, end

    def offsets(self, partitions: Iterable[Partition], at: Any) -> dict[Partition, int]:
        found = self._log.offsets(partitions, at)
        return {p: min(offset, self._end) if p.topic == self._topic else offset for p, offset in found.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def running() -> tuple[Cluster, Partition]:
    """A job whose source tasks read 20 records of each of two partitions."""
    cluster = Cluster()
    cluster.submit(job())
    cluster.settle()
    for partition in range(2):
        cluster.fill("in", partition, 20)
    return cluster, Partition(CLUSTER.job("job", cluster.plan().generation).cuts, 0)


def cut(cluster: Cluster, where: Partition, task: int, stop: int) -> None:
    record = Cut(f"s-{task}", 1, (Range(task, 0, stop),), 0, Id("w", stop))
    cluster.log.put(where, encode(record), None, None)


def test_ends_are_those_of_every_partition() -> None:
    cluster, where = running()
    cut(cluster, where, 0, 20)
    assert ends_of_sources(cluster.log, cluster.plan(), where) == {"s-0": {0: 20}, "s-1": {1: 20}}


def test_an_end_below_what_is_cut_is_no_end() -> None:
    cluster, where = running()
    cut(cluster, where, 1, 15)
    for _ in range(LOOKED_AT - 1):
        cut(cluster, where, 0, 10)
    behind: Any = Behind(cluster.log, "in", 14)
    with pytest.raises(Retriable, match=r"in\[1\]: its end is said to be 14, but it is cut up to 15"):
        ends_of_sources(behind, cluster.plan(), where)
    behind = Behind(cluster.log, "in", 15)
    assert ends_of_sources(behind, cluster.plan(), where) == {"s-0": {0: 15}, "s-1": {1: 15}}


def test_a_drain_is_asked_for_again_until_a_unit_has_run_out() -> None:
    """The first may have lacked a partition that joined meanwhile, and is then not valid."""
    cluster = histories.running()
    cluster.command("drain")
    cluster.pass_s(0.9 * DRAIN_AGAIN_MS / 1000)
    assert len(cluster.controls()) == 1
    cluster.pass_s(0.2 * DRAIN_AGAIN_MS / 1000)
    assert len(cluster.controls()) == 2
    cluster.run_out(but=cluster.plan().units[-1].name)
    cluster.pass_s(2 * DRAIN_AGAIN_MS / 1000)
    first, again = cluster.controls()
    assert first == again


def test_a_drain_whose_ends_cannot_be_true_waits() -> None:
    cluster = histories.running()
    where = Partition(cluster.names().cuts, 0)
    cut(cluster, where, 1, 4)
    cluster.command("drain")
    cluster.pass_s(2)
    assert len(cluster.controls()) == 1, "the cut alone"
    cluster.fill("in", 1, 4)
    cluster.pass_s(2)
    assert cluster.controls()[1] == Control("drain", 1, {"s-0": {0: 0}, "s-1": {1: 4}})

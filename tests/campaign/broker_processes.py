"""The brokers of a cluster of processes: struck by signals and control groups, started again by its supervisor."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from holdfast.services.node.kafka.broker import EmbeddedKafka
from tests.campaign import partitioning
from tests.campaign.partitioning import CannotPartition, Fence
from tests.support.doomed_cluster import DoomedCluster

LOOK_AGAIN_S = 0.05
SLOW_S = (0.19, 0.01)
"""A slow broker is stopped for the first and runs for the second, again and again."""
STRANGE = ("cut-tail",)
"""Faults that need a broker to stay away for a while: the supervisor starts it again at once."""


class ProcessBrokers:
    """Strikes; a broker that has ended is started again by the supervisor. Use `brokers_of` to make one."""

    def __init__(self, cluster: DoomedCluster, *, partitions: bool) -> None:
        brokers = cluster.supervisor.brokers
        assert brokers is not None
        self.bootstrap_servers = brokers.bootstrap_servers
        self._nodes = {node.node: node for node in brokers.nodes}
        self.nodes = tuple(self._nodes)
        self._fences = {number: Fence(str(number)) for number in self._nodes} if partitions else {}
        self.cannot = frozenset({*STRANGE, *(() if partitions else ("partition-one",))})
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._take_into_groups, name="control groups", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        self._over.set()
        self._keeper.join()
        for fence in self._fences.values():
            fence.close()

    # -- what is known ------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        return all(node.running for node in self._nodes.values())

    def controller(self) -> int:
        """Controller as each node keeps it beside its log of the metadata; the newest epoch counts."""
        known = [
            json.loads((node.data_dir / "data/__cluster_metadata-0/quorum-state").read_text())
            for node in self._nodes.values()
        ]
        leader = int(max(known, key=lambda one: int(one["leaderEpoch"]))["leaderId"])
        return leader if leader in self._nodes else self.nodes[0]

    # -- what is done -------------------------------------------------------------------------------------------------

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            if self._nodes[number].running:
                self._nodes[number].child.send(signal.SIGKILL)

    def restart(self, number: int) -> Callable[[], bool]:
        node = self._nodes[number]
        before = node.pid
        node.child.send(signal.SIGTERM)
        return lambda: node.running and node.pid != before

    @contextmanager
    def frozen(self, number: int) -> Iterator[None]:
        child = self._nodes[number].child
        child.send(signal.SIGSTOP)
        try:
            yield
        finally:
            child.send(signal.SIGCONT)

    @contextmanager
    def slow(self, number: int) -> Iterator[None]:
        over = threading.Event()
        slowed = threading.Thread(target=_slowed, args=(self._nodes[number], over), name="slow broker", daemon=True)
        slowed.start()
        try:
            yield
        finally:
            over.set()
            slowed.join()

    @contextmanager
    def cut_off(self, number: int) -> Iterator[None]:
        if number not in self._fences:
            raise CannotPartition("the campaign was started without partitions")
        with self._fences[number].cut():
            yield

    def cut_tail(self, number: int, topics: Sequence[str]) -> None:
        raise NotImplementedError("it is in `cannot`")

    def _take_into_groups(self) -> None:
        """In a thread of its own: a broker that was started again is taken before it has opened a socket."""
        taken: dict[int, int] = {}
        while not self._over.wait(LOOK_AGAIN_S):
            for number, fence in self._fences.items():
                node = self._nodes[number]
                if node.running and taken.get(number) != node.pid:
                    taken[number] = node.pid
                    with suppress(OSError):  # it has just ended
                        fence.take(node.pid)


def _slowed(node: EmbeddedKafka, over: threading.Event) -> None:
    child, (still_s, runs_s) = node.child, SLOW_S
    while not over.is_set():
        child.send(signal.SIGSTOP)
        time.sleep(still_s)
        child.send(signal.SIGCONT)
        time.sleep(runs_s)


def can_partition() -> bool:
    try:
        partitioning.check()
    except CannotPartition:
        return False
    return True


@contextmanager
def brokers_of(cluster: DoomedCluster) -> Iterator[ProcessBrokers]:
    brokers = ProcessBrokers(cluster, partitions=can_partition())
    try:
        yield brokers
    finally:
        brokers.close()

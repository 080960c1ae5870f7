"""What is done to the brokers of a cluster: killed, frozen, restarted, cut off; one, two, or one after the other."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.node.broker import EmbeddedKafka
from tests.campaign.partitioning import CannotPartition, Fence
from tests.support.doomed_cluster import DoomedCluster
from tests.support.running_job import NotReached

LOOK_AGAIN_S = 0.05
HEALTHY_S = 120.0
LONG_S = (2.0, 6.0)
"""How long a broker is frozen or cut off, drawn between these."""
STATE_TOPIC = "__transaction_state"

FAULTS: Mapping[str, str] = {
    "kill-one": "SIGKILL to any broker",
    "kill-leader": "SIGKILL to the leader of a partition of one of the job's topics",
    "kill-coordinator": "SIGKILL to the coordinator of one of the job's transactional ids",
    "kill-controller": "SIGKILL to the broker whose controller is active",
    "kill-two": "SIGKILL to two brokers at once",
    "freeze-one": "a broker hangs for 2 to 6 s",
    "freeze-leader": "the leader of a partition of one of the job's topics hangs for 2 to 6 s",
    "restart-one": "SIGTERM to any broker",
    "rolling": "SIGTERM to all three, each once the one before it is back",
    "partition-one": "nothing that a broker sends arrives, for 2 to 6 s",
}


class BrokerFaults:
    """Strikes the brokers of a cluster that are started again by its supervisor. Use `close` at the end."""

    def __init__(self, cluster: DoomedCluster, chance: random.Random, *, partitions: bool) -> None:
        brokers = cluster.supervisor.brokers
        assert brokers is not None
        self._nodes = brokers.nodes
        self._chance = chance
        self._admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})
        self._fences = {node.node: Fence(str(node.node)) for node in self._nodes} if partitions else {}
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._take_into_groups, name="control groups", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        self._over.set()
        self._keeper.join()
        for fence in self._fences.values():
            fence.close()

    def strike(self, fault: str, topics: Sequence[str], meanwhile: Callable[[float], None]) -> str:
        """Returns what was struck. meanwhile: is called with the seconds that the fault is to last."""
        match fault:
            case "kill-two":
                return self._kill(*self._chance.sample(self._nodes, 2))
            case "kill-leader":
                return self._kill(self._leader(topics))
            case "kill-coordinator":
                return self._kill(self._leader([STATE_TOPIC]))
            case "kill-controller":
                return self._kill(self._controller())
            case "freeze-one":
                return self._frozen(self._any(), meanwhile)
            case "freeze-leader":
                return self._frozen(self._leader(topics), meanwhile)
            case "restart-one":
                return self._restart([self._any()], meanwhile)
            case "rolling":
                return self._restart(self._chance.sample(self._nodes, len(self._nodes)), meanwhile)
            case "partition-one":
                return self._cut_off(self._any(), meanwhile)
            case _:
                return self._kill(self._any())

    # -- what is known ------------------------------------------------------------------------------------------------

    def healthy(self) -> bool:
        """Every broker runs, and every partition has a leader and all of its replicas."""
        if not all(node.running for node in self._nodes):
            return False
        with suppress(KafkaException):
            found = self._admin.list_topics(timeout=2)
            partitions = [p for topic in found.topics.values() for p in topic.partitions.values()]
            return len(found.brokers) == len(self._nodes) and all(
                p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in partitions
            )
        return False

    def _take_into_groups(self) -> None:
        """In a thread of its own: a broker that was started again is taken before it has opened a socket."""
        taken: dict[int, int] = {}
        while not self._over.wait(LOOK_AGAIN_S):
            for node in self._nodes:
                if node.node in self._fences and node.running and taken.get(node.node) != node.pid:
                    taken[node.node] = node.pid
                    with suppress(OSError):  # it has just ended
                        self._fences[node.node].take(node.pid)

    def _any(self) -> EmbeddedKafka:
        return self._chance.choice(self._nodes)

    def _leader(self, topics: Sequence[str]) -> EmbeddedKafka:
        found = self._admin.list_topics(timeout=10).topics
        partitions = [p for name in topics if name in found for p in found[name].partitions.values() if p.leader >= 0]
        leader = self._chance.choice(partitions).leader
        return next(node for node in self._nodes if node.node == leader)

    def _controller(self) -> EmbeddedKafka:
        """As each node keeps it beside its log of the metadata; the newest epoch counts."""
        known = [
            json.loads((node.data_dir / "data/__cluster_metadata-0/quorum-state").read_text()) for node in self._nodes
        ]
        leader = max(known, key=lambda one: int(one["leaderEpoch"]))["leaderId"]
        return next((node for node in self._nodes if node.node == leader), self._nodes[0])

    # -- what is done -------------------------------------------------------------------------------------------------

    def _kill(self, *nodes: EmbeddedKafka) -> str:
        for node in nodes:
            if node.running:
                node.child.send(signal.SIGKILL)
        return "broker " + " and ".join(str(node.node) for node in nodes)

    def _frozen(self, node: EmbeddedKafka, meanwhile: Callable[[float], None]) -> str:
        child, seconds = node.child, self._chance.uniform(*LONG_S)
        child.send(signal.SIGSTOP)
        try:
            meanwhile(seconds)
        finally:
            child.send(signal.SIGCONT)
        return f"broker {node.node} for {seconds:.1f} s"

    def _cut_off(self, node: EmbeddedKafka, meanwhile: Callable[[float], None]) -> str:
        if node.node not in self._fences:
            raise CannotPartition("the campaign was started without partitions")
        seconds = self._chance.uniform(*LONG_S)
        with self._fences[node.node].cut():
            meanwhile(seconds)
        return f"broker {node.node} for {seconds:.1f} s"

    def _restart(self, nodes: Sequence[EmbeddedKafka], meanwhile: Callable[[float], None]) -> str:
        for place, node in enumerate(nodes):
            before = node.pid
            node.child.send(signal.SIGTERM)
            self._await(lambda: node.running and node.pid != before and self.healthy(), meanwhile)  # noqa: B023
            if place + 1 < len(nodes):
                meanwhile(0.5)
        return "brokers " + ", ".join(str(node.node) for node in nodes)

    def _await(self, condition: Callable[[], bool], meanwhile: Callable[[float], None]) -> None:
        deadline = time.monotonic() + HEALTHY_S
        while not condition():
            if time.monotonic() > deadline:
                raise NotReached("the brokers are not back")
            meanwhile(LOOK_AGAIN_S)


@contextmanager
def faults_of(cluster: DoomedCluster, chance: random.Random, *, partitions: bool) -> Iterator[BrokerFaults]:
    faults = BrokerFaults(cluster, chance, partitions=partitions)
    try:
        yield faults
    finally:
        faults.close()

"""Faults of the brokers of a cluster: killed, frozen, restarted, cut off; one, two, or one after the other.

Each kind of cluster has its own way: broker_processes.py, broker_containers.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.running_job import NotReached

LOOK_AGAIN_S = 0.05
HEALTHY_S = 120.0
LONG_S = (2.0, 6.0)
"""Time for which a broker is frozen, slow or cut off, drawn between these."""
STATE_TOPIC = "__transaction_state"

FAULTS: Mapping[str, str] = {
    "kill-one": "SIGKILL to any broker",
    "kill-leader": "SIGKILL to the leader of a partition of one of the job's topics",
    "kill-coordinator": "SIGKILL to the coordinator of one of the job's transactional ids",
    "kill-controller": "SIGKILL to the broker whose controller is active",
    "kill-two": "SIGKILL to two brokers at once: fewer than min.insync.replicas are left",
    "freeze-one": "a broker hangs for 2 to 6 s",
    "freeze-leader": "the leader of a partition of one of the job's topics hangs for 2 to 6 s",
    "slow-one": "a broker gets a tenth of a processor at most, for 2 to 6 s",
    "restart-one": "SIGTERM to any broker",
    "rolling": "SIGTERM to all three, each once the one before it is back",
    "partition-one": "nothing that a broker sends arrives, for 2 to 6 s",
    "cut-tail": "SIGKILL to any broker, and its logs of the job's topics lose their ends before it starts again",
}


class Brokers(Protocol):
    """Brokers by number. One that was killed is started again without being asked. cannot: faults it cannot make."""

    bootstrap_servers: str
    nodes: tuple[int, ...]
    cannot: frozenset[str]

    def run(self) -> bool:
        """Every one runs."""

    def controller(self) -> int:
        """The one whose controller is active."""

    def kill(self, *numbers: int) -> None:
        """SIGKILL."""

    def restart(self, number: int) -> Callable[[], bool]:
        """SIGTERM; what is returned says whether it has been started again."""

    def frozen(self, number: int) -> AbstractContextManager[None]:
        """Freezes it: it does nothing until the end of the block."""

    def slow(self, number: int) -> AbstractContextManager[None]:
        """Slows it: it does little until the end of the block."""

    def cut_off(self, number: int) -> AbstractContextManager[None]:
        """Nothing that it sends arrives, until the end of the block."""

    def cut_tail(self, number: int, topics: Sequence[str]) -> None:
        """SIGKILL; its logs of these topics lose their ends."""


class BrokerFaults:
    """Strikes brokers by chance."""

    def __init__(self, brokers: Brokers, chance: random.Random) -> None:
        self._brokers, self._chance = brokers, chance
        self._admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers, "log_level": 0})

    def strike(self, fault: str, topics: Sequence[str], meanwhile: Callable[[float], None]) -> str:
        """Returns what was struck. meanwhile: is called with the seconds that the fault is to last."""
        brokers, chance = self._brokers, self._chance
        match fault:
            case "kill-two":
                return self._kill(*chance.sample(brokers.nodes, 2))
            case "kill-leader":
                return self._kill(self._leader(topics))
            case "kill-coordinator":
                return self._kill(self._leader([STATE_TOPIC]))
            case "kill-controller":
                return self._kill(brokers.controller())
            case "freeze-one":
                return self._for_a_while(brokers.frozen, self._any(), meanwhile)
            case "freeze-leader":
                return self._for_a_while(brokers.frozen, self._leader(topics), meanwhile)
            case "slow-one":
                return self._for_a_while(brokers.slow, self._any(), meanwhile)
            case "restart-one":
                return self._restart([self._any()], meanwhile)
            case "rolling":
                return self._restart(chance.sample(brokers.nodes, len(brokers.nodes)), meanwhile)
            case "partition-one":
                return self._for_a_while(brokers.cut_off, self._any(), meanwhile)
            case "cut-tail":
                number = self._any()
                brokers.cut_tail(number, topics)
                return f"broker {number}"
            case _:
                return self._kill(self._any())

    def healthy(self) -> bool:
        """Every broker runs, and every partition has a leader and all of its replicas."""
        return not self.lacking()

    def lacking(self) -> str:
        """Reason why they are not healthy."""
        if not self._brokers.run():
            return "not every broker runs"
        try:
            found = self._admin.list_topics(timeout=2)
        except KafkaException as error:
            return f"no broker lists topics: {error}"
        if len(found.brokers) < len(self._brokers.nodes):
            return f"{len(found.brokers)} of {len(self._brokers.nodes)} brokers are known"
        late = [
            f"{name}[{index}] is led by {one.leader}, in sync {sorted(one.isrs)} of {sorted(one.replicas)}"
            for name, topic in found.topics.items()
            for index, one in topic.partitions.items()
            if one.leader < 0 or len(one.isrs) < len(one.replicas)
        ]
        return f"{len(late)} partitions, such as {late[0]}" if late else ""

    def _any(self) -> int:
        return self._chance.choice(self._brokers.nodes)

    def _leader(self, topics: Sequence[str]) -> int:
        found = self._admin.list_topics(timeout=10).topics
        partitions = [p for name in topics if name in found for p in found[name].partitions.values() if p.leader >= 0]
        return int(self._chance.choice(partitions).leader)

    def _kill(self, *numbers: int) -> str:
        self._brokers.kill(*numbers)
        return "broker " + " and ".join(map(str, numbers))

    def _for_a_while(
        self, struck: Callable[[int], AbstractContextManager[None]], number: int, meanwhile: Callable[[float], None]
    ) -> str:
        seconds = self._chance.uniform(*LONG_S)
        with struck(number):
            meanwhile(seconds)
        return f"broker {number} for {seconds:.1f} s"

    def _restart(self, numbers: Sequence[int], meanwhile: Callable[[float], None]) -> str:
        for place, number in enumerate(numbers):
            back = self._brokers.restart(number)
            self._await(lambda: back() and self.healthy(), meanwhile)  # noqa: B023
            if place + 1 < len(numbers):
                meanwhile(0.5)
        return "brokers " + ", ".join(map(str, numbers))

    def _await(self, condition: Callable[[], bool], meanwhile: Callable[[float], None]) -> None:
        deadline = time.monotonic() + HEALTHY_S
        while not condition():
            if time.monotonic() > deadline:
                raise NotReached(f"the brokers are not back after {HEALTHY_S:g} s: {self.lacking()}")
            meanwhile(LOOK_AGAIN_S)

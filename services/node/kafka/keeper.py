"""Keeps the embedded Kafka running: sees when a broker ends, and starts the broker again."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.services.node.kafka.broker import EmbeddedKafka
from holdfast.services.node.kafka.brokers import Brokers
from holdfast.services.node.machine.disk import Disk
from holdfast.services.node.machine.messages import say
from holdfast.services.node.machine.restarts import Restarts

DEAF_S = 10.0
"""A broker that has closed its port never opens it again. Kafka 4.3.1 can stay in that state for minutes: where its
disk was full, a broker that was ending did not end within two minutes, and nothing worked meanwhile."""


@dataclass(frozen=True, slots=True)
class BrokerEnded:
    """A run of a broker has ended."""

    broker: EmbeddedKafka
    status: int


@dataclass(frozen=True, slots=True)
class BrokerReturned:
    """A broker that had ended answers again.

    status: exit status of its former process.
    """

    broker: EmbeddedKafka
    status: int


class BrokerKeeper:
    """Keeper of the brokers of one cluster.

    Args:
        disk: checks that there is room for a start.
        stopping: set once no broker may be started any more.
        happened: called from another thread whenever a broker ends or returns.
    """

    def __init__(
        self,
        brokers: Brokers,
        disk: Disk,
        stopping: threading.Event,
        happened: Callable[[BrokerEnded | BrokerReturned], None],
    ) -> None:
        self._brokers = brokers
        self.disk = disk
        self._stopping = stopping
        self._happened = happened
        self._restarts: defaultdict[int, Restarts] = defaultdict(Restarts)
        self._started: dict[int, float] = {}
        self._deaf_since: dict[int, float] = {}

    def start(self) -> None:
        """Starts all brokers. Raises the errors of Brokers.start."""
        self._brokers.start()
        for node in self._brokers.nodes:
            self._watch(node)

    def ended(self, broker: EmbeddedKafka, status: int) -> None:
        """Starts the broker again in a thread of its own, while everything else continues."""
        say(f"Kafka{self.which(broker)} ended with status {status}: starting it again")
        threading.Thread(target=self.restart, args=(broker, status), daemon=True).start()

    def returned(self, broker: EmbeddedKafka) -> None:
        """Notes that the broker runs again."""
        self._watch(broker)

    def end_deaf(self) -> None:
        """Kills each broker whose process runs although its port has been closed for
        DEAF_S; called from time to time.
        """
        now = time.monotonic()
        for broker in self._brokers.nodes:
            if not broker.deaf:
                self._deaf_since.pop(broker.node, None)
            elif now - self._deaf_since.setdefault(broker.node, now) >= DEAF_S:
                del self._deaf_since[broker.node]
                say(f"Kafka{self.which(broker)} has closed its port and has not ended for {DEAF_S:g} s: it is killed")
                broker.child.kill()

    def which(self, broker: EmbeddedKafka) -> str:
        """Text with the broker's number; empty if there is only one."""
        return f" (broker {broker.node})" if len(self._brokers.nodes) > 1 else ""

    def restart(self, broker: EmbeddedKafka, status: int) -> None:
        """Restarts a broker repeatedly until Kafka answers.

        A Kafka that keeps ending by itself, as with a full disk, gets ever longer pauses.
        """
        restarts, what = self._restarts[broker.node], f"Kafka{self.which(broker)}"
        lived_s = time.monotonic() - self._started.get(broker.node, 0.0)
        delay = 0.0 if status < 0 else restarts.delay_s(lived_s)
        while not self._stopping.wait(delay):
            try:
                if self.disk.has_room(what):
                    self._brokers.restart(broker)
                    break
            except Exception as error:  # any error: nothing works without Kafka
                say(f"{type(error).__name__}: {error}")
            delay = restarts.delay_s(0)
        else:
            return
        self.disk.succeeds(what)
        self._happened(BrokerReturned(broker, status))

    def _watch(self, broker: EmbeddedKafka) -> None:
        child, self._started[broker.node] = broker.child, time.monotonic()
        threading.Thread(target=lambda: self._happened(BrokerEnded(broker, child.wait())), daemon=True).start()

"""Brokers: the embedded Kafka of a cluster, one node or several that replicate each other.

Several are for tests, benchmarks and demonstrations of a broker's failure: on one machine they share its disk, so they
protect only against the failure of a broker process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from holdfast.services.kernel.plurals import plural
from holdfast.services.node.kafka import fence
from holdfast.services.node.kafka.broker import START_TIMEOUT_S, BrokerFailed, EmbeddedKafka, Quorum
from holdfast.services.node.kafka.node_identity import new_id


class Brokers:
    """The nodes of one embedded Kafka. A single node keeps its data in `data_dir` itself,
    several in `node-<id>` below.
    """

    def __init__(self, nodes: Sequence[EmbeddedKafka], data_dir: Path | None = None) -> None:
        self.nodes = list(nodes)
        self._data_dir = data_dir
        self._deciding = threading.Lock()
        self._fenced = False

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the nodes, separated by commas. Raises BrokerFailed before the first start."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def pids(self) -> dict[str, int | None]:
        """Process ids by name, kafka or kafka-<id>; None for a broker that does not run."""
        names = ["kafka"] if len(self.nodes) == 1 else [f"kafka-{node.node}" for node in self.nodes]
        return {name: node.pid if node.running else None for name, node in zip(names, self.nodes, strict=True)}

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Returns when every node answers.

        Raises what EmbeddedKafka.start does, BrokerFailed also where the data are of another number of nodes; then none
        is left running.
        """
        self._check_number()
        if len(self.nodes) == 1:
            self.nodes[0].start(timeout_s)
            return
        deadline = time.monotonic() + timeout_s
        self._form_quorum()
        try:
            if any(node.crashed() for node in self.nodes):
                self._fence_former(deadline)
            with ThreadPoolExecutor(len(self.nodes)) as starting:
                list(starting.map(lambda node: node.start(deadline - time.monotonic()), self.nodes))
        except BaseException:
            self.stop()
            raise

    def restart(self, node: EmbeddedKafka, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts a node that has ended; may be called for several nodes at once.

        If no node runs any more, as with a full disk, no other node has taken over its partitions: the first call
        fences all nodes. Raises the errors of EmbeddedKafka.start.
        """
        with self._deciding:
            alone = len(self.nodes) > 1 and not any(one.running for one in self.nodes)
            if alone and not self._fenced:
                self._fence_former(time.monotonic() + timeout_s)
                self._fenced = True
        try:
            node.start(timeout_s)
        finally:
            self._fenced = False

    def stop(self) -> None:
        """Asks all nodes to end at once: each waits for the others to take over from it."""
        with ThreadPoolExecutor(len(self.nodes)) as stopping:
            list(stopping.map(lambda node: node.stop(), self.nodes))

    def _check_number(self) -> None:
        present = 0 if self._data_dir is None else _nodes_of(self._data_dir)
        if present and present != len(self.nodes):
            raise BrokerFailed(
                f"the data in {self._data_dir} are of {plural(present, 'broker')}: start it with "
                f"--brokers {present}, choose another --data-dir, or remove them with `holdfast down --purge`"
            )

    def _form_quorum(self) -> None:
        """Sets ports and identity, which all nodes need before any of them starts."""
        identity = self.nodes[0].identity or new_id()
        quorum = Quorum({node.node: node.prepare_port() for node in self.nodes}, identity)
        for node in self.nodes:
            node.quorum = quorum

    def _fence_former(self, deadline: float) -> None:
        """Fences every broker after all have ended, at least one of them by a crash; services/node/kafka/fence.py
        names the possible loss.

        The controllers run alone until they have fenced every broker. Raises BrokerFailed.
        """
        with ExitStack() as stack:
            parts = [stack.enter_context(node.lone_controller()) for node in self.nodes]
            try:
                fence.await_fenced(parts, deadline)
            except fence.NotFenced as error:
                raise BrokerFailed(str(error)) from None


def brokers_in(data_dir: Path, wanted: int | None, port: int = 0) -> Brokers:
    """The embedded Kafka of a data directory.

    Args:
        wanted: how many nodes; None: as many as its data are of, one where there are none yet.
        port: of the first node's clients; the others take the next pairs. 0: any that are free.
    """
    count = wanted or _nodes_of(data_dir) or 1
    if count == 1:
        return Brokers([EmbeddedKafka(data_dir, port)], data_dir)
    numbers = range(1, count + 1)
    nodes = [EmbeddedKafka(data_dir / f"node-{n}", port and port + 2 * (n - 1), n) for n in numbers]
    return Brokers(nodes, data_dir)


def _nodes_of(data_dir: Path) -> int:
    """0 where no broker has run yet."""
    if (data_dir / "formatted").exists():
        return 1
    return sum(1 for node in data_dir.glob("node-*") if (node / "formatted").exists())

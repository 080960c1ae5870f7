"""Nodes of an embedded Kafka that end: where none is left to take over, all are fenced before the first starts."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node.kafka.broker import BrokerFailed, EmbeddedKafka
from holdfast.services.node.kafka.brokers import Brokers
from holdfast.services.node.kafka.keeper import DEAF_S, BrokerKeeper
from holdfast.services.node.machine import ports
from holdfast.services.node.machine.disk import Disk
from holdfast.services.node.machine.processes import Child
from tests.support.deadlines import HANG_S


class Node:
    """Stands for a broker; it runs as soon as it is started, and says so when `all_start` do."""

    def __init__(self, all_start: threading.Barrier | None = None) -> None:
        self.running = False
        self._all_start = all_start
        self.fails = False

    def start(self, timeout_s: float) -> None:
        if self._all_start is not None:
            self._all_start.wait(HANG_S)
        if self.fails:
            raise OSError("no room")
        self.running = True


class Fenced(Brokers):
    """Counts how often all are fenced."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__(nodes)  # type: ignore[arg-type]
        self.count = 0

    def _fence_former(self, deadline: float) -> None:
        self.count += 1

    def bring_back(self, node: Node) -> None:
        self.restart(node)  # type: ignore[arg-type]


def test_a_taken_port_is_named_with_the_option_that_gives_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] - 1
        with pytest.raises(BrokerFailed) as failed:
            EmbeddedKafka(tmp_path, port).prepare_port()
    assert f"port {port + 1} " in str(failed.value)
    assert f"in use, and Kafka takes {port} and {port + 1}: end the process" in str(failed.value)
    assert "give another port: --port, or HOLDFAST_KAFKA_PORT (0: any that is free)" in str(failed.value)


def test_brokers_that_have_all_ended_are_fenced_once() -> None:
    together = threading.Barrier(3)
    nodes = [Node(together) for _ in range(3)]
    brokers = Fenced(*nodes)
    threads = [threading.Thread(target=brokers.bring_back, args=(node,)) for node in nodes]
    for one in threads:
        one.start()
    for one in threads:
        one.join(HANG_S)
    assert all(node.running for node in nodes)
    assert brokers.count == 1


def test_no_broker_is_fenced_if_another_has_taken_over() -> None:
    nodes = [Node() for _ in range(3)]
    nodes[2].running = True
    brokers = Fenced(*nodes)
    brokers.bring_back(nodes[0])
    assert brokers.count == 0


def test_a_broker_that_is_alone_fences_its_former_self() -> None:
    node = Node()
    brokers = Fenced(node)
    brokers.bring_back(node)
    assert brokers.count == 0


def test_after_a_start_that_failed_they_are_fenced_again() -> None:
    nodes = [Node() for _ in range(3)]
    nodes[0].fails = True
    brokers = Fenced(*nodes)
    with pytest.raises(OSError, match="no room"):
        brokers.bring_back(nodes[0])
    nodes[0].fails = False
    brokers.bring_back(nodes[0])
    assert brokers.count == 2


class ClosedPort(EmbeddedKafka):
    """A broker whose process runs; it listens only while the test does so in its place."""

    def __init__(self, home: Path, port: int) -> None:
        super().__init__(home)
        (home / "port").write_text(f"{port}\n")
        self._child = Child(["sleep", "60"], log=None)
        self._answered = True


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[ClosedPort]:
    broker = ClosedPort(tmp_path, ports.choose_pair())
    yield broker
    broker.kill()


def looks_of(broker: ClosedPort, monkeypatch: pytest.MonkeyPatch, *times_s: float) -> None:
    """The keeper looks at the broker at each of these times."""
    keeper = BrokerKeeper(Brokers([broker]), Disk(broker.data_dir, print), threading.Event(), print)
    for at in times_s:
        monkeypatch.setattr(time, "monotonic", lambda at=at: at)
        keeper.end_deaf()


def test_a_broker_whose_port_stays_closed_is_killed(hung: ClosedPort, monkeypatch: pytest.MonkeyPatch) -> None:
    looks_of(hung, monkeypatch, 0.0, DEAF_S - 1)
    assert hung.running
    looks_of(hung, monkeypatch, 0.0, DEAF_S)
    assert hung.child.wait(HANG_S) == -signal.SIGKILL


def test_a_broker_that_listens_or_is_starting_is_left_alone(hung: ClosedPort, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", hung.port)):
        looks_of(hung, monkeypatch, 0.0, 2 * DEAF_S)
    hung._answered = False
    looks_of(hung, monkeypatch, 0.0, 2 * DEAF_S)
    assert hung.running

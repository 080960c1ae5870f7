"""Nodes of an embedded Kafka that end: where none is left to take over, all are fenced before the first starts."""

from __future__ import annotations

import threading

import pytest

from services.node.brokers import Brokers

DEADLINE_S = 30.0


class Node:
    """Stands for a broker; it runs as soon as it is started, and says so when `all_start` do."""

    def __init__(self, all_start: threading.Barrier | None = None) -> None:
        self.running = False
        self._all_start = all_start
        self.fails = False

    def start(self, timeout_s: float) -> None:
        if self._all_start is not None:
            self._all_start.wait(DEADLINE_S)
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


def test_where_all_have_ended_they_are_fenced_once() -> None:
    together = threading.Barrier(3)
    nodes = [Node(together) for _ in range(3)]
    brokers = Fenced(*nodes)
    threads = [threading.Thread(target=brokers.bring_back, args=(node,)) for node in nodes]
    for one in threads:
        one.start()
    for one in threads:
        one.join(DEADLINE_S)
    assert all(node.running for node in nodes)
    assert brokers.count == 1


def test_where_another_has_taken_over_none_is_fenced() -> None:
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


def test_after_a_start_that_failed_they_are_fenced_anew() -> None:
    nodes = [Node() for _ in range(3)]
    nodes[0].fails = True
    brokers = Fenced(*nodes)
    with pytest.raises(OSError, match="no room"):
        brokers.bring_back(nodes[0])
    nodes[0].fails = False
    brokers.bring_back(nodes[0])
    assert brokers.count == 2

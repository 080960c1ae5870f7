"""Live and ready: what a process says of itself over HTTP, with the reasons."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.hosting.decisions import Decisions
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk
from holdfast.services.node.machine.ports import choose_pair
from holdfast.services.process import metrics_server
from holdfast.services.process.health import STUCK_S, Check, Health, answering, reading
from holdfast.services.process.metrics_server import registry_of, serve

TOPICS = ClusterTopics()


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def asked(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_process_that_starts_lives_and_is_not_ready(clock: Clock) -> None:
    health = Health("w1", "worker", {}, clock)
    assert health.live()[0]
    assert not health.ready()[0]
    health.turned()
    assert health.live()[0]
    assert health.ready()[0]


def test_a_loop_that_is_stuck_does_not_live_and_one_that_is_busy_does(clock: Clock) -> None:
    health = Health("w1", "worker", {}, clock)
    health.turned()
    clock.now_s += STUCK_S
    assert health.live()[0]
    clock.now_s += 0.1
    ok, found = health.live()
    assert not ok
    assert found["checks"]["loop"]["says"].startswith("has not turned for 30.1 s")
    assert not health.ready()[0]
    health.turned()
    assert health.live()[0]


def test_the_answer_names_the_process_and_every_reason() -> None:
    caught_up = False
    checks: dict[str, Callable[[], Check]] = {
        "log": reading(lambda: caught_up),
        "kafka": lambda: Check(False, "Kafka has not answered within 0.8 s"),
    }
    health, port = Health("w1", "worker", checks), choose_pair()
    serve(registry_of(), port, "127.0.0.1", health)
    health.turned()
    status, found = asked(port, "/readyz")
    assert (status, found["name"], found["kind"], found["ok"]) == (503, "w1", "worker", False)
    assert found["checks"]["log"] == {"ok": False, "says": "still reads what was there at its start"}
    assert found["checks"]["kafka"]["says"] == "Kafka has not answered within 0.8 s"
    assert found["checks"]["loop"]["ok"]
    assert asked(port, "/healthz")[0] == 200, "one that waits for Kafka is not to be restarted"
    caught_up, checks["kafka"] = True, lambda: Check(True, "")
    assert asked(port, "/readyz")[0] == 200


def test_a_client_that_asks_nothing_is_left_and_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Silent, "timeout", 0.05)
    health, port = Health("w1", "worker", {}), choose_pair()
    serve(registry_of(), port, "127.0.0.1", health)
    with socket.create_connection(("127.0.0.1", port), 10) as silent:
        assert asked(port, "/healthz")[0] == 200
        assert silent.recv(1) == b"", "closed"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_health_answers_at_an_address_of_ipv6() -> None:
    health, port = Health("w1", "worker", {}), choose_pair()
    serve(registry_of(), port, "::1", health)
    with urllib.request.urlopen(f"http://[::1]:{port}/healthz") as answer:
        assert answer.status == 200


def test_kafka_is_asked_and_an_answer_in_time_counts() -> None:
    log = MemoryLog(lambda: 0)
    log.create(TOPICS.specs())
    assert answering(log, Partition(TOPICS.events, 0))().ok

    class Away(MemoryLog):
        def offsets(self, partitions: object, at: object) -> dict[Partition, int]:
            raise Retriable("cannot list offsets on Kafka at nowhere:1: timed out")

    check = answering(Away(lambda: 0), Partition(TOPICS.events, 0))()
    assert (check.ok, check.says) == (False, "cannot list offsets on Kafka at nowhere:1: timed out")


def test_a_host_has_read_its_log_once_it_came_to_the_end_of_each() -> None:
    log: Any = MemoryLog(lambda: 0)
    log.create(TOPICS.specs())
    refused: Queue[object] = Queue()
    decisions = Decisions(Identity("w1", "1"), log, TOPICS, lambda *one: refused.put(one))
    decided, assigned = decisions.positions
    assert not decisions.caught_up
    decisions.read(Chunk(decided, [], 0, 1))
    assert not decisions.caught_up
    decisions.read(Chunk(assigned, [], 0, 1))
    assert decisions.caught_up

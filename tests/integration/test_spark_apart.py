"""Spark drivers of two hosts that share no folder: the checkpoint of a query goes through Kafka, and every row is exact
though one driver after the other is killed.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.failover.observer import Observer
from tests.integration.test_spark import BRIEFLY, DEADLINE_S, SparkCluster, hourly, windows
from tests.support.cluster import running
from tests.support.kafka import running_kafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
JOB, UNIT = "apart", "spark-h-0"


class Host(SparkCluster):
    """A supervisor with a worker and a driver in a directory of its own, on a Kafka that is not its own."""

    def __init__(self, name: str, kafka: str, folder: Path) -> None:
        environment = {
            "HOLDFAST_HOST": name,
            "HOLDFAST_PLUGINS": "tests.support.heavy",
            "HOLDFAST_SPARK_CHECKPOINTS": "kafka",
            "SPARK_SUBMIT_OPTS": BRIEFLY,
        }
        super().__init__(folder, environment, DEADLINE_S)
        self.kafka_at = kafka

    def up(self, workers: int = 1) -> None:
        self.call("up", "--detach", "--kafka", self.kafka_at, "--workers", str(workers))
        self.connect(self.kafka_at)
        self._connected = True


def leads_beside(cluster: Host, former: str) -> bool:
    return cluster.active(JOB, UNIT) != former


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    with running_kafka(tmp_path / "kafka") as kafka:
        first, second = (Host(name, kafka.bootstrap_servers, tmp_path / name) for name in ("a", "b"))
        with running(first), running(second):
            yield first, second


def test_a_driver_on_another_host_continues_with_the_state_of_the_one_that_was_killed(hosts: tuple[Host, Host]) -> None:
    cluster = hosts[0]
    cluster.job(JOB, {"h": {"spark": "tests.support.heavy:hourly", "input": "flights"}}, scheme="hybrid")
    cluster.await_state(JOB, "running")
    flights = iter(range(0, 100_000, 2_500))

    def fly() -> int:
        """More flights, until windows close; the number of all so far."""
        before, begin = cluster.delivered(JOB), next(flights)
        cluster.fly(JOB, range(begin, begin + 2_500))
        cluster.await_delivered(JOB, before)
        return begin + 2_500

    fly()
    leaders = []
    with Observer(cluster.log, cluster.topics) as observer:
        for _ in range(2):
            cluster.until(observer.protected, "a standby is on the other host")
            leader = cluster.until(lambda: cluster.active(JOB, UNIT), "a driver leads")
            leaders.append(leader)
            fly()
            next(host for host in hosts if leader in host.workers()).signal(leader, signal.SIGKILL)
            cluster.until(partial(leads_beside, cluster, leader), "the other driver leads")
            total = fly()
    assert {leader[0] for leader in leaders} == {"a", "b"}
    cluster.drain(JOB)
    assert windows(cluster.rows(f"out-{JOB}")) == hourly(range(total))

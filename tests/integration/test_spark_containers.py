"""An operator on Spark in containers: two drivers on a standalone Spark, of which the one that leads is killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from bench.failover.observer import Observer
from holdfast.schemas.topics import Partition
from tests.support.containers import BUILD_S, Containers, running_containers

pytestmark = [
    pytest.mark.docker,
    pytest.mark.image,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

DRIVERS = {"s1-spark-1": "spark-1", "s2-spark-1": "spark-2"}
JOB, UNIT = "visits-on-spark", "spark-by_minute-0"
START_MS, MINUTE_MS, PAGES = 1_700_000_040_000, 60_000, "abc"


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    files = ("compose.small.yaml", "compose.spark.yaml")
    with running_containers(tmp_path_factory.mktemp("containers"), *files) as made:
        yield made


def visit(number: int) -> bytes:
    return json.dumps({"page": PAGES[number % 3], "ms": number, "at": START_MS + number * 1000}).encode()


def test_a_driver_that_is_killed_is_replaced_and_every_window_comes_once(containers: Containers) -> None:
    containers.compose("run", "--rm", "cli", "submit", f"{JOB}.yaml", "--create-topics", seconds=BUILD_S)
    containers.append("visits", *(visit(number) for number in range(300)))
    containers.await_more("minutes", 0)
    with Observer(containers.log, containers.topics) as observer:
        containers.until(lambda: observer.workers() == 4 and observer.protected(), "a second driver stands by")
        victim, before = observer.leader_of(JOB, UNIT), containers.end("minutes")
        containers.docker("kill", "--signal", signal.SIGKILL.name, containers.container(DRIVERS[victim]))
        containers.append("visits", *(visit(number) for number in range(300, 600)))
        containers.until(lambda: observer.leader_of(JOB, UNIT) != victim, "the other driver leads")
    containers.await_more("minutes", before)
    containers.drain(JOB)

    counted: Counter[tuple[int, str]] = Counter()
    for index in range(containers.log.topics()["minutes"]):
        for message in containers.log.scan(Partition("minutes", index)):
            row = json.loads(message.value() or b"")
            counted[row["window_start"], row["page"]] += row["visits"]
    assert len(counted) == 10 * len(PAGES)
    assert set(counted.values()) == {20}, "a window that came twice counts 40"

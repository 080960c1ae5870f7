"""One contract for both logs: what holds in memory holds on Kafka, so that what is tested in memory counts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log, Reader
from holdfast.services.worker.process.paced import PacedReader


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    if request.param == "memory":
        yield MemoryLog(lambda: time.time_ns() // 1_000_000)
    else:
        yield from _kafka_log(request.getfixturevalue("kafka"))


@pytest.fixture(params=["one", "two"])
def reader(request: pytest.FixtureRequest, log: Log) -> Reader:
    """One that is always asked; and the pair of a worker, of which the partitions 0 belong to the one on demand."""
    if request.param == "one":
        return log.reader("r")
    pair = log.reader("often"), log.reader("seldom", on_demand=True)
    return PacedReader(*pair, lambda partition: partition.index == 0, lambda: time.monotonic() * 1000)


@pytest.fixture
def kafka_log(kafka: str) -> Iterator[KafkaLog]:
    """For what memory has not: open transactions, markers, a broker that is not there."""
    yield from _kafka_log(kafka)


def _kafka_log(servers: str) -> Iterator[KafkaLog]:
    log = KafkaLog(servers, None, "contract")
    yield log
    log.close()

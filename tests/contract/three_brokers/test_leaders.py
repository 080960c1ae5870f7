"""What a log answers for a partition whose leader is away: that it does not know, and the truth once there is one.

On Kafka the topic has one replica, of three brokers, and the broker that leads the partition is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Indefinite, Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log, Rows
from holdfast.services.node.kafka.brokers import Brokers

TOPIC = TopicSpec("led", 6, {"min.insync.replicas": "1"}, replicas=1)
DEADLINE_S = 60.0
RECORDS = 5


@dataclass(frozen=True, slots=True)
class Led:
    """gone: a partition whose leader leaves and returns on request; empty: another; stays: one that is led."""

    log: Log
    gone: Partition
    empty: Partition
    stays: Partition
    leave: Callable[[], None]
    back: Callable[[], None]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def led(request: pytest.FixtureRequest) -> Iterator[Led]:
    yield from _in_memory() if request.param == "memory" else _on_kafka(request.getfixturevalue("three"))


def _in_memory() -> Iterator[Led]:
    log = MemoryLog(lambda: time.time_ns() // 1_000_000)
    log.create([TOPIC])
    gone, empty, stays = (Partition(TOPIC.name, index) for index in range(3))
    yield Led(log, gone, empty, stays, lambda: log.away.update({gone, empty}), log.away.clear)


def _on_kafka(brokers: Brokers) -> Iterator[Led]:
    log = KafkaLog(brokers.bootstrap_servers, None, "leaders")
    try:
        log.create([TOPIC])
        found = AdminClient({"bootstrap.servers": brokers.bootstrap_servers}).list_topics(TOPIC.name, timeout=10)
        leaders = {index: one.leader for index, one in found.topics[TOPIC.name].partitions.items()}
        broker = next(node for node in brokers.nodes if list(leaders.values()).count(node.node) >= 2)
        gone, empty = [Partition(TOPIC.name, index) for index, leader in leaders.items() if leader == broker.node][:2]
        stays = next(Partition(TOPIC.name, index) for index, leader in leaders.items() if leader != broker.node)
        yield Led(log, gone, empty, stays, broker.kill, broker.start)
    finally:
        log.close()


def fill(log: Log, partition: Partition) -> None:
    appender = log.appender("fill")
    for number in range(RECORDS):
        appender.append(partition, str(number).encode())
    appender.flush(DEADLINE_S)
    appender.close()


def test_a_partition_whose_leader_is_away_gives_errors_that_may_be_retried_and_loses_nothing(led: Led) -> None:
    log, gone, stays = led.log, led.gone, led.stays
    for partition in (gone, stays):
        fill(log, partition)
    assert log.last(led.empty) is None
    reader, appender = log.reader("r"), log.appender("a")
    transactor = log.transactor("leaders")
    transactor.start()
    led.leave()
    asked: list[Callable[[], object]] = [
        lambda: log.offsets([gone], "start"),
        lambda: log.offsets([stays, gone], "end"),
        lambda: log.offsets([gone], 1),
        lambda: log.last(gone),
        lambda: log.last(gone, settled=True),
        lambda: log.last(led.empty),
        lambda: list(log.scan(gone)),
        lambda: log.trim({gone: 1}),
        lambda: transactor.commit([Rows(TOPIC.name, [b"row"], partitions=[gone.index])]),
    ]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = [pool.submit(call) for call in asked]
        assert [one.exception() for one in answers if not isinstance(one.exception(), Retriable | Indefinite)] == []
    assert log.topics()[TOPIC.name] == log.topics([TOPIC.name])[TOPIC.name] == TOPIC.partitions
    assert log.describe([TOPIC.name])[TOPIC.name].partitions == TOPIC.partitions
    assert log.config(TOPIC.name)["min.insync.replicas"] == "1"
    assert log.offsets([stays], "end") == {stays: RECORDS}
    last = log.last(stays)
    assert last is not None
    appender.append(gone, b"waits")
    appender.append(stays, b"does not")
    with pytest.raises(Retriable):
        appender.flush(2.0)
    deadline = time.monotonic() + DEADLINE_S
    while log.offsets([stays], "end") != {stays: RECORDS + 1}:
        assert time.monotonic() < deadline
        appender.poll()
    reader.assign({gone: 0, stays: 0, led.empty: 0})
    read: dict[Partition, list[bytes | None]] = {gone: [], stays: [], led.empty: []}
    ends: dict[Partition, int] = {}

    def until(partition: Partition, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(read[partition]) < count or ends.get(partition) is None:
            assert time.monotonic() < deadline
            for chunk in reader.poll(0.02):
                read[chunk.partition] += [m.value() for m in chunk.messages]
                if chunk.end is not None:
                    ends[chunk.partition] = chunk.end
            appender.poll()

    until(stays, RECORDS + 1)
    assert not read[gone]
    assert ends == {stays: RECORDS + 1}, "no end of what nobody leads"
    led.back()
    until(gone, RECORDS + 1)
    appender.flush(DEADLINE_S)
    assert read[gone] == [*(str(number).encode() for number in range(RECORDS)), b"waits"]
    assert log.offsets([gone, led.empty], "end") == {gone: RECORDS + 1, led.empty: 0}
    assert log.last(led.empty) is None
    for one in (reader, appender, transactor):
        one.close()

"""The contract of logs: topics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.cimpl import NewPartitions

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Log
from holdfast.services.log.seal.sealed import SealedLog
from tests.contract.collecting import (
    DEADLINE_S,
    TRIES,
    Collector,
    fill,
    new_topic,
    scanned,
)
from tests.support.commands import until as wait_until

pytestmark = pytest.mark.session_broker


def test_create_leaves_existing_topics_as_they_are(log: Log) -> None:
    name = new_topic(log, 2, retention_ms="60000")
    fill(log, Partition(name, 1), b"kept")
    log.create([TopicSpec(name, 5, {"retention.ms": "1"})])
    assert log.topics()[name] == 2
    assert log.config(name)["retention.ms"] == "60000"
    assert scanned(log, Partition(name, 1)) == [b"kept"]


def test_configure_changes_what_is_named_and_leaves_the_rest(log: Log) -> None:
    name = new_topic(log, 1, retention_ms="60000", segment_bytes="1048576")
    fill(log, Partition(name, 0), b"kept")
    log.configure([TopicSpec(name, 1, {"retention.ms": "120000", "retention.bytes": "1000000"})])
    wait_until(lambda: log.config(name)["retention.ms"] == "120000", "the setting is there")
    found = log.config(name)
    assert (found["retention.bytes"], found["segment.bytes"]) == ("1000000", "1048576")
    assert scanned(log, Partition(name, 0)) == [b"kept"]
    log.configure([TopicSpec(name, 1, {"retention.ms": "120000"})])


def test_a_created_topic_can_be_used_at_once(log: Log) -> None:
    name = new_topic(log, 8)
    partitions = [Partition(name, n) for n in range(8)]
    for partition in partitions:
        fill(log, partition, b"x")
    assert set(log.offsets(partitions, "end").values()) == {1}


def test_records_sent_at_once_to_a_topic_just_created_all_arrive(log: Log) -> None:
    """Several requests are under way, of which a partition that is not ready may refuse the first alone."""
    appender = log.appender("contract")
    for _ in range(10):
        where = Partition(new_topic(log, 1), 0)
        for value in (b"first", b"x" * 1_000_000, b"last"):
            appender.append(where, value)
        appender.flush(DEADLINE_S)
        assert [len(value or b"") for value in scanned(log, where)] == [5, 1_000_000, 4]
    appender.close()


def test_internal_topics_are_not_listed(log: Log) -> None:
    transactor = log.transactor(f"id-{uuid.uuid4().hex}")
    transactor.start()  # on Kafka this makes one
    transactor.close()
    assert not [name for name in log.topics() if name.startswith("__")]


def test_describe_tells_which_topic_it_is_and_how_many_partitions_it_has(log: Log) -> None:
    name, other = new_topic(log, 2), new_topic(log)
    found = log.describe([name, other, "no-such-topic"])
    assert {topic: one.partitions for topic, one in found.items()} == {name: 2, other: 1}
    assert found[name].id
    assert found[name].id != found[other].id
    assert log.describe([name, name]) == {name: found[name]}
    assert log.describe([]) == {}


def test_a_topic_created_again_is_another_one(log: Log) -> None:
    name = new_topic(log, 3)
    fill(log, Partition(name, 0), b"old")
    before = log.describe([name])[name]
    log.delete([name])
    assert log.describe([name]) == {}
    log.create([TopicSpec(name, 1)])
    after = log.describe([name])[name]
    assert (before.partitions, after.partitions) == (3, 1)
    assert before.id != after.id
    assert scanned(log, Partition(name, 0)) == []


def test_a_topic_that_has_grown_is_the_same_and_its_new_partitions_can_be_read(log: Log) -> None:
    name = new_topic(log, 2)
    before = log.describe([name])[name]
    collector = Collector(log.reader("grown"))
    collector.reader.assign({Partition(name, 0): 0})
    fill(log, Partition(name, 0), b"0")
    collector.until(lambda: collector.values(Partition(name, 0)) == [b"0"])
    grow(log, name, 4)
    deadline = time.monotonic() + DEADLINE_S
    while (after := log.describe([name])[name]).partitions < 4:
        assert time.monotonic() < deadline
    assert (after.id, after.partitions) == (before.id, 4)
    partition = Partition(name, 3)
    fill(log, partition, b"a", b"b")
    collector.reader.assign({partition: 0})
    asked = time.monotonic()
    collector.until(lambda: collector.values(partition) == [b"a", b"b"])
    assert time.monotonic() - asked < 20, "and not minutes later"
    assert collector.offsets(partition) == [0, 1]
    collector.reader.close()


def grow(log: Log, topic: str, partitions: int) -> None:
    log = log.raw if isinstance(log, SealedLog) else log
    if isinstance(log, MemoryLog):
        log.grow(topic, partitions)
        return
    assert isinstance(log, KafkaLog)
    (done,) = log._requests.admin.create_partitions([NewPartitions(topic, partitions)]).values()
    done.result(DEADLINE_S)


def test_delete_removes_what_is_there_and_ignores_the_rest(log: Log) -> None:
    first, second = new_topic(log), new_topic(log)
    log.delete([first, "contract-never-existed"])
    assert first not in log.topics()
    assert second in log.topics()
    log.delete([first])
    assert log.config(first) == {}


def test_a_topic_that_is_not_there_is_said_to_be_missing(log: Log) -> None:
    missing = Partition("contract-never-existed", 0)
    with pytest.raises(Retriable, match="contract-never-existed"):
        log.offsets([missing], "end")
    with pytest.raises(Retriable, match="contract-never-existed"):
        list(log.scan(missing))


def test_a_broker_that_does_not_answer_is_retriable_within_five_seconds() -> None:
    log = KafkaLog("127.0.0.1:1", None, "contract")
    calls: list[Callable[[], object]] = [
        log.topics,
        lambda: log.create([TopicSpec("t")]),
        lambda: log.delete(["t"]),
        lambda: log.config("t"),
        lambda: log.offsets([Partition("t", 0)], "end"),
        lambda: log.trim({Partition("t", 0): 1}),
        lambda: list(log.scan(Partition("t", 0))),
        lambda: log.last(Partition("t", 0)),
    ]

    def expect_retriable(call: Callable[[], object]) -> float:
        began = time.monotonic()
        with pytest.raises(Retriable, match=r"127\.0\.0\.1:1.*Check that the broker runs"):
            call()
        return time.monotonic() - began

    least_s = [float("inf")] * len(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(TRIES):
            if max(least_s) >= 5.0:
                least_s = list(map(min, least_s, pool.map(expect_retriable, calls)))
    assert max(least_s) < 5.0
    log.close()

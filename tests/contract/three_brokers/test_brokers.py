"""Three brokers that replicate each other: one may die, all may die, and nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.node.kafka.broker import BrokerFailed, EmbeddedKafka
from holdfast.services.node.kafka.brokers import Brokers, brokers_in

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = TopicSpec("kept", 3)
ALL = [Partition(TOPIC.name, index) for index in range(TOPIC.partitions)]


@pytest.fixture
def log(three: Brokers) -> Iterator[KafkaLog]:
    log = KafkaLog(three.bootstrap_servers, {}, "test")
    log.create([TOPIC])
    yield log
    log.close()


def append(log: KafkaLog, value: bytes) -> None:
    appender = log.appender("test")
    for partition in ALL:
        appender.append(partition, value)
    appender.flush(30)
    appender.close()


def values(log: KafkaLog) -> list[set[bytes | None]]:
    return [{message.value() for message in log.scan(partition)} for partition in ALL]


def test_topics_have_three_replicas_of_which_two_must_have_a_record(log: KafkaLog) -> None:
    assert log.config(TOPIC.name)["min.insync.replicas"] == "2"


@pytest.mark.parametrize("node", [0, *(pytest.param(one, marks=pytest.mark.long) for one in (1, 2))])
def test_the_other_brokers_continue_when_a_broker_dies(three: Brokers, log: KafkaLog, node: int) -> None:
    before, without = f"before-{node}".encode(), f"without-{node}".encode()
    append(log, before)
    three.nodes[node].kill()
    append(log, without)
    three.nodes[node].start()
    assert all({before, without} <= found for found in values(log))


@pytest.mark.long
def test_all_brokers_crash_at_once_and_come_back_with_what_was_acknowledged(three: Brokers, log: KafkaLog) -> None:
    append(log, b"before all")
    for node in three.nodes:
        node.kill()
    three.start()
    append(log, b"after all")
    assert all({b"before all", b"after all"} <= found for found in values(log))


def test_another_number_of_brokers_than_the_data_are_of_is_refused(three: Brokers) -> None:
    where = three.nodes[0].data_dir.parent
    with pytest.raises(BrokerFailed, match="are of 3 brokers: start it with --brokers 3"):
        brokers_in(where, 1).start()
    assert len(brokers_in(where, None).nodes) == 3


def test_data_of_one_broker_stay_where_they_were(tmp_path: Path) -> None:
    (only,) = brokers_in(tmp_path, None).nodes
    assert isinstance(only, EmbeddedKafka)
    assert only.data_dir == tmp_path

"""A real broker for tests: one for the whole session, and the few calls that tests of it need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from holdfast.services.node.kafka.broker import EmbeddedKafka

TIMEOUT_S = 60.0


@contextmanager
def running_kafka(directory: Path) -> Iterator[EmbeddedKafka]:
    broker = EmbeddedKafka(directory)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def create_topic(bootstrap_servers: str, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(TIMEOUT_S)


def write(bootstrap_servers: str, topic: str, values: Sequence[bytes]) -> None:
    """Appends to partition 0; returns when all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0, "not acknowledged in time"


def read(bootstrap_servers: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` values of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "tests", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, TIMEOUT_S)
        assert len(messages) == count, f"{len(messages)} of {count} records came in time"
        return [message.value() for message in messages]
    finally:
        consumer.close()

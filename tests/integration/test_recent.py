"""Heartbeats on a real broker: a replica of recovery or of the controller that starts late begins near their end."""

from __future__ import annotations

import secrets
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from schemas import heartbeats
from schemas.heartbeats import Heartbeat
from schemas.topics import ClusterTopics, Partition
from services.log.kafka import KafkaLog
from services.log.recent import begin_recently

pytestmark = pytest.mark.kafka
HISTORY_MS = 10_000
AHEAD_MS = -60_000
"""Recent, however long this test is held up."""


def test_a_replica_begins_with_recent_heartbeats(kafka: str) -> None:
    """With 36 units it took 10 s to read five minutes of them, and decided nothing meanwhile."""
    log, topics = KafkaLog(kafka, None, "test"), ClusterTopics(f"late{secrets.token_hex(3)}")
    log.create(topics.specs())
    appender, now_ms = log.appender("test"), int(time.time() * 1000)
    where, group = Partition(topics.heartbeats, 0), f"{topics.prefix}-recovery"
    for number, age_ms in enumerate((300_000, 200_000, 2 * HISTORY_MS, AHEAD_MS, AHEAD_MS)):
        record = heartbeats.encode(Heartbeat("w", "1", now_ms - age_ms, number))
        appender.append(where, record, timestamp_ms=now_ms - age_ms)
    appender.flush(30)
    assert begin_recently(log, group, where, HISTORY_MS) == {where: 3}
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    (committed,) = consumer.committed([TopicPartition(where.topic, where.index)], timeout=30)
    assert committed.offset == 3
    consumer.close()
    appender.close()
    log.close()


def test_a_replica_reads_all_heartbeats_where_kafka_does_not_answer() -> None:
    log = KafkaLog("127.0.0.1:1", None, "test")
    assert begin_recently(log, "group", Partition("heartbeats", 0), HISTORY_MS) == {}
    log.close()

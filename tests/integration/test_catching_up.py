"""A replica of recovery or of the controller that starts late, on a real broker: how it learns what was there."""

from __future__ import annotations

import secrets
import time

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from holdfast.schemas import heartbeats
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.faust.catching_up import catch_up, continue_group, recent
from holdfast.services.log.kafka.log import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.session_broker]

HISTORY_MS = 10_000
AHEAD_MS = -60_000
"""Recent, however long this test is held up."""


def test_a_replica_begins_with_recent_heartbeats_and_its_agents_behind_them(kafka: str) -> None:
    """With 36 units it took 10 s to read five minutes of them, and decided nothing meanwhile."""
    log, topics = KafkaLog(kafka, None, "test"), ClusterTopics(f"late{secrets.token_hex(3)}")
    log.create(topics.specs())
    appender, now_ms = log.appender("test"), int(time.time() * 1000)
    where, group = Partition(topics.heartbeats, 0), f"{topics.prefix}-recovery"
    for age_ms in (300_000, 200_000, 2 * HISTORY_MS, AHEAD_MS, AHEAD_MS):
        record = heartbeats.encode(Heartbeat("w", "1", now_ms - age_ms))
        appender.append(where, record, timestamp_ms=now_ms - age_ms)
    appender.flush(30)
    begins, fed = recent(log, where, HISTORY_MS), list[int]()
    assert begins == {where: 3}
    nexts = catch_up(log, begins, lambda partition, offset, timestamp_ms, value: fed.append(offset))
    assert (fed, nexts) == ([3, 4], {where: 5})
    continue_group(log, group, nexts, lambda *_: None, lambda *_: None, [where])
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    assert _committed(consumer, where) == 5
    consumer.close()
    appender.close()
    log.close()


def _committed(consumer: Consumer, where: Partition) -> int:
    """A broker that has just started has no coordinator for a while."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return consumer.committed([TopicPartition(where.topic, where.index)], timeout=30)[0].offset
        except KafkaException:
            assert time.monotonic() < deadline


def test_records_below_the_position_are_dropped_where_kafka_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.log.faust.catching_up.COORDINATED_S", 0.0)
    log, where, read = KafkaLog("127.0.0.1:1", None, "test"), Partition("assignments", 0), list[int]()
    agents = continue_group(log, "group", {where: 2}, lambda _, offset, *__: read.append(offset), lambda *_: None, [])
    for offset in range(4):
        agents.read(where, offset, 0, b"")
    assert read == [2, 3]
    log.close()

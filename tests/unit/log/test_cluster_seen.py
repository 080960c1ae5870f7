"""How often clients ask who leads, and which topic a new producer asks for, by what a cluster has answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from holdfast.services.log.kafka.client import Cluster, connect
from holdfast.services.log.kafka.cluster_seen import ALONE_MS, SEVERAL_MS, TRANSACTIONS

INTERVAL = "topic.metadata.refresh.interval.ms"


def answer(brokers: int, **topics: KafkaError | None) -> Any:
    found = {name: SimpleNamespace(error=error) for name, error in topics.items()}
    return SimpleNamespace(brokers=dict.fromkeys(range(brokers)), topics=found)


@pytest.mark.parametrize(
    ("servers", "brokers", "interval_ms"),
    [
        ("one:1", [], SEVERAL_MS),
        ("one:1", [1], ALONE_MS),
        ("one:1", [1, 3, 1], SEVERAL_MS),
        ("one:1,two:1", [1], SEVERAL_MS),
    ],
    ids=["nothing is known", "one broker", "two of three are away", "several addresses"],
)
def test_clients_ask_seldom_who_leads_where_nobody_else_could(
    servers: str, brokers: list[int], interval_ms: int
) -> None:
    cluster = Cluster(servers)
    for count in brokers:
        cluster.seen.listed(answer(count))
    assert cluster.client("c", {})[INTERVAL] == interval_ms


def test_the_interval_that_a_user_sets_counts() -> None:
    cluster = Cluster("one:1", {INTERVAL: "77"})
    cluster.seen.listed(answer(1))
    assert cluster.client("c", {})[INTERVAL] == "77"


def test_a_new_producer_never_asks_for_a_topic_that_may_be_missing() -> None:
    """The library asks for it again and again as long as the producer lives."""
    asked: list[str | None] = []
    answers = [
        answer(1),
        answer(1, **{TRANSACTIONS: KafkaError(KafkaError.LEADER_NOT_AVAILABLE)}),
        answer(1, **{TRANSACTIONS: None}),
        answer(1),
    ]

    class Producer:
        def list_topics(self, topic: str | None, timeout: float) -> Any:
            asked.append(topic)
            return answers[len(asked) - 1]

    cluster, producer = Cluster("one:1"), Producer()
    for _ in range(2):
        connect(producer, cluster.seen, 1.0)  # type: ignore[arg-type]
    assert asked == [None, None, None, TRANSACTIONS]

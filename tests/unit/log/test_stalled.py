"""A producer whose records are not answered asks a question, which keeps the library's thread waiting."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from holdfast.services.log.kafka.cluster_seen import ClusterSeen
from holdfast.services.log.kafka.stalled import AGAIN_S, FEWEST, STALLED_S, Stalled


class Producer:
    """waiting: its records without an answer. asked: how often it was asked about the cluster."""

    def __init__(self) -> None:
        self.waiting, self.asked = 0, 0

    def __len__(self) -> int:
        return self.waiting

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        self.asked += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_stalled_client_asks_after_a_long_silence_and_seldom_then() -> None:
    now_s, producer = [0.0], Producer()
    stalled = Stalled(ClusterSeen("here:1"), lambda: now_s[0])

    def asked(waiting: int, after_s: float, answered: bool = False) -> int:
        producer.waiting = waiting
        now_s[0] += after_s
        stalled.polled(producer, answered)  # type: ignore[arg-type]
        return producer.asked

    assert asked(FEWEST, 10.0) == 0, "they may have been appended just now"
    assert asked(FEWEST + 1, STALLED_S / 2) == 0
    assert asked(FEWEST + 2, STALLED_S / 2) == 1
    assert asked(FEWEST + 3, AGAIN_S / 2) == 1
    assert asked(FEWEST + 3, AGAIN_S / 2) == 2
    assert asked(FEWEST + 9, 9.0, answered=True) == 2, "more have come than were answered"
    assert asked(FEWEST + 9, 9.0) == 2
    assert asked(FEWEST + 8, 9.0) == 2, "one was answered"
    for _ in range(3):
        assert asked(FEWEST - 1, 9.0) == 2, "too few to keep a thread busy"

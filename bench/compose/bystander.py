"""A producer of Kafka's own kind beside a job: how long a broker that is lost silences whoever writes to Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

from bench.cluster import now_ms
from bench.compose.project import SILENT
from schemas.topics import TopicSpec
from services.log.protocol import Log

TOPIC, PARTITIONS = "bench-bystander", 3
"""As many as brokers, so each of them leads one."""
EVERY_S, CLOSING_S = 0.05, 60.0


class Bystander:
    """From entering to leaving: a record into each partition each 50 ms, with Kafka's own settings of a producer."""

    def __init__(self, log: Log, bootstrap_servers: str) -> None:
        log.create([TopicSpec(TOPIC, PARTITIONS)])
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": SILENT}
        )
        self._acked_ms: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(CLOSING_S)

    def silence(self, from_ms: float, to_ms: float) -> float:
        """The longest time in which records of one partition were not acknowledged."""
        return max(longest(list(acked), from_ms, to_ms) for acked in self._acked_ms)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"-", partition=partition, on_delivery=self._acked(partition))
            self._producer.poll(0)

    def _acked(self, partition: int) -> Callable[[KafkaError | None, Message], None]:
        def acked(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._acked_ms[partition].append(now_ms())

        return acked


def longest(at_ms: list[float], from_ms: float, to_ms: float) -> float:
    """Between two that follow each other, and to both ends."""
    times = [from_ms, *(at for at in at_ms if from_ms < at < to_ms), to_ms]
    return max(after - before for before, after in pairwise(times))

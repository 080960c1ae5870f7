"""Producers of Kafka's own kind beside a job: how long a lost broker delays every writer to Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.compose.project import SILENT
from bench.rig.cluster import now_ms
from holdfast.schemas.topics import TopicSpec
from holdfast.services.log.protocol import Log

TOPIC, PARTITIONS = "bench-bystander", 3
"""Number of partitions of the topic, one for each broker, so that each leads one."""
EVERY_S, CLOSING_S = 0.05, 60.0
COMMIT_EVERY_S, COMMIT_S = 0.2, 20.0
"""Rarer, for each transaction costs the brokers several records. COMMIT_S: until its outcome is in doubt."""


class Bystander:
    """Writes to Kafka within its context, with Kafka's default settings of a producer.

    One producer writes a record into each partition every 50 ms, another one a transaction into all partitions every
    200 ms.
    """

    def __init__(self, log: Log, bootstrap_servers: str) -> None:
        log.create([TopicSpec(TOPIC, PARTITIONS)])
        self._settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": SILENT}
        self._producer = Producer(self._settings)
        self._acked_ms: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._committed_ms: list[float] = []
        self._over = threading.Event()
        works = {"bystander": self._run, "transactions": self._transact}
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in works.items()]

    def __enter__(self) -> Bystander:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(CLOSING_S)

    def silence(self, from_ms: float, to_ms: float) -> float:
        """The longest time in milliseconds without an acknowledgement for the records of one partition."""
        return max(longest(list(acked), from_ms, to_ms) for acked in self._acked_ms)

    def silence_of_commits(self, from_ms: float, to_ms: float) -> float:
        """The longest time in which no transaction was committed."""
        return longest(list(self._committed_ms), from_ms, to_ms)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"-", partition=partition, on_delivery=self._acked(partition))
            self._producer.poll(0)

    def _transact(self) -> None:
        """Commits transactions. After an error a new producer begins, which aborts an open transaction, as Kafka
        documents.
        """
        producer: Producer | None = None
        while not self._over.wait(COMMIT_EVERY_S):
            try:
                producer = producer or self._begun()
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(TOPIC, b"-", partition=partition)
                producer.commit_transaction(COMMIT_S)
            except KafkaException:
                producer = None
            else:
                self._committed_ms.append(now_ms())

    def _begun(self) -> Producer:
        """A producer with initialised transactions. Raises KafkaException."""
        producer = Producer({**self._settings, "transactional.id": TOPIC})
        producer.init_transactions(COMMIT_S)
        return producer

    def _acked(self, partition: int) -> Callable[[KafkaError | None, Message], None]:
        def acked(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._acked_ms[partition].append(now_ms())

        return acked


def longest(at_ms: list[float], from_ms: float, to_ms: float) -> float:
    """Between two that follow each other, and to both ends."""
    times = [from_ms, *(at for at in at_ms if from_ms < at < to_ms), to_ms]
    return max(after - before for before, after in pairwise(times))

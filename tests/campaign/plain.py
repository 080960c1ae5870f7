"""A plain transactional producer and consumer beside a job: what a fault of Kafka costs without holdfast."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from holdfast.services.log.kafka.client import Cluster

TOPIC = "plain"
PERIOD_S = 0.02
PATIENCE_S = 5.0


class Plain:
    """Commits one record after the other and reads them back, from entering to leaving. seen: times of arrival."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._cluster = Cluster(bootstrap_servers)
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=f"plain {run.__name__}", daemon=True) for run in (self._write, self._read)
        ]
        self.seen: list[float] = []

    def __enter__(self) -> Plain:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        """Writes as the library's documentation has it: aborts what can be aborted, begins again where nothing else
        helps.
        """
        while not self._over.is_set():
            producer = self._cluster.producer(f"plain-{uuid.uuid4().hex}", {"transactional.id": "plain"})
            with contextlib.suppress(KafkaException):
                producer.init_transactions(PATIENCE_S)
                while not self._over.wait(PERIOD_S):
                    self._commit(producer)

    def _commit(self, producer: Producer) -> None:
        """Raises KafkaException when the producer is of no use any more."""
        producer.begin_transaction()
        producer.produce(TOPIC, b"one", partition=0)
        while True:
            try:
                producer.commit_transaction(PATIENCE_S)
                return
            except KafkaException as exception:
                error = exception.args[0]
                if error.txn_requires_abort():
                    producer.abort_transaction(PATIENCE_S)
                    return
                if not error.retriable() or self._over.is_set():
                    raise

    def _read(self) -> None:
        own = {"group.id": "plain", "isolation.level": "read_committed", "auto.offset.reset": "latest"}
        consumer: Consumer = self._cluster.consumer("plain-reader", own)
        consumer.assign([TopicPartition(TOPIC, 0, -1)])
        while not self._over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.append(time.monotonic())
        consumer.close()

"""Common part of all Kafka clients of the product: their connection, and the text of their errors.

Source: PROTOCOL 1 and 9.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.answers import EndsSeen
from holdfast.services.log.kafka.cluster_seen import ClusterSeen
from holdfast.services.log.kafka.login import Login
from holdfast.services.log.protocol import Headers

Settings = dict[str, str | int | float | bool]

ANSWER_S = 4.0
"""Longest time in seconds that a request may go unanswered; with retries a caller gets an answer or
error within 5 s.
"""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024

LIBRARY_LOGGER = logging.getLogger("librdkafka")
"""Silent unless its level is lowered: important errors reach the caller, and a fence is no failure of the process."""
LIBRARY_LOGGER.setLevel(logging.CRITICAL + 1)

_DEFAULTS: Mapping[str, str | int] = {
    "allow.auto.create.topics": "false",
    "enable.metrics.push": "false",
    # The client must notice a broker that has returned at once: the default backs off up to 10 s.
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 500,
    # A hanging or unreachable broker raises no error: by default a request to it waits for a minute.
    "socket.timeout.ms": 3000,
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "true",
}

_PRODUCER: Mapping[str, str | int] = {
    "enable.idempotence": "true",
    "acks": "all",
    "linger.ms": 0,
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 128 * 1024,
    "enable.sparse.connections": "false",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Address and client settings of a cluster.

    settings: client settings of the user, such as security.protocol; a client's own settings take precedence.
    known: answers that the clients of one log have seen.
    login: refusals of the clients' login by Kafka.
    seen: facts about the cluster.
    """

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    known: EndsSeen = field(default_factory=EndsSeen, compare=False)
    seen: ClusterSeen = field(init=False, compare=False)
    login: Login = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seen", ClusterSeen(self.bootstrap_servers))
        object.__setattr__(self, "login", Login(self.bootstrap_servers, self.settings))

    def client(self, name: str, own: Mapping[str, str | int]) -> Settings:
        """Settings of a client: defaults, then the user's, then the client's own, on which correctness depends."""
        address: Settings = {"bootstrap.servers": self.bootstrap_servers, "client.id": name}
        refresh: Settings = {"topic.metadata.refresh.interval.ms": self.seen.refresh_ms}
        return {**_DEFAULTS, **refresh, **self.settings, **address, **own}

    def consumer(self, name: str, own: Mapping[str, str | int]) -> Consumer:
        return Consumer(self.client(name, own), logger=LIBRARY_LOGGER, error_cb=self.login.happened)

    def admin(self, name: str) -> AdminClient:
        own: Any = self.client(name, {}) | {"error_cb": self.login.happened}
        return AdminClient(own, logger=LIBRARY_LOGGER)

    def producer(self, name: str, own: Mapping[str, str | int], **callbacks: Callable[..., None]) -> Producer:
        """An idempotent producer; `connect` it before its first use."""
        callbacks.setdefault("error_cb", self.login.happened)
        return Producer(self.client(name, {**_PRODUCER, **own}), logger=LIBRARY_LOGGER, **callbacks)

    def unanswered(self, what: str, error: object) -> Retriable:
        """The error for a request that was refused or not answered."""
        return self.login.refused() or Retriable(
            f"cannot {what} on Kafka at {self.bootstrap_servers}: {error}. "
            "Check that the broker runs and that the address and the client settings are right"
        )


def error_of(exception: KafkaException) -> KafkaError:
    """The library's error inside its exception."""
    error = exception.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def listed(headers: Headers | None) -> list[tuple[str, str | bytes | None]] | None:
    """Headers in the library's form."""
    return None if headers is None else list(headers)


def connect(producer: Producer, seen: ClusterSeen, timeout_s: float) -> None:
    """Waits until a new producer has its connections: one answer on the first, another on those that it opens then.

    Measured: a producer that asks for its id before that asks again only after 500 ms; after this wait, the first
        record is acknowledged 2.4 ms, and the first transaction committed 7 ms, after the producer was made. Raises
        KafkaException.
    """
    deadline = time.monotonic() + timeout_s
    for _ in range(2):
        seen.listed(producer.list_topics(seen.topic, timeout=max(0.0, deadline - time.monotonic())))

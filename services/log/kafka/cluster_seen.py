"""Facts about a Kafka cluster from its answers, for the settings of the next client of a process.

Nothing reports a broker that hangs: while several brokers replicate each other a client asks once a second who leads. A
broker that is alone has nobody to hand its partitions to, and whatever else changes there is answered by an error: then
the library asks at once. Source: docs/decisions/0160.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

SEVERAL_MS, ALONE_MS = 1_000, 30_000
TRANSACTIONS = "__transaction_state"
"""Kafka makes it at the first transaction of a cluster, and never deletes it."""


class ClusterSeen:
    """By the clients of one log, from any thread.

    bootstrap_servers: several addresses stand for several brokers, whatever the first answer names.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._most = 2 if "," in bootstrap_servers else 0
        self._transactions = False

    def listed(self, answer: ClusterMetadata) -> None:
        """The most brokers that any answer names count: one that is away now may lead again."""
        self._most = max(self._most, len(answer.brokers))
        topic = answer.topics.get(TRANSACTIONS)
        self._transactions = self._transactions or (topic is not None and topic.error is None)

    @property
    def refresh_ms(self) -> int:
        """Interval at which a client that is made now asks who leads. Before the first answer there may be several
        brokers.
        """
        return ALONE_MS if self._most == 1 else SEVERAL_MS

    @property
    def topic(self) -> str | None:
        """A topic that a producer may ask for; None: all. It asks for one that is missing seven times a second, for
        ever."""
        return TRANSACTIONS if self._transactions else None

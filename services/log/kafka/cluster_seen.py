"""Facts about a Kafka cluster from its answers, for the settings of the next client of a process.

No error reports a broker that hangs: if several brokers replicate each other, a client asks for the leaders once a
second. A single broker cannot hand its partitions over, and every other change there is answered by an error, on which
the library asks at once. Source: docs/decisions/0160.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata

SEVERAL_MS, ALONE_MS = 1_000, 30_000
TRANSACTIONS = "__transaction_state"
"""Topic that Kafka makes at the first transaction of a cluster, and never deletes."""


class ClusterSeen:
    """Facts about a cluster, collected by the clients of one log, from any thread.

    bootstrap_servers: several addresses count as several brokers, whatever the first answer names.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._most = 2 if "," in bootstrap_servers else 0
        self._transactions = False

    def listed(self, answer: ClusterMetadata) -> None:
        """Notes an answer. The largest number of brokers in any answer counts: an absent broker may lead again."""
        self._most = max(self._most, len(answer.brokers))
        topic = answer.topics.get(TRANSACTIONS)
        self._transactions = self._transactions or (topic is not None and topic.error is None)

    @property
    def refresh_ms(self) -> int:
        """Interval in milliseconds at which a new client asks for the leaders; several brokers are assumed before the
        first answer.
        """
        return ALONE_MS if self._most == 1 else SEVERAL_MS

    @property
    def topic(self) -> str | None:
        """A topic for a producer's metadata request; None: it asks for all topics. The library asks for a missing topic
        seven times a second, forever.
        """
        return TRANSACTIONS if self._transactions else None

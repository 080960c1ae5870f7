"""What all our Kafka clients have in common: how they connect, and how their errors read.

Source: PROTOCOL 1 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException

from services.kernel.errors import Retriable
from services.log.protocol import Headers

ANSWER_S = 4.0
"""How long a request may go unanswered; with what surrounds it a caller knows within 5 s."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024

_DEFAULTS: Mapping[str, str | int] = {
    "allow.auto.create.topics": "false",
    "enable.metrics.push": "false",
    # A broker that is back is to be noticed at once: the default backs off up to 10 s.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    # Refused connections are retried by the library; what matters of them reaches the caller as an error.
    "log_level": 2,
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "true",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a cluster is and how to reach it.

    settings: client settings of the user, such as security.protocol; a client's own settings go before them.
    """

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def client(self, name: str, own: Mapping[str, str | int]) -> dict[str, str | int]:
        """Settings of a client: defaults, then the user's, then those that correctness rests on."""
        address: dict[str, str | int] = {"bootstrap.servers": self.bootstrap_servers, "client.id": name}
        return {**_DEFAULTS, **self.settings, **address, **own}

    def unanswered(self, what: str, error: object) -> Retriable:
        """The error for a request that was not answered, or was refused."""
        return Retriable(
            f"cannot {what} on Kafka at {self.bootstrap_servers}: {error}. "
            "Check that the broker runs and that the address and the client settings are right"
        )


def error_of(exception: KafkaException) -> KafkaError:
    """The library's error inside its exception."""
    error = exception.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


def listed(headers: Headers | None) -> list[tuple[str, str | bytes | None]] | None:
    """Headers as the library takes them."""
    return None if headers is None else list(headers)

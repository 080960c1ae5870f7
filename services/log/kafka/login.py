"""Refusals of this process's login by Kafka: without them a wrong password looks like an absent broker.

The client library retries forever, and every request of it times out; only its error callback gives the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError

from holdfast.services.kernel.errors import Forbidden

RECENT_S = 30.0
"""Seconds after which a refused login no longer explains a request that fails."""
_PASSWORD = "HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD"
_LOGIN = (
    "Kafka at {servers} refuses the login of user '{user}' by {mechanism}: {cause}. Set "
    f"HOLDFAST_KAFKA_CLIENT_SASL_USERNAME, {_PASSWORD} (or {_PASSWORD}_FILE) and HOLDFAST_KAFKA_CLIENT_SASL_MECHANISM "
    "to what the brokers have"
)
_TLS = (
    "TLS with Kafka at {servers} fails: {cause}. Check HOLDFAST_KAFKA_CLIENT_SECURITY_PROTOCOL, and the certificates "
    "that HOLDFAST_KAFKA_CLIENT_SSL_* name"
)
_WORDS = {
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError._SSL: _TLS,
}


class LoginRefused(Forbidden):
    """Kafka answers and refuses the login; the message names the settings. A person may correct them meanwhile."""


class Login:
    """Login of the clients of one log. Pass `happened` to the clients as their error callback;
    any thread may call it.
    """

    def __init__(
        self, servers: str, settings: Mapping[str, str], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._servers = servers
        self._settings = settings
        self._clock_s = clock_s
        self._refused: tuple[float, str] | None = None

    def happened(self, error: KafkaError) -> None:
        """Notes an error of a connection."""
        words = _WORDS.get(error.code())
        if words is not None:
            mechanism = self._settings.get("sasl.mechanism", self._settings.get("sasl.mechanisms", "GSSAPI"))
            user, cause = self._settings.get("sasl.username", ""), error.str().partition(" (after ")[0]
            self._refused = (
                self._clock_s(),
                words.format(servers=self._servers, user=user, mechanism=mechanism, cause=cause),
            )

    def refused(self) -> LoginRefused | None:
        """The error for a login that Kafka refused in the last RECENT_S; None if no refusal is known."""
        if self._refused is None or self._clock_s() - self._refused[0] > RECENT_S:
            return None
        return LoginRefused(self._refused[1])

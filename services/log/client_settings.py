"""librdkafka properties of every Kafka client, from HOLDFAST_KAFKA_CLIENT_* variables."""

from __future__ import annotations

import os

CLIENT_PREFIX = "HOLDFAST_KAFKA_CLIENT_"


def client_settings() -> dict[str, str]:
    """As passed through: HOLDFAST_KAFKA_CLIENT_SASL_MECHANISM sets sasl.mechanism."""
    return {
        name.removeprefix(CLIENT_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(CLIENT_PREFIX)
    }

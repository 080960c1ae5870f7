"""Options of Spark's Kafka connector, under the names of the Java client.

Source: PROTOCOL 12 (read_committed), JOBS "the Kafka client's security settings (SASL, TLS) passed through".
"""

from __future__ import annotations

import json
from collections.abc import Mapping

MAX_RECORDS = 1_000_000
"""Most records of one micro-batch, which a query that is behind reads at once."""

_FOR_EVER = 2**31 - 1

_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def source_options(
    bootstrap_servers: str, topic: str, first: Mapping[int, int], settings: Mapping[str, str]
) -> dict[str, str]:
    """Options of `readStream.format("kafka")`. `first` holds the first offset of each partition for a new query."""
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": json.dumps({topic: {str(partition): offset for partition, offset in first.items()}}),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(MAX_RECORDS),
        **{f"kafka.{name}": value for name, value in java_settings(settings).items()},
    }


def sink_options(bootstrap_servers: str, topic: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Options of `writeStream.format("kafka")`. A writer leaves no record out: it repeats a record until it is appended
    or the process ends, and refuses a record that is too large before any later record."""
    own = {
        "enable.idempotence": "true",
        "acks": "all",
        "retries": str(_FOR_EVER),
        "delivery.timeout.ms": str(_FOR_EVER),
        "linger.ms": "0",
    }
    given = {**own, **java_settings(settings)}
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "topic": topic,
        **{f"kafka.{name}": value for name, value in given.items()},
    }


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The security properties of librdkafka under the names of the Java client. Other properties concern holdfast's own
    clients only."""
    found: dict[str, str] = {}
    if "security.protocol" in settings:
        found["security.protocol"] = settings["security.protocol"].upper()
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))
    if mechanism:
        found["sasl.mechanism"] = mechanism
        login = _LOGIN.get(mechanism.upper(), _LOGIN["PLAIN"])
        name, password = (_quoted(settings.get(f"sasl.{key}", "")) for key in ("username", "password"))
        found["sasl.jaas.config"] = f"{login} required username={name} password={password};"
    if "ssl.ca.location" in settings:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

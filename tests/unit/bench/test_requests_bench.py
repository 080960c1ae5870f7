"""Requests are counted from the lines of Kafka's own log."""

from __future__ import annotations

import pytest

from bench.measures.requests import counted
from bench.rig.followed import MeasureFailed


def line(second: float, client: str, kind: str) -> str:
    header = f'{{"requestApiKey":1,"correlationId":4,"clientId":"{client}","requestApiKeyName":"{kind}"}}'
    return f'2026-11-27T15:36:{second:06.3f} DEBUG logger: Completed request:{{"requestHeader":{header},"request":""}}'


def test_requests_are_counted_by_client_without_its_numbers_and_by_kind() -> None:
    lines = [
        "2026-11-27T15:36:01.000 WARN ConfigAdminManager: Updated the log level",
        line(2.5, "worker-w1-data", "FETCH"),
        line(3, "worker-w2-data", "FETCH"),
        line(4.5, "worker-w2-data", "METADATA"),
        line(3.5, "1", "BROKER_HEARTBEAT"),
    ]
    found, first_ms, last_ms = counted(lines)
    assert dict(found) == {
        ("worker-w-data", "FETCH"): 2,
        ("worker-w-data", "METADATA"): 1,
        ("Kafka itself", "BROKER_HEARTBEAT"): 1,
    }
    assert last_ms - first_ms == 2_000


def test_a_log_without_requests_is_no_measure() -> None:
    with pytest.raises(MeasureFailed, match="no requests"):
        counted(["2026-11-27T15:36:01.000 WARN Broker: starts"])

"""What all tests share: a real broker, started when the first test asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.kafka import running_kafka

# Without it, `up --kafka` asks for a secret.
os.environ.setdefault("HOLDFAST_CLUSTER_SECRET", "off")

# Machines are shared and noisy: no deadline an example, and slow generation is no failure.
hypothesis_settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("noisy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who asks for the broker needs it, whether it says so or not: `-m "not kafka"` starts none."""
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()) and item.get_closest_marker("kafka") is None:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of one embedded broker for the whole session: give topics and groups names of their own."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap_servers

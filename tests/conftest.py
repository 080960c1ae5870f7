"""What all tests share: a real broker, which tests go together, and the logs of a cluster whose test has failed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# Before anything imports polars: one thread, as in a worker; small frames are handed to others for nothing.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from tests.support.kafka import running_kafka

TESTS = Path(__file__).parent
# Without it, `up --kafka` asks for a secret.
os.environ.setdefault("HOLDFAST_CLUSTER_SECRET", "off")

# Machines are shared and noisy: no deadline an example, and slow generation is no failure.
hypothesis_settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("noisy")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups here, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for the broker needs it, whether it says so or not: `-m "not kafka"` starts none.

    Tests that share a cluster or a Spark session are one group of `--dist loadgroup`. Groups with Spark are begun
    first, then the slow ones: several processes that take one group after the other end at about the same time.
    """
    for item in items:
        if "kafka" in getattr(item, "fixturenames", ()) and item.get_closest_marker("kafka") is None:
            item.add_marker(pytest.mark.kafka)
        if item.get_closest_marker("kafka") or item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(_group(item.path)))
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("spark", "slow")])


def _group(test: Path) -> str:
    """Its folder where that has fixtures of its own, else its file."""
    shared = test.parent != TESTS and (test.parent / "conftest.py").exists()
    return str((test.parent if shared else test).relative_to(TESTS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the logs of the cluster that a failed test ran on."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if callable(logs := getattr(value, "logs", None)):
                report.sections.append((f"logs of {name}", logs()))
    return report


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of one embedded broker for the whole session: give topics and groups names of their own."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.bootstrap_servers

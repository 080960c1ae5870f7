"""The tests of this folder share three brokers, and leave them running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.services.node.kafka.brokers import Brokers, brokers_in


@pytest.fixture(scope="package")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    brokers = brokers_in(tmp_path_factory.mktemp("kafka"), 3)
    brokers.start()
    try:
        yield brokers
    finally:
        brokers.stop()

"""The tests of this folder share one cluster of three workers: their jobs and topics have names of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import LocalCluster, running


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(LocalCluster(tmp_path_factory.mktemp("cluster")), workers=3) as cluster:
        yield cluster

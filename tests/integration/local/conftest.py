"""The tests of this folder share one cluster of three workers: their jobs and topics have names of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import LocalCluster, running

PLUGINS = Path(__file__).parents[2] / "support" / "plugins"


def faults(cluster: LocalCluster) -> Path:
    """A folder: for each file in it one batch of a worker fails."""
    return cluster.folder.parent / "faults"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("local") / "cluster"
    environment = {
        "PYTHONPATH": os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]),
        "HOLDFAST_PLUGINS": "naming_plugin,faulty_plugin",
        "FAULTS": str(folder.parent / "faults"),
    }
    cluster = LocalCluster(folder, environment)
    faults(cluster).mkdir()
    with running(cluster, workers=3) as cluster:
        yield cluster

"""What `up` and `down` promise: clusters live side by side and leave no process behind.

In each run: every other test of a cluster looks whether a process is left, and three of them are tested at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import LocalCluster
from tests.support.commands import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]


def up(cluster: LocalCluster) -> dict[str, Any]:
    """What it says as JSON; no client is connected."""
    (said,) = cluster.lines("up", "--detach", "--workers", "1", "--json")
    return said


def live(cluster: LocalCluster) -> int:
    """Workers that were heard of late."""
    return [one["state"] for one in cluster.asked("workers")].count("live")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    both = LocalCluster(tmp_path / "one"), LocalCluster(tmp_path / "two")
    try:
        yield both
    finally:
        for one in both:
            one.down()


def test_two_clusters_live_side_by_side_and_leave_no_process(clusters: tuple[LocalCluster, LocalCluster]) -> None:
    one, two = clusters
    addresses = {up(one)["bootstrap_servers"], up(two)["bootstrap_servers"]}
    assert len(addresses) == 2
    assert "already, as process" in one.told("up", "--detach", status=1)
    assert one.processes()
    one.call("down")
    until(lambda: not one.processes(), "nothing is left of the first")
    until(lambda: live(two) == 1, "the worker of the second is heard")
    two.call("down")
    until(lambda: not two.processes(), "nothing is left of the second")

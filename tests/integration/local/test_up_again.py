"""The supervisor of a cluster is killed: nothing is left, and `up` continues with what was there."""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WORKERS = 3


def test_after_a_crash_of_the_supervisor_nothing_is_left_and_up_recovers(cluster: LocalCluster) -> None:
    """The tests that follow run on what has come back."""
    cluster.log.create([TopicSpec("kept")])
    cluster.append("kept", b"before")
    supervisor = cluster.files.supervisor()
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    cluster.until(lambda: not cluster.processes(), "its children go with it")
    cluster.close()
    cluster.up(WORKERS)
    assert cluster.values("kept") == [b"before"]
    cluster.until(
        lambda: [one["state"] for one in cluster.asked("workers")].count("live") == WORKERS, "its workers are heard"
    )

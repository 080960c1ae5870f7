"""The supervisor of a cluster is killed: nothing is left, and `up` continues with what was there."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from holdfast.schemas.topics import TopicSpec
from tests.support.cluster import LocalCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
WORKERS = 3
SHARED_KIB = 10_000


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process loads its modules by itself")
def test_the_processes_of_a_cluster_share_the_memory_of_what_they_have_loaded(cluster: LocalCluster) -> None:
    for pid in _pids(cluster):
        lines = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        assert int(lines["Shared_Dirty"].split()[0]) > SHARED_KIB, Path(f"/proc/{pid}/cmdline").read_bytes()


def _pids(cluster: LocalCluster) -> list[int]:
    known = cluster.files.cluster()
    assert known is not None
    pids = [known.controller_pid, *known.recovery_pids, *(one.pid for one in cluster.workers().values())]
    return [pid for pid in pids if pid is not None]


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

"""The disk under a cluster is full: Kafka ends, workers end, the supervisor stays, and later all continues.

In each run: unit/node/test_disk.py has the supervisor and Kafka where no room is, local/test_outages.py a worker whose
disk is full, struck/test_failover.py a Kafka that is killed below a job.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.services.node.machine.disk import shortage
from holdfast.services.node.machine.restarts import STEADY_S
from tests.support.commands import run, until
from tests.support.doomed_cluster import DoomedCluster, cluster_of
from tests.support.running_job import NotReached, RunningJob
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.struck import tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]
MEGABYTES = 400
MANY = 2_000
"""Records that are being processed as the disk gets full."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", MEGABYTES) as disk:
        yield disk


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def cluster(request: pytest.FixtureRequest, disk: SmallDisk) -> Iterator[DoomedCluster]:
    """What ends for lack of room ends again at once: without pauses its starts would take all of the machine."""
    with cluster_of(2, disk.path / "home", steady_s=STEADY_S, brokers=request.param) as cluster:
        yield cluster


def kafkas(cluster: DoomedCluster) -> int:
    """Brokers that run."""
    return len(cluster.supervisor.cluster.kafka_pids)


def await_results(job: RunningJob) -> None:
    try:
        job.until(job.caught_up, "all that was fed is processed")
    except NotReached as error:
        events = [f"{one.time_ms} {one.kind} {one.unit} {one.worker} {one.detail}" for one in job.cluster.events()]
        raise NotReached("\n".join([str(error), str(job.where()), *events[-80:]])) from None


def test_kafka_and_workers_wait_for_room_and_continue_exactly(
    cluster: DoomedCluster, disk: SmallDisk, capfd: pytest.CaptureFixture[str]
) -> None:
    job = RunningJob(cluster, tolerant("hybrid"), "full")
    brokers = kafkas(cluster)
    job.submit()
    job.feed()
    job.until(job.caught_up, "all that was fed is processed")
    job.feed(MANY)
    disk.fill()
    until(lambda: kafkas(cluster) == 0, "Kafka has ended")
    until(lambda: cluster.supervisor.disk.trouble, "the supervisor has noticed")
    assert "no room in" in shortage(cluster.supervisor.files.data_dir)
    assert "no room in" in capfd.readouterr().err

    worker = cluster.supervisor.workers[0]
    former, before = worker.pid, worker.restarts
    if former is not None:
        os.kill(former, signal.SIGKILL)
    until(lambda: worker.restarts > before, "a worker that ends is started again, whatever the disk")
    _, said = run(Path(cluster.supervisor.files.data_dir), "workers", status=1)
    assert "no room in" in " ".join(said.split())

    disk.free()
    until(lambda: kafkas(cluster) == brokers, "Kafka runs again")
    until(lambda: not cluster.supervisor.disk.trouble, "all is written again")
    job.feed()
    await_results(job)
    job.drain()
    job.await_end()
    report = job.replayed()
    assert report.exact, report
    assert job.problems() == []
    wanted = {"disk-full", "kafka-restarted", "disk-has-room"}
    until(lambda: wanted <= {event.kind for event in cluster.events()}, "it is reported")

"""Two supervisors on one Kafka, as two hosts have them: each is the standby of the other, and does it no harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.failover.observer import Observer
from holdfast.schemas.topics import ClusterTopics
from tests.support.cluster import Cluster, LocalCluster
from tests.support.commands import HOLDFAST, until
from tests.support.kafka import running_kafka
from tests.support.processes import Watched
from tests.support.running_job import RunningJob
from tests.support.struck import tolerant

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
LOAD = 10
SILENT_S = 30.0
"""Without an exit notice a host is missed by its heartbeats, within 0.3 s; a machine that runs tests may be starved."""
ENDS_S = 10.0
"""What a supervisor started dies with it; a machine that is busy takes a moment."""


class Host(LocalCluster):
    """A supervisor with two workers in a directory of its own, on a Kafka that is not its own."""

    def __init__(self, name: str, kafka: str, folder: Path) -> None:
        super().__init__(folder, {"HOLDFAST_HOST": name})
        self.name, self.kafka_at = name, kafka

    def start(self, *, status: int = 0) -> str:
        """What `up` said."""
        said = self.told("up", "--detach", "--kafka", self.kafka_at, "--workers", "2", status=status)
        return " ".join(said.split())

    def tried(self) -> str:
        """What `up` said, whether it could start or not."""
        command = [str(HOLDFAST), "up", "--detach", "--kafka", self.kafka_at, "--data-dir", str(self.folder)]
        environment = {**os.environ, "HOLDFAST_HOST": self.name}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        return " ".join(done.stderr.split())

    def started(self) -> list[int]:
        """Its processes, the supervisor first."""
        cluster = self.files.running()
        assert cluster is not None
        workers = [one.pid for one in self.files.workers() if one.pid is not None]
        assert cluster.controller_pid is not None
        return [cluster.pid, cluster.controller_pid, *cluster.recovery_pids, *workers]

    def kill_all(self) -> None:
        """SIGKILL to each, all at the same moment; returns when they are gone."""
        watched = [Watched(pid) for pid in self.started()]
        for one in watched:
            one.kill()
        assert all(one.ended_within(ENDS_S) for one in watched)

    def listed(self) -> dict[str, dict[str, Any]]:
        """The workers of the whole cluster, as this host lists them."""
        out = self.call("workers", "--json", "--kafka", self.kafka_at)
        return {one["worker"]: one for one in json.loads(out)}


class Hosts(Cluster):
    """The cluster of both."""

    def __init__(self, kafka: str, folder: Path) -> None:
        super().__init__(ClusterTopics())
        self.connect(kafka)
        self.a, self.b = (Host(name, kafka, folder / name) for name in ("a", "b"))

    def close(self) -> None:
        for host in (self.a, self.b):
            host.down()
        super().close()

    def logs(self) -> str:
        return self.a.logs() + self.b.logs()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    with running_kafka(folder / "kafka") as kafka:
        made = Hosts(kafka.bootstrap_servers, folder)
        try:
            made.a.start()
            made.b.start()
            yield made
        finally:
            made.close()


def begun(hosts: Hosts, observer: Observer, name: str) -> RunningJob:
    """A hybrid job of which every unit has its standby on the other host."""
    job = RunningJob(hosts, tolerant("hybrid"), name)
    job.submit()
    job.until(lambda: observer.workers() == 4 and observer.protected(), "every unit is protected", load=LOAD)
    for unit in job._units:
        assert {worker[0] for worker in observer.copies(name, unit)} == {"a", "b"}, "its copies lie on both hosts"
    return job


def ended_exact(job: RunningJob) -> None:
    job.feed()
    job.drain()
    job.await_end()
    report = job.replayed()
    assert report.rows.results > 0
    assert report.exact, report
    assert job.problems() == []
    job.forget()


def test_names_zones_and_addresses_tell_the_hosts_apart(hosts: Hosts) -> None:
    found = hosts.a.listed()
    assert sorted(found) == ["a-worker-1", "a-worker-2", "b-worker-1", "b-worker-2"]
    assert hosts.b.listed().keys() == found.keys(), "each lists all"
    for name, one in found.items():
        assert (one["host"], one["zone"]) == (name[0], name[0])
        assert str(hosts.a.folder if name[0] == "a" else hosts.b.folder) in one["address"]


def test_a_second_host_of_the_same_name_is_refused_with_both_addresses(hosts: Hosts, tmp_path: Path) -> None:
    third = Host("a", hosts.a.kafka_at, tmp_path / "third")
    before = {name: one["incarnation"] for name, one in hosts.a.listed().items()}
    said = third.start(status=1)
    for part in (str(hosts.a.folder), str(third.folder), "HOLDFAST_HOST"):
        assert part.replace(" ", "") in said.replace(" ", ""), said
    assert third.files.supervisor() is None
    assert {name: one["incarnation"] for name, one in hosts.a.listed().items()} == before, "nobody was retired"


@pytest.mark.long
def test_two_that_start_together_with_one_name_retire_nobody(hosts: Hosts, tmp_path: Path) -> None:
    """One of them starts, or neither; the one that runs has living workers."""
    both = [Host("c", hosts.a.kafka_at, tmp_path / name) for name in ("c1", "c2")]
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(Host.tried, both))
    try:
        ready = [host for host in both if host.files.supervisor() is not None]
        assert len(ready) <= 1, said
        assert any("HOLDFAST_HOST" in one for one in said), said
        for host in ready:
            mine = {one.worker: one.incarnation for one in host.files.workers()}
            found = hosts.a.listed()
            assert {name: found[name]["incarnation"] for name in mine} == mine
            assert {found[name]["state"] for name in mine} == {"live"}
    finally:
        for host in both:
            host.down()
    until(lambda: not [one for one in hosts.a.listed().values() if one["host"] == "c" and one["state"] == "live"], "c")


@pytest.mark.long
def test_down_on_one_host_leaves_the_other_and_the_job_alone(hosts: Hosts) -> None:
    with Observer(hosts.log, hosts.topics) as observer:
        job = begun(hosts, observer, "down")
        others = hosts.b.started()
        hosts.a.down()
        job.until(lambda: observer.workers() == 2, "one host is left", load=LOAD)
        job.feed()
        job.until(job.caught_up, "all that was fed is processed")
        assert hosts.b.started() == others
        hosts.a.start()
        job.until(lambda: observer.workers() == 4 and observer.protected(), "both are back", load=LOAD)
        ended_exact(job)


def test_a_host_dies_with_all_that_it_started_and_the_other_continues(hosts: Hosts) -> None:
    with Observer(hosts.log, hosts.topics) as observer:
        job = begun(hosts, observer, "dies")
        job.feed()
        job.until(job.caught_up, "all that was fed is processed")
        hosts.a.kill_all()
        began = time.monotonic()
        job.feed()
        job.until(job.caught_up, "all that was fed since is processed")
        silence_s = time.monotonic() - began
        print(f"host killed: what was fed since was processed after {silence_s * 1000:.0f} ms")
        assert silence_s < SILENT_S
        assert {observer.leader_of("dies", unit)[0] for unit in job._units} == {"b"}
        hosts.a.start()
        job.until(lambda: observer.workers() == 4 and observer.protected(), "it is back, and protects", load=LOAD)
        ended_exact(job)


def test_processes_of_a_supervisor_die_with_it(hosts: Hosts) -> None:
    """The last test: the host stays as it is. local/test_up_again.py starts one again."""
    first, *others = hosts.b.started()
    watched = [Watched(pid) for pid in others]
    os.kill(first, signal.SIGKILL)
    assert all(one.ended_within(ENDS_S) for one in watched)
    until(lambda: hosts.b.files.supervisor() is None, "its directory is free")

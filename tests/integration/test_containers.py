"""The cluster of compose/compose.yaml: built, started, given a job by a record, and struck in every part of it.

What a strike took is printed (`pytest -s`). Needs a Docker engine; nothing else of this machine.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from bench.compose.loaded import failed
from bench.compose.project import is_healthy
from bench.compose.strikes import STRIKES, restarts
from bench.failover.observer import Observer
from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from tests.campaign.jobs import PROTECTED
from tests.support.cluster import Cluster
from tests.support.containers import PATIENCE_S, Containers, running_containers
from tests.support.running_job import RunningJob
from tests.support.struck import calm

WORKERS = {f"w{number}-worker-1": f"worker-{number}" for number in (1, 2, 3)}
SMALL_DISK = "w3-worker-1"
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
SERVICES = (*BROKERS, "controller", "recovery-1", "recovery-2", *WORKERS.values())
LOAD = 10
STRUCK_S = 5.0
POLL_S = 0.05


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    small_disk = Path(__file__).parents[1] / "support" / "small_disk.yaml"
    with running_containers(tmp_path_factory.mktemp("containers"), "compose.yaml", small_disk) as made:
        yield made


class Results(threading.Thread):
    """When rows arrived at a reader of a query's topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._reader = cluster.log.reader("results")
        self._reader.assign(cluster.log.offsets([Partition(topic, index) for index in range(2)], "end"))
        self._over = threading.Event()
        self._at_s: list[float] = []

    def run(self) -> None:
        while not self._over.is_set():
            if any(chunk.messages for chunk in self._reader.poll(POLL_S)):
                self._at_s.append(time.time())
        self._reader.close()

    def end(self) -> None:
        self._over.set()
        self.join()

    @property
    def newest_s(self) -> float:
        return self._at_s[-1] if self._at_s else 0.0

    def silence_ms(self, from_s: float, to_s: float) -> int:
        """The longest between two times."""
        return longest_ms(self._at_s, from_s, to_s)


def longest_ms(at_s: list[float], from_s: float, to_s: float) -> int:
    """Between two that follow each other, and to both ends."""
    times = [from_s, *(at for at in at_s if from_s < at < to_s), to_s]
    return round(1000 * max(after - before for before, after in pairwise(times)))


class Struck:
    """A job under load, and who leads its units."""

    def __init__(self, cluster: Containers, observer: Observer) -> None:
        self.cluster, self.observer = cluster, observer
        self.job = RunningJob(cluster, calm(PROTECTED, 4), f"counts-{secrets.token_hex(3)}")
        self.job.submit()
        self.units = [unit.name for unit in cluster.plan(self.job.name).units]
        self._fed_s: list[float] = []
        self.results = Results(cluster, f"{self.job.name}-totals")
        self.results.start()
        self.await_protection()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Under load; each look is followed by some records."""

        def looked() -> object:
            self._fed_s.append(time.time())
            return condition()

        self.job.until(looked, what, load=LOAD, seconds=PATIENCE_S)

    def silence(self, from_s: float) -> str:
        """Of results and of what they come from: on a machine that is full, the test itself waits."""
        now_s = time.time()
        fed = f"of the records fed {longest_ms(self._fed_s, from_s, now_s)} ms"
        return f"longest silence of results {self.results.silence_ms(from_s, now_s)} ms, {fed}"

    def await_protection(self) -> None:
        """And until no unit is switched: its leader would change again."""

        def ready() -> bool:
            self.job.look()
            answer = self.job.batch > 0 and self.observer.workers() == len(WORKERS) and self.observer.protected()
            return answer and not self.switched()

        self.until(ready, "every unit runs, led by its primary, and has its standby")

    def switched(self) -> list[str]:
        """Units whose secondary leads, or that move."""
        changes = [self.observer.change(self.job.name, unit) for unit in self.units]
        return [one.unit for one in changes if one.moving or one.copies[0] != one.committer]

    def leads(self) -> list[str]:
        """The worker that leads, of each unit."""
        return [self.observer.leader_of(self.job.name, unit) for unit in self.units]

    def leader(self) -> str:
        """The worker that leads the first unit."""
        return self.leads()[0]

    def lead(self, worker: str) -> None:
        """The worker leads the first unit, from now on."""
        if self.leader() != worker:
            unit = self.units[0]
            self.cluster.submit(commands.encode(Command("move", self.job.name, unit=unit, worker=worker)))
            self.until(lambda: self.leader() == worker, f"{worker} leads {unit}")
        self.await_protection()

    def struck(self, name: str) -> str:
        """Does it to a worker that leads, waits until others lead what it led, and undoes it; returns the worker."""
        victim, strike, project = self.leader(), STRIKES[name], self.cluster.project
        at_s = strike.strike(project, WORKERS[victim])

        def taken_over() -> list[Event]:
            found = self.cluster.events("unit-active")
            return [
                one for one in found if one.job == self.job.name and one.time_ms >= 1000 * at_s and one.worker != victim
            ]

        try:
            self.until(taken_over, f"another worker leads after {strike.about}")
            first = min(taken_over(), key=lambda event: event.time_ms)
            self.results_come()
        finally:
            strike.heal(project, WORKERS[victim])
        print(
            f"\n{strike.about}: {victim} lost, {first.worker} leads after {first.time_ms - 1000 * at_s:.0f} ms "
            f"{first.phases_ms}, {self.silence(at_s - 1)}"
        )
        return victim

    def results_come(self) -> None:
        """Of what is fed from now on."""
        since_s, fed = time.time() + 1.0, self.job.fed + 10 * LOAD
        self.until(lambda: self.job.fed > fed and self.results.newest_s > since_s, "results come")

    def is_exact(self) -> None:
        self.job.until(self.job.caught_up, "all is taken in", seconds=PATIENCE_S)
        if not self.job.draining:
            self.job.drain()
        self.job.until(lambda: self.cluster.state(self.job.name) == "ended", "it ends", seconds=PATIENCE_S)
        report = self.job.replayed()
        assert report.exact, report
        assert self.job.problems() == []


@pytest.fixture(scope="module")
def running(containers: Containers) -> Iterator[Struck]:
    with Observer(containers.log, containers.topics) as observer:
        struck = Struck(containers, observer)
        yield struck
        struck.results.end()


pytestmark = [
    pytest.mark.docker,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]


def test_every_service_is_healthy_with_a_read_only_root_and_without_privileges(containers: Containers) -> None:
    inspected = containers.project.inspected()
    for service in SERVICES:
        found = inspected[service]
        assert is_healthy(found), service
        assert found["HostConfig"]["Memory"] > 0, service
        if service not in BROKERS:
            assert found["HostConfig"]["ReadonlyRootfs"], service
            assert found["Config"]["User"].split(":")[0] not in ("", "0", "root"), service


def test_a_job_is_submitted_by_one_command(containers: Containers) -> None:
    said = containers.compose("run", "--rm", "cli", "submit", "visits.yaml", "--create-topics")
    assert "job visits runs" in said
    containers.append("visits", *(json.dumps({"page": "a", "ms": n}).encode() for n in range(100)))
    containers.await_more("pages", 0)


@pytest.mark.parametrize(
    "name",
    [
        # The next test but one strikes a process; test_cut_off.py cuts one off, without containers.
        pytest.param("process", marks=pytest.mark.long),
        "container",
        pytest.param("cut-off", marks=pytest.mark.long),
        pytest.param("paused", marks=pytest.mark.long),
        pytest.param("throttled", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_is_struck_is_taken_over_and_comes_back_under_its_name(running: Struck, name: str) -> None:
    project = running.cluster.project
    before = {worker: restarts(project, service) for worker, service in WORKERS.items()}
    victim = running.struck(name)
    running.await_protection()
    assert restarts(project, WORKERS[victim]) == before[victim], "the engine has restarted it"


@pytest.mark.long
def test_a_worker_whose_disk_is_full_is_taken_over_and_comes_back_once_there_is_room(running: Struck) -> None:
    running.lead(SMALL_DISK)
    assert running.struck("full-disk") == SMALL_DISK
    running.await_protection()


def test_jobs_continue_without_the_controller_and_without_one_of_two_recovery_replicas(running: Struck) -> None:
    """And a worker is taken over meanwhile."""
    project, away = running.cluster.project, ("controller", "recovery-1")
    for service in away:
        STRIKES["container"].strike(project, service)
    try:
        running.struck("process")
        running.await_protection()
    finally:
        for service in away:
            STRIKES["container"].heal(project, service)
    for service in away:
        running.until(lambda service=service: project.healthy(service), f"{service} is back")  # type: ignore[misc]


@pytest.mark.long  # test_brokers.py kills one of three in each run
@pytest.mark.parametrize("broker", BROKERS)
def test_a_job_continues_when_any_of_three_brokers_is_killed(running: Struck, broker: str) -> None:
    """Switches meanwhile are printed and do no harm: on a busy machine Kafka answers some workers much later than
    others. That none is suspected while the only broker is away is held by struck/test_failover.py."""
    at_s, project = time.time(), running.cluster.project
    STRIKES["container"].strike(project, broker)
    try:
        running.results_come()
        running.job.run_for(STRUCK_S, LOAD)
        decided = running.cluster.events("decided")
    finally:
        STRIKES["container"].heal(project, broker)
    print(f"\n{broker} killed: {running.silence(at_s)}")
    running.until(lambda: not project.out_of_sync() and project.healthy(broker), f"{broker} is back")
    later = [one for one in decided if one.time_ms > 1000 * at_s and failed(one)]
    print(*(f"{one.time_ms / 1000 - at_s:.1f} s after: {one.detail}" for one in later), sep="\n")
    running.await_protection()


@pytest.mark.parametrize(
    "services",
    [
        pytest.param([*WORKERS.values()][:1], id="one worker"),
        pytest.param([*WORKERS.values()][1:], id="the others", marks=pytest.mark.long),
    ],
)
def test_a_rolling_restart_hands_every_unit_over_before_a_container_ends(running: Struck, services: list[str]) -> None:
    for service in services:
        began_s = time.time()
        stopping = subprocess.Popen(["docker", "restart", "-t20", running.cluster.container(service)])
        running.until(lambda child=stopping: child.poll() is not None, f"{service} has restarted")  # type: ignore[misc]
        assert stopping.returncode == 0
        running.await_protection()
        print(f"\n{service} restarted: {running.silence(began_s)}")


@pytest.mark.parametrize("tests", ["of each run", pytest.param("long", marks=pytest.mark.long)])
def test_after_all_of_that_every_row_is_exact(running: Struck, tests: str) -> None:
    """After whichever were selected."""
    running.is_exact()

"""The cluster of compose.yaml under a campaign: its brokers struck by the Docker engine, and started a while later.

A container that was killed stays away until somebody starts it: here a thread, as the supervisor does for processes.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from bench.compose.project import DockerFailed, Project
from bench.compose.strikes import STRIKES
from tests.support.containers import Containers, running

FILE = "compose.yaml"
NAME = "kafka-{}"
NODES: tuple[int, ...] = (1, 2, 3)
AWAY_S = (2.0, 8.0)
"""Time for which a broker that was killed stays away: below Kafka's session timeout of 3 s, and above."""
DATA = "/var/lib/kafka/data"
STOP_S = 20
SLOW_CPUS = "0.1"
CPUS = "1.5"
"""Processors that compose.yaml gives a broker."""
CUT_TAIL = r"""
for topic in {topics}; do
    for folder in {data}/"$topic"-[0-9]*; do
        newest=$(ls "$folder"/*.log 2>/dev/null | tail -n 1)
        [ -n "$newest" ] || continue
        size=$(stat -c %s "$newest")
        [ "$size" -gt {bytes} ] && truncate -s -{bytes} "$newest"
    done
done; true
"""
CUT_BYTES = 2000
"""Some records, the last of them in the middle: as a power cut leaves what was not flushed."""


class ContainerCluster(Containers):
    """Whose workers may be killed in their containers."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._workers = [service for service in project.services() if service.startswith("worker")]

    def kill(self, chance: random.Random, spared: Collection[str] = ()) -> str:
        """SIGKILL to a worker's process, which its parent reports and starts again; nothing where none runs."""
        service = chance.choice([one for one in self._workers if one not in spared])
        with suppress(DockerFailed):
            STRIKES["process"].strike(self.project, service)
            return service
        return ""

    def all_run(self) -> bool:
        return all(self.project.healthy(service) for service in self._workers)

    def logs(self) -> str:
        return self.project.logs()


class ContainerBrokers:
    """Use `close` at the end: then every broker has been started again."""

    cannot: frozenset[str] = frozenset()

    def __init__(self, project: Project, chance: random.Random) -> None:
        self._project, self._chance = project, chance
        self.bootstrap_servers = project.bootstrap_servers
        self.nodes = NODES
        self._containers = {number: project.container(NAME.format(number)) for number in NODES}
        self._starting: list[threading.Thread] = []
        self._over = threading.Event()

    def close(self) -> None:
        self._over.set()
        for thread in self._starting:
            thread.join()

    # -- what is known ------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        if any(thread.is_alive() for thread in self._starting):
            return False
        self._starting.clear()
        return all(self._project.healthy(NAME.format(number)) for number in self.nodes)

    def controller(self) -> int:
        """Controller as each node keeps it beside its log of the metadata; the newest epoch counts."""
        known = [
            json.loads(self._project.inside(NAME.format(number), f"cat {DATA}/__cluster_metadata-0/quorum-state"))
            for number in self.nodes
        ]
        leader = int(max(known, key=lambda one: int(one["leaderEpoch"]))["leaderId"])
        return leader if leader in self.nodes else self.nodes[0]

    # -- what is done -------------------------------------------------------------------------------------------------

    def kill(self, *numbers: int) -> None:
        self._project.docker("kill", "--signal", "SIGKILL", *(self._containers[number] for number in numbers))
        for number in numbers:
            self._start_later(number)

    def restart(self, number: int) -> Callable[[], bool]:
        command = ["docker", "restart", f"-t{STOP_S}", self._containers[number]]
        restarting = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return lambda: restarting.poll() is not None

    def frozen(self, number: int) -> AbstractContextManager[None]:
        return self._struck("paused", number)

    def cut_off(self, number: int) -> AbstractContextManager[None]:
        return self._struck("cut-off", number)

    @contextmanager
    def slow(self, number: int) -> Iterator[None]:
        self._project.docker("update", "--cpus", SLOW_CPUS, self._containers[number])
        try:
            yield
        finally:
            self._project.docker("update", "--cpus", CPUS, self._containers[number])

    def cut_tail(self, number: int, topics: Sequence[str]) -> None:
        """Kills it, and its logs of these topics lose their ends before it starts again."""
        container = self._containers[number]
        self._project.docker("kill", "--signal", "SIGKILL", container)
        script = CUT_TAIL.format(topics=" ".join(map(shlex.quote, topics)), data=DATA, bytes=CUT_BYTES)
        image = json.loads(self._project.docker("inspect", container))[0]["Config"]["Image"]
        shell = ["--rm", "--user", "root", "--volumes-from", container, "--entrypoint", "sh"]
        self._project.docker("run", *shell, image, "-c", script)
        self._start_later(number)

    @contextmanager
    def _struck(self, name: str, number: int) -> Iterator[None]:
        service = NAME.format(number)
        STRIKES[name].strike(self._project, service)
        try:
            yield
        finally:
            STRIKES[name].heal(self._project, service)

    def _start_later(self, number: int) -> None:
        away_s = self._chance.uniform(*AWAY_S)

        def start() -> None:
            self._over.wait(away_s)
            self._project.docker("start", self._containers[number])

        self._starting.append(threading.Thread(target=start, name=f"starts broker {number}", daemon=True))
        self._starting[-1].start()


@contextmanager
def container_cluster(folder: Path) -> Iterator[ContainerCluster]:
    """Built, up and healthy; gone at the end."""
    with running(ContainerCluster(Project(folder, FILE))) as cluster:
        yield cluster


@contextmanager
def brokers_of(cluster: ContainerCluster, chance: random.Random) -> Iterator[ContainerBrokers]:
    brokers = ContainerBrokers(cluster.project, chance)
    try:
        yield brokers
    finally:
        brokers.close()

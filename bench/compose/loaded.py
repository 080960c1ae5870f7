"""A job under 2,000 records/s in a cluster of containers, with strikes on its services, in turn."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import NamedTuple

from bench.compose.bystander import Bystander
from bench.compose.cluster import ContainerCluster
from bench.compose.held import Held
from bench.compose.project import Project
from bench.compose.strikes import STRIKES, Strike
from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import LOOK_S, RATE_PER_S, WARM_UP_S, record
from bench.rig import jobs
from bench.rig.cluster import now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed
from holdfast.schemas.events import Event
from holdfast.services.audit.replay import replay
from holdfast.services.kernel.errors import Retriable
from holdfast.services.recovery.core.unit.table.reasons import FAILURES

STOP_S, PATIENCE_S, SAID_EVERY_S = 20, 240.0, 15.0
SHOWN = 5
STRUCK_S = 5.0
"""Duration in seconds of a strike that does not end a process at once."""
WHOM = {"kafka": ("container", "paused"), "controller": ("container",), "recovery": ("container", "paused")}
OF_WORKERS = ("process", "container", "paused", "throttled", "cut-off")


class Silence(NamedTuple):
    """The longest while something was done: of results, and of the records fed, for on a full machine all wait. ms."""

    what: str
    results_ms: float
    fed_ms: float

    def __str__(self) -> str:
        return f"{self.what}: longest silence of results {self.results_ms:.0f} ms, of what was fed {self.fed_ms:.0f} ms"


class Loaded:
    """The job, and the arrival times of its results.

    silences: silence at each action, in order.
    """

    def __init__(
        self, cluster: ContainerCluster, job: Followed, observer: Observer, arrivals: Arrivals, feeder: Feeder
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._observer = observer
        self._arrivals = arrivals
        self._feeder = feeder
        self.project: Project = cluster.project
        self._hosts = self.project.hosts()
        self.services = self.project.services()
        self.workers = [service for service in self.services if service.startswith("worker")]
        self.silences: list[Silence] = []

    def settle(self) -> None:
        """Returns once all workers answer, every unit is protected, and a broker may be lost. Raises MeasureFailed."""

        def settled() -> bool:
            with suppress(Retriable):
                return self._observer.workers() == len(self.workers) and self._observer.protected()
            return False

        def unsettled() -> str:
            units = ", ".join(self._observer.unprotected()) or "none"
            answer = f"{self._observer.workers()} of {len(self.workers)} workers answer"
            return f"{answer}; units without protection: {units}"

        self._job.until(settled, unsettled, PATIENCE_S)
        self._job.until(lambda: not self.project.out_of_sync(), self._unsynced, PATIENCE_S)

    def _unsynced(self) -> str:
        late = self.project.out_of_sync()
        return f"{len(late)} partitions have a replica that is not in sync: {'; '.join(late[:SHOWN])}"

    def restart(self, service: str) -> Silence:
        """Restarts a service; returns the silence from before its stop until all units are protected again."""
        return self._measured(f"{service} restarts", lambda: self._restart(service))

    def _restart(self, service: str) -> None:
        command = ["docker", "restart", f"-t{STOP_S}", self.project.container(service)]
        stopping = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._job.until(lambda: stopping.poll() is not None, f"{service} does not restart")
        if stopping.returncode:
            raise MeasureFailed(f"docker restart of {service}: {stopping.returncode}")

    def strike(self, name: str, service: str) -> Silence:
        """Strikes as restart does."""
        return self._measured(f"{service}, {STRIKES[name].about}", lambda: self._strike(STRIKES[name], service))

    def _strike(self, strike: Strike, service: str) -> None:
        strike.strike(self.project, service)
        self._job.watch(STRUCK_S)
        strike.heal(self.project, service)

    def _measured(self, what: str, do: Callable[[], None]) -> Silence:
        from_ms, fed = now_ms(), len(self._feeder.sent_ms)
        do()
        self.settle()
        self._await_result()
        self.settle()
        self._job.watch(LOOK_S)
        sent_ms = [from_ms, *self._feeder.sent_ms[fed:]]
        fed_ms = max((after - before for before, after in pairwise(sent_ms)), default=0.0)
        self.silences.append(Silence(what, self._arrivals.silence(from_ms, now_ms()), fed_ms))
        return self.silences[-1]

    def _await_result(self) -> None:
        """Waits for a result of a record sent from now on. Raises MeasureFailed.

        For some seconds after the loss of a broker no process notices a failure, so the present state means nothing.
        """
        from_ms = now_ms()
        self._job.until(lambda: self._arrivals.first_after(from_ms) is not None, "no result comes", PATIENCE_S)

    def taken_over(self, name: str, operator: str, chance: random.Random) -> float:
        """Strikes the worker that leads the operator's unit; returns ms until a result of a record sent after that."""
        self.settle()
        self._job.watch(LOOK_S + chance.uniform(0, 0.5))  # any time between two checkpoints
        service, strike = self._leading(operator), STRIKES[name]
        struck_ms = 1000 * strike.strike(self.project, service)
        self._job.until(lambda: self._arrivals.first_after(struck_ms) is not None, "no result comes", PATIENCE_S)
        first_ms = self._arrivals.first_after(struck_ms)
        assert first_ms is not None
        strike.heal(self.project, service)
        return first_ms - struck_ms

    def _leading(self, operator: str) -> str:
        """The service that leads the unit of an operator, by name or kind."""
        kinds = {one.name: one.kind for one in self._job.plan.operators}
        unit = next(u.name for u in self._job.plan.units for o in u.operators if operator in (o, kinds[o]))
        worker = self._observer.leader_of(self._job.plan.job, unit)
        return self._hosts[worker.rpartition("-worker-")[0]]

    def lost_broker(self, service: str) -> tuple[Silence, float, float, int]:
        """Kills its container and starts it again.

        Returns the silence; those of a plain producer of Kafka's and of one with transactions, ms; how often a unit
        was switched, although no worker had failed.
        """
        decided, from_ms = len(self._job.events), now_ms()
        with Bystander(self._cluster.log, self._cluster.bootstrap_servers) as bystander:
            found = self.strike("container", service)
            alone_ms, commits_ms = bystander.silence(from_ms, now_ms()), bystander.silence_of_commits(from_ms, now_ms())
        return found, alone_ms, commits_ms, sum(failed(event) for event in self._job.events[decided:])

    def soak(
        self, seconds: float, every_s: float, chance: random.Random, held: Held, say: Callable[[str], None]
    ) -> None:
        """Makes a random strike every `every_s`, or once the last one is over, and samples memory and topics after
        each.
        """
        first_s = time.monotonic()
        while (began_s := time.monotonic()) < first_s + seconds:
            service = chance.choice(self.services)
            name = chance.choice(WHOM.get(service.partition("-")[0], OF_WORKERS))
            found = self.strike(name, service)
            passed_s = time.monotonic() - first_s
            held.look(passed_s)
            say(f"{clock(passed_s)} of {clock(seconds)}, strike {len(self.silences)}: {found}")
            self._job.watch(max(0.0, every_s - (time.monotonic() - began_s)))


@contextmanager
def loaded(
    cluster: ContainerCluster, name: str, rate_per_s: float = RATE_PER_S, latency_ms: int | None = None
) -> Iterator[Loaded]:
    """A running job in which every unit is protected, and every key has occurred.

    latency_ms: latency setting of the job.
    """
    topic = f"bench-{name}"
    cluster.create(topic)
    text = jobs.FAILOVER if latency_ms is None else jobs.within(jobs.FAILOVER, latency_ms)
    job = cluster.submit(text, topic, name=name, scheme="hybrid")
    try:
        job.await_running()
        observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
        feeder = Feeder(cluster.users_appender("feeder"), topic, rate_per_s, record)
        with observer, arrivals:
            with feeder:
                made = Loaded(cluster, job, observer, arrivals, feeder)
                job.watch(WARM_UP_S)
                made.settle()
                yield made
            job.await_records(len(feeder.sent_ms))
            job.watch(1.0)  # the last rows
    finally:
        job.close()


def rows(cluster: ContainerCluster, job: str) -> Figures:
    """Rows that a replay of all its cuts finds missing, twice, or otherwise. Of a job that has taken in all it gets."""
    began_s, said = time.monotonic(), 0

    def progress(batch: int, batches: int) -> None:
        nonlocal said
        if SAID_EVERY_S * (said + 1) < time.monotonic() - began_s:
            said += 1
            cluster.say(f"  replayed {batch:,} of {batches:,} batches")

    found = replay(cluster.log, cluster.topics, job, progress=progress).rows
    return {"rows": found.results, "lost": found.lost, "duplicated": found.duplicated, "wrong": found.wrong}


def worst(silences: Sequence[Silence]) -> float:
    return round(max((one.results_ms for one in silences), default=0.0), 1)


def worst_fed(silences: Sequence[Silence]) -> float:
    return round(max((one.fed_ms for one in silences), default=0.0), 1)


def failed(event: Event) -> bool:
    """True if recovery gave a unit to another worker because its leader had failed, or seemed to have."""
    return event.kind == "decided" and any(f": {sign.value}: " in event.detail for sign in FAILURES)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

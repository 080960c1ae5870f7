"""Four jobs with state on Spark while drivers and Kafka are struck: every row is compared with an independent
computation and with a replay.

Source: PROTOCOL 12.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import msgspec

from bench.failover.observer import Observer
from bench.measures import spark_jobs
from bench.measures.spark_jobs import JOBS
from bench.rig.cluster import BenchCluster
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.followed import Followed, MeasureFailed
from bench.rig.scale import Scale
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay
from holdfast.services.client.current import await_format
from holdfast.services.kernel.errors import Retriable

RATE_PER_S, WORKERS, DRIVERS = 50, 2, 2
UNIT = "spark-h-0"
FREEZE_S, CALM_S, PATIENCE_S, LOOK_S, CLOSE_S = 3.0, 3.0, 600.0, 0.1, 3.0
LEADER, STANDBY, FREEZE, KAFKA = "leader", "standby", "freeze", "kafka"
KINDS = (LEADER, STANDBY, FREEZE, KAFKA)
"""SIGKILL of the driver that leads a query and of its standby, SIGSTOP of the leader for 3 s, SIGKILL of Kafka."""


def spark_struck(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Makes as many strikes of each kind as the scale says, in random order."""
    cluster.start(WORKERS, {"HOLDFAST_PLUGINS": "bench"})
    await_format(cluster.door())
    topic, names = f"bench-{name}", {job: f"{name}-{job}" for job in JOBS}
    cluster.log.create([TopicSpec(topic, 1), *(TopicSpec(f"{one}-out", 1) for one in names.values())])
    chance, took_ms = random.Random(0), list[float]()
    strikes = list(KINDS) * scale.strikes
    chance.shuffle(strikes)
    with ExitStack() as stack:
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        jobs = [stack.enter_context(cluster.running(JOBS[job], topic, name=names[job])) for job in JOBS]
        for job in jobs:
            job.await_running()
        struck = Struck(cluster, jobs, observer, chance)
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, _record)
        with feeder:
            for number, kind in enumerate(strikes):
                took_ms.append(struck.strike(kind))
                cluster.say(f"  {number + 1} of {len(strikes)}, {kind}: protected after {took_ms[-1]:.0f} ms")
            struck.settle()
        figures = _summed(_closed(cluster, topic, names, len(feeder.sent_ms)))
        for one in names.values():
            rows = replay(cluster.log, cluster.topics, one).rows
            for what in ("lost", "duplicated", "wrong"):
                figures[f"replay_{what}"] = figures.get(f"replay_{what}", 0) + getattr(rows, what)
    return figures | {"strikes": len(strikes), "protected_p50_ms": round(percentile(took_ms, 0.5))}


def _record(index: int) -> bytes:
    return msgspec.json.encode(spark_jobs.event(index))


class Struck:
    """Strikes drivers and Kafka. Every method raises MeasureFailed."""

    def __init__(
        self, cluster: BenchCluster, jobs: Sequence[Followed], observer: Observer, chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._observer = observer
        self._chance = chance

    def strike(self, kind: str) -> float:
        """Strikes once all is protected. Returns the milliseconds until all is protected again."""
        self.settle()
        self._watch(self._chance.uniform(CALM_S, 2 * CALM_S))
        self.settle()
        job = self._chance.choice(self._jobs).plan.job
        leader, *others = self._observer.copies(job, UNIT)
        began_s = time.monotonic()
        if kind == KAFKA:
            self._strike_kafka()
        elif kind == FREEZE:
            group = self._group(leader)
            os.killpg(group, signal.SIGSTOP)
            try:
                self._watch(FREEZE_S)
            finally:
                os.killpg(group, signal.SIGCONT)
        else:
            victim = leader if kind == LEADER else others[0]
            before = self._observer.incarnation(victim)
            os.killpg(self._group(victim), signal.SIGKILL)
            self._until(lambda: self._observer.incarnation(victim) > before, lambda: f"{victim} does not come back")
        self.settle()
        return (time.monotonic() - began_s) * 1000

    def settle(self) -> None:
        """Waits until every process answers and every unit has its standby."""

        def settled() -> bool:
            return self._observer.workers() == WORKERS + DRIVERS and self._observer.protected()

        self._until(settled, lambda: "not protected: " + "; ".join(self._observer.unprotected()))

    def _group(self, driver: str) -> int:
        """Process group of a driver, its JVM and its Python processes."""
        return self._cluster.workers()[driver]

    def _strike_kafka(self) -> None:
        running = self._cluster.files.cluster()
        if running is None or running.kafka_pid is None:
            raise MeasureFailed("Kafka does not run")
        os.kill(running.kafka_pid, signal.SIGKILL)

        def back() -> bool:
            now = self._cluster.files.cluster()
            return now is not None and now.kafka_pid not in (None, running.kafka_pid)

        self._until(back, lambda: "Kafka does not come back")

    def _until(self, reached: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > deadline_s:
                raise MeasureFailed(f"{otherwise()} after {PATIENCE_S:g} s")
            self._watch(LOOK_S)

    def _watch(self, seconds: float) -> None:
        """Lets the time pass. Raises MeasureFailed once a job has failed."""
        deadline_s = time.monotonic() + seconds
        for job in self._jobs:
            with suppress(Retriable):  # Kafka is killed now and then
                job.read(0.01)
        time.sleep(max(0.0, deadline_s - time.monotonic()))


# -- rows -------------------------------------------------------------------------------------------------------------


def _closed(cluster: BenchCluster, topic: str, names: Mapping[str, str], sent: int) -> list[Mapping[str, int]]:
    """Differences of each job's rows, once records behind all others have closed its windows. names: by job."""
    wanted = {job: spark_jobs.expected(job, sent) for job in names}
    deadline_s, index = time.monotonic() + PATIENCE_S, sent
    while True:
        cluster.appender.append(Partition(topic, 0), msgspec.json.encode(spark_jobs.closing(index)))
        cluster.appender.flush(PATIENCE_S)
        index += 1
        found = {job: spark_jobs.made(job, _rows(cluster, f"{name}-out")) for job, name in names.items()}
        if not any(wanted[job] - found[job] for job in names) or time.monotonic() > deadline_s:
            return [spark_jobs.counted(found[job], wanted[job]) for job in names]
        time.sleep(CLOSE_S)


def _rows(cluster: BenchCluster, topic: str) -> Iterator[Mapping[str, Any]]:
    return (msgspec.json.decode(one.value() or b"") for one in cluster.log.scan(Partition(topic, 0)))


def _summed(found: Sequence[Mapping[str, int]]) -> Figures:
    return {what: sum(one[what] for one in found) for what in ("rows", "lost", "duplicated", "wrong")}

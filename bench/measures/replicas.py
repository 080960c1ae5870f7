"""Takeovers when one of two recovery replicas dies with the worker. Source: PROTOCOL 8."""

from __future__ import annotations

import random
import statistics

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import RATE_PER_S, WARM_UP_S, WORKERS, Struck, record
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, beside
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale

REPLICAS = 2
BACK_S = 60.0
CAUGHT_UP_S = 2.0
"""Seconds from a replica's first echo to the end of its reads at the start."""
OPERATORS = ("count", "largest")


def replicas(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Kills of a worker alone and, in turn, of a worker and either replica at once; both units with state, in turn."""
    cluster.start(WORKERS, {"HOLDFAST_RECOVERIES": str(REPLICAS)})
    topic, chance = f"bench-{name}", random.Random(1)
    cluster.create(topic)
    found: dict[bool, list[float]] = {False: [], True: []}
    with cluster.running(jobs.FAILOVER, topic, name=name, scheme="hybrid") as job:
        job.await_running()
        observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
        with observer, arrivals, Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record):
            struck = Struck(cluster, job, observer, arrivals, chance)
            job.watch(WARM_UP_S)
            for number in range(scale.kills * 2):
                with_replica = bool(number % 2)
                job.until(lambda: observer.replicas() == REPLICAS, "a recovery replica is not back", BACK_S)
                job.watch(CAUGHT_UP_S)
                others = [chance.choice(recoveries(cluster))] if with_replica else []
                took_ms = struck.takeover_ms(OPERATORS[number // 2 % len(OPERATORS)], *others)
                found[with_replica].append(took_ms)
                cluster.say(f"  worker{' and replica' if with_replica else ''} killed: {took_ms:.0f} ms")
            struck.settle()
    return compared(found[False], found[True])


def recoveries(cluster: BenchCluster) -> tuple[int, ...]:
    """Their process numbers. Raises MeasureFailed."""
    known = cluster.files.cluster()
    if known is None or len(known.recovery_pids) != REPLICAS:
        raise MeasureFailed(f"not {REPLICAS} recovery replicas: {known}")
    return known.recovery_pids


def compared(alone: list[float], together: list[float]) -> Figures:
    """Figures of both, and the time that the replica's death adds to the median."""
    added_ms = statistics.median(together) - statistics.median(alone)
    return beside(worker=alone, with_replica=together) | {"added_ms": round(added_ms, 1)}

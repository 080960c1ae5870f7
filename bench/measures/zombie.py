"""Wait of a reader of results behind a transaction that its writer never ends. Source: PROTOCOL 9.

A sink's worker is frozen with a transaction open: every read_committed reader of the topic waits until the worker that
takes over has fenced it. Were it not fenced, they would wait for the transaction's time-out, 5 s and more.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import LatestSpec

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import RATE_PER_S, WARM_UP_S, Struck, record
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed
from bench.rig.scale import Scale
from holdfast.schemas.topics import Partition
from holdfast.services.log.kafka.client import ANSWER_S, Cluster

SCHEMES = ("hybrid", "active-standby", "active-replication")
TRIES = 400
"""Freezes until one meets an open transaction: a worker has one for about a tenth of the time."""
FROZEN_S = 1.0
"""Length of a freeze: a worker that is back sooner was switched for nothing, and for 30 s its silence would be believed
more slowly.
"""
ON_ITS_WAY_S = 0.03
"""An end of the transaction that was sent before the freeze is with the broker by then."""


def zombie(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Waits of each scheme: from the freeze of the sink's worker, a transaction open, to the next result a reader
    gets.
    """
    figures: Figures = {}
    for scheme in SCHEMES:
        waits = _waits(cluster, f"{name}-{scheme}", scheme, scale.kills)
        figures |= {
            f"{scheme}_wait_p50_ms": round(statistics.median(waits), 1),
            f"{scheme}_wait_max_ms": round(max(waits), 1),
        }
    return figures | {"freezes_of_each": scale.kills}


def _waits(cluster: BenchCluster, name: str, scheme: str, times: int) -> list[float]:
    topic, chance = f"bench-{name}", random.Random(1)
    cluster.create(topic)
    results = Results(cluster.bootstrap_servers, Partition(f"{topic}-out", 0))
    found = []
    with cluster.running(jobs.FAILOVER, topic, name=name, scheme=scheme) as job:
        job.await_running()
        observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
        with observer, arrivals, Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record):
            struck = Struck(cluster, job, observer, arrivals, chance)
            job.watch(WARM_UP_S)
            for _ in range(times):
                struck.settle()
                with _frozen(struck.pid("sink"), results, job, chance) as signal_ms:
                    first_ms = struck.first_after(signal_ms)
                    job.watch(max(0.0, FROZEN_S - (now_ms() - signal_ms) / 1000))
                found.append(arrivals.silence(signal_ms, first_ms))
                cluster.say(f"  {scheme}: {found[-1]:.0f} ms without a result")
            struck.settle()
    return found


@contextmanager
def _frozen(pid: int, results: Results, job: Followed, chance: random.Random) -> Iterator[float]:
    """A process that has a transaction open, from when; until the end of the block. Raises MeasureFailed."""
    for _ in range(TRIES):
        job.watch(chance.uniform(0, 0.05))
        os.kill(pid, signal.SIGSTOP)
        signal_ms = now_ms()
        try:
            if results.held_back():
                time.sleep(ON_ITS_WAY_S)
                if results.held_back():
                    yield signal_ms
                    return
        finally:
            os.kill(pid, signal.SIGCONT)
    raise MeasureFailed(f"no transaction of process {pid} was open in {TRIES} looks")


class Results:
    """The ends of a topic's partition, for readers of committed records and for other readers."""

    def __init__(self, bootstrap_servers: str, partition: Partition) -> None:
        self._admin: AdminClient = Cluster(bootstrap_servers).admin("bench-ends")
        self._where = TopicPartition(partition.topic, partition.index)

    def held_back(self) -> bool:
        """True if a transaction is open: the topic has more records than read_committed readers get."""
        return self._end(IsolationLevel.READ_COMMITTED) < self._end(IsolationLevel.READ_UNCOMMITTED)

    def _end(self, level: IsolationLevel) -> int:
        asked = self._admin.list_offsets(
            {self._where: LatestSpec()},  # type: ignore[no-untyped-call]
            isolation_level=level,
            request_timeout=ANSWER_S,
        )
        return int(asked[self._where].result(ANSWER_S).offset)

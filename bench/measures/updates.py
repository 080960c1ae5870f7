"""Silence of updates under load, as readers of the sink see it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from string import Template

import msgspec

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.scale import Scale
from holdfast.schemas.plans import Plan
from holdfast.schemas.savepoints import Start
from holdfast.schemas.topics import Partition
from holdfast.services.client.update import Updated, update
from holdfast.services.planning.loader import load
from holdfast.services.view.reader import read_jobs

RATE_PER_S, KEYS, PATIENCE_S, CALM_S = 2_000, 100_000, 300.0, 2.0
ROWS_S, LOOK_S = 60.0, 1.0
OF_ROUNDS = 10, 3
"""Updates by rounds of the scale: 10 by default, 3 with --quick."""


class Updates:
    """Updates of one job, in turn.

    counted: true if each row has the number of records of its key so far.
    parallel: numbers of tasks that the job has in turn.
    """

    def __init__(self, job: Template, keys: int, *, counted: bool, parallel: Sequence[int] = (1,)) -> None:
        self._job = job
        self._keys = keys
        self._counted = counted
        self._parallel = parallel

    def __call__(self, cluster: BenchCluster, name: str, scale: Scale) -> Figures:
        topic, start = f"bench-{name}", int(now_ms())
        cluster.create(topic)
        cluster.preload(topic, self._keys, max(self._keys, 1), lambda _: start)
        texts = (self._job.substitute(tasks=1, name=name, topic=topic, parallel=count) for count in self._parallel)
        raw = [load(jobs.unprotected(text), "bench.yaml").as_plain() for text in texts]
        done, silences = list[Updated](), list[float]()
        with cluster.running(self._job, topic, name=name, parallel=self._parallel[0]) as job:
            job.await_records(self._keys) if self._keys else job.await_running()
            feeder = Feeder(
                cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, max(self._keys, 1), start)
            )
            with feeder:
                job.watch(CALM_S)
                plan = job.plan
                most, of = OF_ROUNDS
                for number in range(1, 1 + scale.rounds * most // of):
                    since = cluster.log.offsets([Partition(f"{topic}-out", 0)], "end")
                    done.append(update(cluster.door(), plan, raw[number % len(raw)], Start("", ""), PATIENCE_S))
                    time.sleep(CALM_S)  # rows come again
                    silences.append(_silence_s(cluster, since))
                    plan = _plan(cluster, done[-1])
            if self._counted:
                _check(cluster, topic, self._keys + len(feeder.sent_ms))
        return {
            "silence_ms": round(statistics.median(silences) * 1000),
            "max_silence_ms": round(max(silences) * 1000),
            "held_ms": round(statistics.median(one.held_s for one in done) * 1000),
            "carried_ms": round(statistics.median(one.carried_s for one in done) * 1000),
            "begun_ms": round(statistics.median(one.took_s - one.held_s - one.carried_s for one in done) * 1000),
        }


def _silence_s(cluster: BenchCluster, since: dict[Partition, int]) -> float:
    """The longest time between two rows of the sink that follow each other."""
    ((out, first),) = since.items()
    times = [message.timestamp()[1] for message in cluster.log.scan(out, max(first - 1, 0))]
    return max((later - sooner for sooner, later in pairwise(times)), default=0) / 1000


def _check(cluster: BenchCluster, topic: str, records: int) -> None:
    """Waits for a row of each record. Raises MeasureFailed if one is missing or came twice."""
    until_s = time.monotonic() + ROWS_S
    while len(rows := _rows(cluster, topic)) < records and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    distinct = len({(row["user"], row["n"]) for row in rows})
    if not len(rows) == distinct == records:
        raise MeasureFailed(f"{records} records, {len(rows)} rows, {distinct} of them distinct")


def _rows(cluster: BenchCluster, topic: str) -> list[dict[str, object]]:
    """Number of rows, counted, because offsets include ends of transactions."""
    return [msgspec.json.decode(one.value() or b"{}") for one in cluster.log.scan(Partition(f"{topic}-out", 0))]


def _plan(cluster: BenchCluster, done: Updated) -> Plan:
    found = read_jobs(cluster.door()).plan(done.submitted.generation)
    assert found is not None
    return found

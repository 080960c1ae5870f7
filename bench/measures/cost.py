"""Cost of a batch: CPU of every process of the cluster while a chain of four units runs at a steady rate, by the
distance
between batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from string import Template

from bench.measures.peers.beside import streams_beside
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed
from bench.rig.hops import split
from bench.rig.scale import Scale
from bench.rig.spent import Spent
from bench.rig.trace import Trace
from holdfast.schemas.topics import Partition

RATE_PER_S, KEYS = 2_000, 100
SETTLING_S = 3.0
COMMIT_MS = 100
"""Commit interval of Kafka Streams, where it is asked for."""
VARIANTS: Mapping[str, Template] = {
    "often": jobs.CHAIN,
    "budget_50": jobs.within(jobs.CHAIN, 50),
    "budget_100": jobs.within(jobs.CHAIN, 100),
    "budget_200": jobs.within(jobs.CHAIN, 200),
}
"""Variants by name in the figures: a batch every `batch_interval_ms`, and batches under a `latency_ms`."""


def cost(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Costs one after the other, then the CPU of each over that of the first, and the same of what the job itself adds.

    A cluster without jobs takes some as well, by itself (rest) and while a producer writes at the same rate (fed). The
    very first run only warms up: Java compiles what Kafka does, for which the first figure had paid alone.
    """
    cluster.say(f"  warming up: {_one(cluster, f'{name}-warm', jobs.CHAIN, scale.seconds)}")
    found: Figures = {}
    for variant, job in VARIANTS.items():
        figures = _one(cluster, f"{name}-{variant.replace('_', '-')}", job, scale.seconds)
        cluster.say(f"  {variant}: {figures}")
        found |= {f"{variant}_{figure}": value for figure, value in figures.items()}
    found |= {"rest_cores": _cores(cluster, scale.seconds), "fed_cores": _fed(cluster, f"{name}-fed", scale.seconds)}
    cluster.say(f"  no job: {found['rest_cores']} cores, and with a producer {found['fed_cores']}")
    if scale.beside:
        cluster.say(f"  Kafka Streams, a commit each {COMMIT_MS} ms ...")
        figures = streams_beside(cluster, f"{name}-peer", COMMIT_MS, RATE_PER_S, KEYS, scale.seconds)
        cluster.say(f"  Kafka Streams: {figures}")
        found |= {f"streams_{figure}": value for figure, value in figures.items()}
    for variant in VARIANTS:
        cores, often, fed = (found[f"{one}_cores"] for one in (variant, "often", "fed"))
        found[f"{variant}_cores_over_often"] = round(cores / often, 3)
        found[f"{variant}_added_over_often"] = round((cores - fed) / (often - fed), 3)
    return found


def _fed(cluster: BenchCluster, name: str, seconds: float) -> float:
    """Cores of a cluster whose users write to a topic that no job reads."""
    topic = f"bench-{name}"
    cluster.create(topic)
    with Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))):
        return _cores(cluster, seconds)


def _cores(cluster: BenchCluster, seconds: float) -> float:
    time.sleep(SETTLING_S)
    began_s, before = time.monotonic(), Spent.of(cluster)
    time.sleep(seconds)
    return round((Spent.of(cluster).all - before.all) / (time.monotonic() - began_s), 3)


def _one(cluster: BenchCluster, name: str, job: Template, seconds: float) -> Figures:
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(job, topic, name=name) as running:
        running.await_running()
        return steady(cluster, running, topic, lambda i: jobs.record(i, KEYS, int(now_ms())), seconds)


def steady(
    cluster: BenchCluster, running: Followed, topic: str, record: Callable[[int], bytes], seconds: float
) -> Figures:
    """Cores of a running job's cluster, batches, and delays of results while RATE_PER_S records come. Raises
    MeasureFailed.
    """
    with Trace(cluster, running, f"{topic}-out") as trace:
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record)
        with feeder:
            running.watch(SETTLING_S)
            began_s, before, first = time.monotonic(), Spent.of(cluster), len(feeder.sent_ms)
            running.watch(seconds)
            took_s, after = time.monotonic() - began_s, Spent.of(cluster)
        running.await_records(len(feeder.sent_ms))
        running.watch(0.5)  # the last rows
    _, seen = trace.rows()
    cuts = [cut for cut in trace.cuts() if cut.start >= first]
    appended = [float(message.timestamp()[1]) for message in cluster.log.scan(Partition(topic, 0))]
    delays = split(appended, cuts, {}, seen)
    if not delays:
        raise MeasureFailed("no result could be matched with its records")
    return {
        "cores": round((after.all - before.all) / took_s, 3),
        "worker_cores": round((after.workers - before.workers) / took_s, 3),
        "broker_cores": round((after.brokers - before.brokers) / took_s, 3),
        "cpu_s_per_1000_batches": round((after.all - before.all) * 1000 / max(len(cuts), 1), 1),
        "batches_per_s": round(len(cuts) / (took_s + 0.5), 1),
        **{figure: delays[figure] for figure in ("p50_ms", "p95_ms", "p99_ms")},
    }

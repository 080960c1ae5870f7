"""Cost and benefit of `batch_interval_ms`: bytes of the cut log, and the delay of a result, by interval."""

from __future__ import annotations

import time
from pathlib import Path

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.hops import batch_delays
from bench.rig.scale import Scale
from bench.rig.trace import Trace
from holdfast.schemas.topics import Partition

INTERVALS_MS = (5, 10, 20, 50, 100)
RATE_PER_S, KEYS = 1_000, 1_000
DAY_S = 24 * 3600


def rhythm(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Figures of one source task with one partition, by interval: cuts per second, their bytes on disk, delays to the
    row.
    """
    found: Figures = {}
    for interval_ms in INTERVALS_MS:
        figures = _at(cluster, f"{name}-{interval_ms}", interval_ms, scale.seconds)
        cluster.say(f"  {interval_ms} ms: {figures}")
        found |= {f"{figure}_at_{interval_ms}ms": value for figure, value in figures.items()}
    return found


def _at(cluster: BenchCluster, name: str, interval_ms: int, seconds: float) -> Figures:
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(jobs.PACED, topic, name=name, interval_ms=interval_ms) as job:
        job.await_running()
        cut_log = Partition(cluster.topics.job(job.plan.job, job.plan.generation).cuts, 0)
        with Trace(cluster, job, f"{topic}-out") as trace:
            feeder = Feeder(
                cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
            )
            with feeder:
                job.watch(seconds / 5)
                began_s, before = time.monotonic(), (_end(cluster, cut_log), _bytes(cluster.folder, cut_log))
                job.watch(seconds)
                took_s = time.monotonic() - began_s
                cuts, size = _end(cluster, cut_log) - before[0], _bytes(cluster.folder, cut_log) - before[1]
            job.await_records(len(feeder.sent_ms))
            job.watch(0.5)  # the last rows
    written, _ = trace.rows()
    appended = [float(message.timestamp()[1]) for message in cluster.log.scan(Partition(topic, 0))]
    delays = batch_delays(appended, trace.cuts(), written)
    return {
        "cuts_per_s": round(cuts / took_s, 1),
        "bytes_a_cut": round(size / max(cuts, 1)),
        "mib_a_day": round(size / took_s * DAY_S / 2**20),
        "p50_ms": round(percentile(delays, 0.5), 1),
        "p99_ms": round(percentile(delays, 0.99), 1),
    }


def _end(cluster: BenchCluster, partition: Partition) -> int:
    return cluster.log.offsets([partition], "end")[partition]


def _bytes(folder: Path, partition: Partition) -> int:
    """Bytes of the records of a partition on the broker's disk."""
    logs = (folder / "kafka").rglob(f"{partition.topic}-{partition.index}/*.log")
    return sum(path.stat().st_size for path in logs)

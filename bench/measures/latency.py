"""Latency at a steady rate, from the append in the user's topic to a read_committed reader, hop by hop."""

from __future__ import annotations

import statistics
from string import Template

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.hops import split
from bench.rig.scale import Scale
from bench.rig.trace import Trace
from holdfast.schemas.topics import Partition

RATE_PER_S = 2_000
KEYS = 100
WARM_UP_SHARE = 0.2


def latency(cluster: BenchCluster, name: str, scale: Scale, chain: Template = jobs.CHAIN) -> Figures:
    """Latency of every record, by the batch that holds it, from the broker's time on it; the first fifth is warm-up."""
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(chain, topic, name=name) as job:
        job.await_running()
        with Trace(cluster, job, f"{topic}-out") as trace:
            feeder = Feeder(
                cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
            )
            with feeder:
                job.watch(scale.seconds)
            job.await_records(len(feeder.sent_ms))
            job.watch(0.5)  # the last rows
    written, seen = trace.rows()
    warm = int(len(feeder.sent_ms) * WARM_UP_SHARE)
    cuts = [cut for cut in trace.cuts() if cut.start >= warm]
    appended = [float(message.timestamp()[1]) for message in cluster.log.scan(Partition(topic, 0))]
    found = split(appended, cuts, {**trace.frames(), "sink_row": written}, seen)
    if not found:
        raise MeasureFailed("no result could be matched with its records")
    sending = [at - sent for sent, at in zip(feeder.sent_ms, appended, strict=True)][warm:]
    return found | {"mean_send_to_append_ms": round(statistics.fmean(sending), 1)}

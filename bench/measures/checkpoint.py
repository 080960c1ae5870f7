"""Costs of checkpoints while records flow: batches of a unit that changes every key between two checkpoints."""

from __future__ import annotations

import statistics

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.followed import MeasureFailed
from bench.rig.hops import batch_delays, pauses
from bench.rig.scale import Scale
from bench.rig.trace import Trace

KEYS = 100_000
INTERVAL_MS = 2_000
RATE_PER_S = KEYS * 1000 // INTERVAL_MS
NEVER_MS = 3_600_000
WARM_UP_S = 3.0
"""Left out: the keys are new in the first 2 s."""


def checkpoint(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Pauses between batches and delays of batches, with checkpoints and, an hour apart, practically without.

    A step is the time that checkpoint work takes at once, as the worker publishes it; its CPU time tells whether it was
    work or waiting for a CPU that others had. A pause is the time between the
    ends of two batches, less the median of that, the worker's own pace: what else the machine does is in it too.
    """
    with_them = _batches(cluster, f"bench-{name}", name, INTERVAL_MS, scale.seconds)
    without = _batches(cluster, f"bench-{name}-off", f"{name}-off", NEVER_MS, scale.seconds)
    return with_them | {f"{figure.removesuffix('_ms')}_without_ms": value for figure, value in without.items()}


def _batches(cluster: BenchCluster, topic: str, name: str, interval_ms: int, seconds: float) -> Figures:
    cluster.create(topic)
    with cluster.running(jobs.DIRTY, topic, name=name, interval_ms=interval_ms) as job:
        job.await_running()
        unit = next(unit for unit in job.plan.units if "count" in unit.operators)
        with Trace(cluster, job) as trace:
            feeder = Feeder(
                cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
            )
            with feeder:
                job.watch(WARM_UP_S + seconds)
            job.await_records(len(feeder.sent_ms))
    fed = feeder.sent_ms
    cuts = [cut for cut in trace.cuts() if fed[0] + WARM_UP_S * 1000 < cut.time_ms < fed[-1]]
    times, wanted = trace.frames()["count"], {cut.batch for cut in cuts}
    done = {batch: at for batch, at in times.items() if batch in wanted}
    if len(done) < 2:
        raise MeasureFailed(f"only {len(done)} batches in {seconds:g} s")
    gaps, delays = pauses(done), batch_delays(fed, cuts, done)
    steps = [s for s in job.steps if s.unit == unit.name and fed[0] + WARM_UP_S * 1000 < s.time_ms < fed[-1]]
    found = {
        "longest_step_ms": round(max((s.took_ms for s in steps), default=0.0), 2),
        "longest_step_cpu_ms": round(max((s.cpu_ms for s in steps), default=0.0), 2),
        "batch_interval_ms": round(statistics.median(gaps), 1),
        "longest_pause_ms": round(max(gaps) - statistics.median(gaps), 1),
        "p99_pause_ms": round(percentile(gaps, 0.99) - statistics.median(gaps), 1),
        "batch_delay_p95_ms": round(percentile(delays, 0.95), 1),
    }
    dirty = trace.dirty_keys(unit.partition)
    return found | ({"dirty_keys": max(dirty), "checkpoints": len(dirty)} if interval_ms != NEVER_MS else {})

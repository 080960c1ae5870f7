"""A whole cluster on less processor than it would take: cost, delays and takeovers of a protected job.

All processes of the cluster, Kafka among them, share one quota; who feeds the job and reads its results has the rest.
"""

from __future__ import annotations

import random

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import RATE_PER_S, WARM_UP_S, WORKERS, Struck, record
from bench.measures.cost import steady
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, percentile
from bench.rig.quota import confined
from bench.rig.scale import Scale
from holdfast.services.audit.replay import replay

SHARE = 2 / 3
"""Share of one CPU: two cores, each of a third of its speed."""
STRUCK = ("count", "largest")
PATIENCE_S = 180.0


def crowded(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Figures of `cost` and of kills, in a cluster of four workers under a quota of SHARE.

    Raises:
        MeasureFailed: no quota can be set, or the job is not protected again in time.
    """
    with confined(SHARE):
        cluster.start(WORKERS)
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(jobs.FAILOVER, topic, name=name, scheme="hybrid") as job:
        job.await_running()
        found = steady(cluster, job, topic, record, scale.seconds)
        cluster.say(f"  steady: {found}")
        observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record)
        before = job.records
        with observer, arrivals, feeder:
            struck = Struck(cluster, job, observer, arrivals, random.Random(1), PATIENCE_S)
            job.watch(WARM_UP_S)
            took = list[float]()
            for number in range(scale.kills):
                took.append(struck.takeover_ms(STRUCK[number % len(STRUCK)]))
                cluster.say(f"  {STRUCK[number % len(STRUCK)]}: {took[-1]:.0f} ms")
            struck.settle()
        job.await_records(before + len(feeder.sent_ms))
        rows = replay(cluster.log, cluster.topics, job.plan.job).rows
    return found | {
        "share_percent": round(100 * found["cores"] / SHARE, 1),
        "kill_p50_ms": round(percentile(took, 0.5), 1),
        "kill_p90_ms": round(percentile(took, 0.9), 1),
        "kill_worst_ms": round(max(took), 1),
        "lost": rows.lost,
        "doubled": rows.duplicated,
        "wrong": rows.wrong,
    }

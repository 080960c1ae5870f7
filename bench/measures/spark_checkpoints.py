"""Checkpoints of Spark queries through Kafka beside those in a shared folder: what a micro-batch takes and costs.

Source: docs/decisions/0257. The same windowed query on two clusters, one after the other, at a steady rate: its
micro-batches follow each other without a pause.
"""

from __future__ import annotations

import time

from bench.measures.spark import EVENTS, WINDOWED, cluster_cpu_s, feeder_of_events
from bench.rig.cluster import BenchCluster, folder_of_its_own
from bench.rig.figures import Figures
from bench.rig.followed import Followed
from bench.rig.scale import Scale
from holdfast.schemas import commits
from holdfast.schemas.commits import Commit
from holdfast.schemas.topics import Partition, TopicSpec

WAYS = ("shared", "kafka")
CALM_S = 20.0
"""The first micro-batches of a JVM take longer than later ones."""


def spark_checkpoints(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Milliseconds and CPU seconds of a micro-batch, of the whole cluster, and bytes of files that it sends."""
    figures: Figures = {}
    for way in WAYS:
        with folder_of_its_own(cluster.say) as own:
            own.start(1, {"HOLDFAST_SPARK_CHECKPOINTS": way})
            found = _steady(own, f"{name}-{way}", scale)
        cluster.say(f"  {way}: {found}")
        figures |= {f"{way}_{key}": value for key, value in found.items()}
    for key in ("batch_ms", "cpu_ms_per_batch"):
        figures[f"{key}_over_shared"] = round(figures[f"kafka_{key}"] / figures[f"shared_{key}"], 2)
    return figures


def _steady(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    topic = f"bench-{name}"
    cluster.log.create([TopicSpec(topic, 1), TopicSpec(f"{topic}-out", 1)])
    settings = {"name": name, "fields": EVENTS, "scheme": "passive"}
    with cluster.running(WINDOWED, topic, **settings) as job, feeder_of_events(cluster, topic):
        job.await_running()
        time.sleep(CALM_S)
        names = cluster.topics.job(job.plan.job, job.plan.generation)
        began_s, before, cpu_s = time.monotonic(), _batches(cluster, job), cluster_cpu_s(cluster)
        time.sleep(2 * scale.seconds)
        took_s, batches = time.monotonic() - began_s, _batches(cluster, job) - before
        used_s, files = cluster_cpu_s(cluster) - cpu_s, Partition(names.query_files("h"), 0)
        sent = sum(len(message.value() or b"") for message in cluster.log.scan(files))
    return {
        "batch_ms": round(took_s * 1000 / batches),
        "cpu_ms_per_batch": round(used_s * 1000 / batches),
        "file_kib_per_batch": round(sent / 1024 / (before + batches), 1),
    }


def _batches(cluster: BenchCluster, job: Followed) -> int:
    """Number of the last micro-batch that was committed."""
    log = Partition(cluster.topics.job(job.plan.job, job.plan.generation).commits("h"), 0)
    values = (message.value() or b"" for message in cluster.log.scan(log))
    found = (commits.decode(value) for value in values if not commits.is_frame(value))
    return max((one.k for one in found if isinstance(one, Commit)), default=0)

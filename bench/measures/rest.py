"""Resource usage of an idle cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from string import Template

from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import Followed
from bench.rig.machine import cpu_s, rss_mib
from bench.rig.scale import Scale
from bench.rig.spent import Spent

SETTLING_S = 15.0
"""A job is at rest some time after its last record: see worker/core/cut_rhythm.py."""


@dataclass(frozen=True, slots=True)
class Rest:
    """CPU and memory of the workers that host a job without data; with more than one, of the busiest and on average.
    Beside them, of one core: the services (controller, recovery replicas, supervisor) and the brokers.
    """

    job: Template
    partitions: int = 1

    def __call__(self, cluster: BenchCluster, name: str, scale: Scale) -> Figures:
        topic = f"bench-{name}"
        cluster.create(topic, partitions=self.partitions)
        with cluster.running(self.job, topic, name=name) as job:
            job.await_running()
            job.watch(SETTLING_S)
            pids = list(cluster.workers().values())
            before, began = Spent.of(cluster), time.monotonic()
            percent = _percent(pids, job, scale.rest_seconds)
            after, share = Spent.of(cluster), 100 / (time.monotonic() - began)
            memory = [rss_mib(pid) for pid in pids]
        return {
            "max_cpu_percent": round(max(percent), 2),
            "mean_cpu_percent": round(sum(percent) / len(percent), 2),
            "max_rss_mib": round(max(memory)),
            "mean_rss_mib": round(sum(memory) / len(memory)),
            "services_cpu_percent": round((after.services - before.services) * share, 2),
            "brokers_cpu_percent": round((after.brokers - before.brokers) * share, 2),
        }


def _percent(pids: list[int], job: Followed, seconds: float) -> list[float]:
    """Share of one core in percent, by process."""
    before, started = [cpu_s(pid) for pid in pids], time.monotonic()
    job.watch(seconds)
    took = time.monotonic() - started
    return [(cpu_s(pid) - one) / took * 100 for pid, one in zip(pids, before, strict=True)]

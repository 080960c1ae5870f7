"""Memory of Spark drivers, of the one that leads and of its standby, while a job runs for long: whether it is flat.

The standby rehearses the query every 40 s, each time in a session of its own.
"""

from __future__ import annotations

import time

from bench.measures.spark import EVENTS, WINDOWED, activations, feeder_of_events, settled
from bench.rig.cluster import BenchCluster
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed
from bench.rig.machine import rss_mib, trees
from bench.rig.memory import Memory
from bench.rig.scale import Scale
from holdfast.schemas.topics import TopicSpec

EACH_S = 5.0
WARM = 1 / 3
"""Java compiles, and its heap grows to what it may take, for longer than caches of other processes fill."""


def spark_memory(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """MiB of each driver with its JVM and its Python processes, and of the JVM alone."""
    topic = f"bench-{name}"
    cluster.log.create([TopicSpec(topic, 1), TopicSpec(f"{topic}-out", 1)])
    with (
        cluster.running(WINDOWED, topic, name=name, fields=EVENTS, scheme="hybrid") as job,
        feeder_of_events(cluster, topic),
    ):
        job.await_running()
        settled(cluster)
        leader = activations(cluster)[-1].worker
        found = _followed(cluster, leader, scale.minutes)
        if activations(cluster)[-1].worker != leader:
            raise MeasureFailed(f"{leader} did not lead to the end")
    return found


def _followed(cluster: BenchCluster, leader: str, minutes: float) -> Figures:
    drivers = {"leader": leader, "standby": next(one for one in _drivers(cluster) if one != leader)}
    memory = {f"{role}_{what}": Memory(minutes, WARM) for role in drivers for what in ("all", "jvm")}
    began_s = time.monotonic()
    while (minute := (time.monotonic() - began_s) / 60) <= minutes:
        for role, driver in drivers.items():
            for what, mib in _mib(_drivers(cluster)[driver]).items():
                if said := memory[f"{role}_{what}"].note(minute, mib):
                    cluster.say(f"  {role}, {what}: {said.strip()}")
        time.sleep(EACH_S)
    return {f"{key}_{figure}": value for key, one in memory.items() for figure, value in one.figures().items()}


def _drivers(cluster: BenchCluster) -> dict[str, int]:
    return {name: pid for name, pid in cluster.workers().items() if name.startswith("spark")}


def _mib(driver: int) -> dict[str, float]:
    """Resident memory of a driver's processes; pages that forks share are counted in each."""
    of = {pid: rss_mib(pid) for pid in trees([driver])}
    return {"all": sum(of.values()), "jvm": max(mib for pid, mib in of.items() if pid != driver)}

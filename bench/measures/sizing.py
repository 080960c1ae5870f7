"""Needs of a cluster: CPU of a batch in a unit, memory and disk of a key, bytes that a job writes to Kafka in a day."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bench.measures.disk import RECORD_OVERHEAD_BYTES, blocks
from bench.measures.rest import SETTLING_S
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed
from bench.rig.machine import cpu_s, rss_mib
from bench.rig.scale import Scale
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log

RATE_PER_S, KEYS = 200, 1_000
"""Records a second, and keys: so few that a batch costs as much as an empty one."""
LOOKED_AT = 20
DAY_S = 86_400
MIB = 2**20


def sizing(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """A chain of four units with small batches, then a count with many keys, then a job without data; one worker."""
    return {
        **_batches(cluster, f"{name}-batches", scale),
        **_keys(cluster, f"{name}-keys", scale),
        **_rest(cluster, f"{name}-rest", scale),
    }


def _batches(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    topic = f"bench-{name}"
    cluster.create(topic)
    known = cluster.files.cluster()
    kafka = known.kafka_pid if known is not None else None
    with cluster.running(jobs.CHAIN, topic, name=name) as job:
        job.await_running()
        feeder = Feeder(
            cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
        )
        with feeder:
            job.await_records(RATE_PER_S)
            job.watch(2.0)
            before, cpu, broker, began = _done(job), cluster.cpu_s(), cpu_s(kafka or 0), time.monotonic()
            written = Appended(cluster.log, _root(job))
            job.watch(scale.seconds)
            took, batches = time.monotonic() - began, _done(job) - before
            cpu, broker = cluster.cpu_s() - cpu, cpu_s(kafka or 0) - broker
            per_day = written.bytes() / took * DAY_S
    return {
        "batches_per_s": round(batches / len(job.units) / took, 1),
        "batch_unit_cpu_us": round(cpu / max(batches, 1) * 1e6),
        "batch_unit_kafka_cpu_us": round(broker / max(batches, 1) * 1e6),
        "busy_written_mib_per_day": round(per_day / MIB),
    }


def _done(job: Followed) -> int:
    """Batches, counted in each unit."""
    return sum(unit.processed for unit in job.units.values())


def _keys(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    topic, keys = f"bench-{name}", scale.state_keys
    cluster.create(topic)
    with cluster.running(jobs.COUNT, topic, name=name) as job:
        job.await_running()
        job.watch(2.0)
        (pid,) = cluster.workers().values()
        before = rss_mib(pid)
        cluster.preload(topic, keys, keys, lambda _: int(now_ms()))
        job.await_records(keys)
        job.watch(scale.seconds)
        memory = rss_mib(pid) - before
        checkpoints = _on_disk(cluster.folder / "kafka", f"{_root(job)}checkpoints")
        image = _on_disk(cluster.folder / "state")
    return {
        "key_memory_bytes": round(memory * MIB / keys),
        "key_checkpoint_bytes": round(checkpoints / keys),
        "key_image_bytes": round(image / keys),
    }


def _rest(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(jobs.TWO_UNITS, topic, name=name) as job:
        job.await_running()
        job.watch(SETTLING_S)
        own, beats = Appended(cluster.log, _root(job)), Appended(cluster.log, cluster.topics.heartbeats)
        began = time.monotonic()
        job.watch(scale.rest_seconds)
        took = time.monotonic() - began
        return {
            "rest_written_mib_per_day": round(own.bytes() / took * DAY_S / MIB, 1),
            "heartbeats_mib_per_day": round(beats.bytes() / took * DAY_S / MIB, 1),
        }


def _root(job: Followed) -> str:
    return f"{ClusterTopics().job(job.plan.job, job.plan.generation).root}."


def _on_disk(folder: Path, begins: str = "") -> int:
    """Bytes of disk blocks of the files in folders with this prefix."""
    found = 0
    for path, _, files in os.walk(folder):
        if Path(path).name.startswith(begins):
            found += sum(blocks(Path(path, name)) for name in files)
    return found


class Appended:
    """Bytes appended to the topics whose names begin so since it was made: offsets times the mean size of the newest
    records, so ends of transactions count as records.
    """

    def __init__(self, log: Log, begins: str) -> None:
        self._log = log
        self._begins = begins
        self._before = self._ends()

    def bytes(self) -> int:
        after = self._ends()
        grown = {one: end - self._before.get(one, 0) for one, end in after.items()}
        return round(sum(count * self._mean(one, after[one]) for one, count in grown.items() if count > 0))

    def _ends(self) -> Mapping[Partition, int]:
        topics = {name: count for name, count in self._log.topics().items() if name.startswith(self._begins)}
        return self._log.offsets([Partition(name, at) for name, count in topics.items() for at in range(count)], "end")

    def _mean(self, partition: Partition, end: int) -> float:
        sizes: list[int] = []
        start = self._log.offsets([partition], "start")[partition]
        with suppress(StateCorrupted):
            for one in self._log.scan(partition, max(start, end - LOOKED_AT)):
                sizes.append(len(one.value() or b"") + len(one.key() or b"") + RECORD_OVERHEAD_BYTES)
        return sum(sizes) / len(sizes) if sizes else 0.0

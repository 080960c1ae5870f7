"""Kafka's disk against what the protocol keeps: bytes on disk of the job's own topics, and between start and end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from schemas.topics import Partition
from services.cli.bench import jobs
from services.cli.bench.cluster import BenchCluster, now_ms
from services.cli.bench.feeder import Feeder
from services.cli.bench.figures import Figures, slope
from services.cli.bench.followed import Followed
from services.cli.bench.scale import Scale
from services.log.protocol import Log, Message

RATE_PER_S = 20_000
KEYS = 10_000
SAMPLES = 40
WARM_UP_SHARE = 0.3
LOOKED_AT = 200
RECORD_OVERHEAD_BYTES = 12
"""Of a record in a batch, about: lengths, deltas and attributes."""


def disk(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Sampled over `scale.minutes`; the first third, in which the first segments fill, is left out."""
    topic = f"bench-{name}"
    cluster.create(topic)
    samples: list[tuple[float, int, int]] = []
    with cluster.running(jobs.CHAIN, topic, name=name) as job:
        job.await_running()
        root = cluster.topics.job(job.plan.job, job.plan.generation).root + "."
        feeder = Feeder(
            cluster.log.appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
        )
        with feeder:
            started = time.monotonic()
            while (passed_s := time.monotonic() - started) < scale.minutes * 60:
                job.watch(scale.minutes * 60 / SAMPLES)
                used, kept = _used(cluster.folder, root), _kept(cluster.log, root)
                samples.append((passed_s / 60, used, kept))
                cluster.say(f"  {passed_s / 60:.1f} min: {used / 2**20:,.1f} MiB on disk, {kept / 2**20:,.1f} MiB kept")
            lag = len(feeder.sent_ms) - _records(job)
    settled = samples[int(len(samples) * WARM_UP_SHARE) :]
    return {
        "max_ratio": round(max(used / max(kept, 1) for _, used, kept in settled), 2),
        "max_disk_mib": round(max(used for _, used, _ in settled) / 2**20, 1),
        "max_kept_mib": round(max(kept for _, _, kept in settled) / 2**20, 1),
        "slope_mib_per_min": round(slope([(at, used / 2**20) for at, used, _ in settled]), 2),
        "records_behind": lag,
    }


def _records(job: Followed) -> int:
    return job.records


def _used(folder: Path, root: str) -> int:
    """Blocks that the broker's folders of these topics take, whatever the files' lengths say."""
    found = 0
    for path, _, files in os.walk(folder / "kafka"):
        if Path(path).name.startswith(root):
            found += sum(_blocks(Path(path, name)) for name in files)
    return found


def _blocks(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:  # deleted meanwhile
        return 0


def _kept(log: Log, root: str) -> int:
    """Records between start and end, times the mean size of the last ones, over all partitions."""
    topics = {name: count for name, count in log.topics().items() if name.startswith(root)}
    partitions = [Partition(name, index) for name, count in topics.items() for index in range(count)]
    starts, ends = log.offsets(partitions, "start"), log.offsets(partitions, "end")
    return round(
        sum(
            (ends[one] - starts[one]) * _mean_size(log.scan(one, max(starts[one], ends[one] - LOOKED_AT)))
            for one in partitions
            if ends[one] > starts[one]
        )
    )


def _mean_size(messages: Iterable[Message]) -> float:
    sizes = [len(one.value() or b"") + len(one.key() or b"") + RECORD_OVERHEAD_BYTES for one in messages]
    return sum(sizes) / len(sizes) if sizes else 0.0

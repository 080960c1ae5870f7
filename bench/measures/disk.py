"""Kafka's disk against what the protocol keeps: bytes on disk of the job's own topics, and between start and end."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, slope
from bench.rig.scale import Scale
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log

RATE_PER_S = 20_000
KEYS = 10_000
SAMPLES = 40
WARM_UP_SHARE = 0.3
LOOKED_AT = 50
RECORD_OVERHEAD_BYTES = 12
"""Size of a record in a batch beside its content, about: lengths, deltas and attributes."""


def disk(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Sampled over `scale.minutes`; the first third, in which the first segments fill, is left out."""
    topic = f"bench-{name}"
    cluster.create(topic)
    samples: list[tuple[float, int, int]] = []
    with cluster.running(jobs.CHAIN, topic, name=name) as job:
        job.await_running()
        root = cluster.topics.job(job.plan.job, job.plan.generation).root + "."
        keeping = _Kept(cluster.log, root)
        feeder = Feeder(
            cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
        )
        with feeder:
            started = time.monotonic()
            while (passed_s := time.monotonic() - started) < scale.minutes * 60:
                job.watch(scale.minutes * 60 / SAMPLES)
                used, kept = _used(cluster.folder, root), keeping.bytes()
                samples.append((passed_s / 60, used, kept))
                cluster.say(f"  {passed_s / 60:.1f} min: {used / 2**20:,.1f} MiB on disk, {kept / 2**20:,.1f} MiB kept")
            lag = len(feeder.sent_ms) - job.records
    settled = samples[int(len(samples) * WARM_UP_SHARE) :]
    return {
        "max_ratio": round(max(used / max(kept, 1) for _, used, kept in settled), 2),
        "max_disk_mib": round(max(used for _, used, _ in settled) / 2**20, 1),
        "max_kept_mib": round(max(kept for _, _, kept in settled) / 2**20, 1),
        "slope_mib_per_min": round(slope([(at, used / 2**20) for at, used, _ in settled]), 2),
        "records_behind": lag,
    }


def _used(folder: Path, root: str) -> int:
    """Bytes of disk blocks in the broker's folders of these topics, whatever the files' lengths."""
    found = 0
    for path, _, files in os.walk(folder / "kafka"):
        if Path(path).name.startswith(root):
            found += sum(blocks(Path(path, name)) for name in files)
    return found


def blocks(file: Path) -> int:
    """Bytes of disk blocks of a file, whatever its length; 0 if it is deleted."""
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:  # deleted meanwhile
        return 0


class _Kept:
    """Bytes between start and end of each partition: the records there times the mean size of the last ones.

    Of a compacted one only the newest record of each key counts, and every key is among the last: between its start and
    end are mostly offsets of records that are gone.
    """

    def __init__(self, log: Log, root: str) -> None:
        self._log, self._root = log, root
        self._compacted = (f"{root}progress", f"{root}delivered")
        self._sizes: dict[Partition, float] = {}

    def bytes(self) -> int:
        topics = {name: count for name, count in self._log.topics().items() if name.startswith(self._root)}
        partitions = [Partition(name, index) for name, count in topics.items() for index in range(count)]
        starts, ends = self._log.offsets(partitions, "start"), self._log.offsets(partitions, "end")
        filled = [one for one in partitions if ends[one] > starts[one]]
        return round(sum(self._bytes(one, starts[one], ends[one]) for one in filled))

    def _bytes(self, partition: Partition, start: int, end: int) -> float:
        """Bytes of the records; the former sizes count where no record could be read, because the log was trimmed
        meanwhile.
        """
        sizes: list[int] = []
        newest: dict[bytes | None, int] = {}
        with suppress(StateCorrupted):
            for one in self._log.scan(partition, max(start, end - LOOKED_AT)):
                sizes.append(len(one.value() or b"") + len(one.key() or b"") + RECORD_OVERHEAD_BYTES)
                newest[one.key()] = sizes[-1]
        if partition.topic in self._compacted:
            return sum(newest.values())
        if sizes:
            self._sizes[partition] = sum(sizes) / len(sizes)
        return (end - start) * self._sizes.get(partition, 0.0)

"""Kafka's disk: against what the protocol keeps, and whether each topic of a small job stays flat."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures, slope
from bench.rig.followed import Followed
from bench.rig.scale import Scale
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.log.protocol import Log

SAMPLES = 40
WARM_UP_SHARE = 0.3
LOOKED_AT = 50
RECORD_OVERHEAD_BYTES = 12
"""Size of a record in a batch beside its content, about: lengths, deltas and attributes."""
HORIZON_S = 60
"""Horizon of the job's cuts, so that a run of minutes goes through it several times."""
SLACK_MIB = 1.0
"""MiB by which the maximum of a topic may grow from one third to the next: its size is a sawtooth."""
_PARTITION = re.compile(r"(.+)-\d+")
_JOB = re.compile(r"(.+)\.\d+-[0-9a-f]{6}\.(.+)")
DAY_MIN = 24 * 60


@dataclass(slots=True)
class Fed:
    """A job that runs while records come to its topic.

    behind: records that the job has not taken in at the end.
    """

    cluster: BenchCluster
    job: Followed
    topic: str
    behind: int = 0

    def sampled(self, scale: Scale, rate_per_s: int, keys: int) -> Iterator[float]:
        """Feeds the topic for `scale.minutes`; the minutes passed, at each sample."""
        self.job.await_running()
        appender = self.cluster.users_appender("feeder")
        feeder = Feeder(appender, self.topic, rate_per_s, lambda i: jobs.record(i, keys, int(now_ms())))
        with feeder:
            started = time.monotonic()
            while (passed_s := time.monotonic() - started) < scale.minutes * 60:
                self.job.watch(scale.minutes * 60 / SAMPLES)
                yield passed_s / 60
            self.behind = len(feeder.sent_ms) - self.job.records


# -- against what is kept ---------------------------------------------------------------------------------------------


def disk(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Sampled over `scale.minutes`; the first third, in which the first segments fill, is left out."""
    topic = f"bench-{name}"
    cluster.create(topic)
    samples: list[tuple[float, int, int]] = []
    with cluster.running(jobs.CHAIN, topic, name=name) as job:
        root = cluster.topics.job(job.plan.job, job.plan.generation).root + "."
        keeping, fed = _Kept(cluster.log, root), Fed(cluster, job, topic)
        for minute in fed.sampled(scale, 20_000, 10_000):
            used, kept = _used(cluster.folder, root), keeping.bytes()
            samples.append((minute, used, kept))
            cluster.say(f"  {minute:.1f} min: {used / 2**20:,.1f} MiB on disk, {kept / 2**20:,.1f} MiB kept")
    settled = samples[int(len(samples) * WARM_UP_SHARE) :]
    return {
        "max_ratio": round(max(used / max(kept, 1) for _, used, kept in settled), 2),
        "max_disk_mib": round(max(used for _, used, _ in settled) / 2**20, 1),
        "max_kept_mib": round(max(kept for _, _, kept in settled) / 2**20, 1),
        "slope_mib_per_min": round(slope([(at, used / 2**20) for at, used, _ in settled]), 2),
        "records_behind": fed.behind,
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
        self._log = log
        self._root = root
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


# -- topic by topic ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grown:
    """A topic's most in the last third of a run, and by how much that is more than in the third before."""

    most_mib: float
    per_day_mib: float
    flat: bool


def growth(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Sampled over `scale.minutes`. Figures: the topics that are not flat, and together by how much they grow."""
    topic = f"bench-{name}"
    cluster.create(topic)
    with cluster.running(jobs.SHORT, topic, name=name, horizon_s=HORIZON_S) as job:
        fed = Fed(cluster, job, topic)
        samples = [
            (minute, _by_topic(cluster.folder / "kafka", {topic, f"{topic}-out"}))
            for minute in fed.sampled(scale, 1_000, 1_000)
        ]
    found = {one: grown(samples, one) for one in sorted({one for _, sizes in samples for one in sizes})}
    for one, how in sorted(found.items(), key=lambda item: -item[1].most_mib):
        verdict = "flat" if how.flat else f"grows by {how.per_day_mib:,.0f} MiB a day"
        cluster.say(f"  {one:40} {how.most_mib:8.2f} MiB at most, {verdict}")
    cluster.say(json.dumps({"minutes": [round(at, 2) for at, _ in samples], "bytes": _series(samples, found)}))
    return {
        "topics_not_flat": sum(not one.flat for one in found.values()),
        "grows_mib_per_day": round(sum(one.per_day_mib for one in found.values() if not one.flat), 1),
        "max_disk_mib": round(max(sum(sizes.values()) for _, sizes in samples) / 2**20, 1),
        "records_behind": fed.behind,
    }


def grown(samples: Sequence[tuple[float, Mapping[str, int]]], topic: str) -> Grown:
    """Growth of a topic, without the first third of the samples, in which the first segments fill.

    samples: (minutes, bytes by topic).
    """
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    was, now = (max(sizes.get(topic, 0) for _, sizes in part) / 2**20 for part in (before, after))
    minutes = (samples[-1][0] - samples[third][0]) / 2
    flat = now - was <= SLACK_MIB
    return Grown(round(now, 2), 0.0 if flat else round((now - was) / minutes * DAY_MIN, 1), flat)


def _series(samples: Sequence[tuple[float, Mapping[str, int]]], topics: Mapping[str, Grown]) -> dict[str, list[int]]:
    return {topic: [sizes.get(topic, 0) for _, sizes in samples] for topic in topics}


def _by_topic(folder: Path, without: set[str]) -> dict[str, int]:
    """Blocks that the broker's folders take, by topic; of a job's without its name and generation."""
    found: dict[str, int] = defaultdict(int)
    for path, _, files in os.walk(folder):
        named = _PARTITION.fullmatch(Path(path).name)
        if named is None or named[1] in without or not any(name.endswith(".log") for name in files):
            continue
        own = _JOB.fullmatch(named[1])
        found[f"<job>.{own[2]}" if own else named[1]] += sum(blocks(Path(path, name)) for name in files)
    return dict(found)

"""Growth of a small job on Kafka's disk: bytes of each topic over time, and whether they stay flat."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measures.disk import blocks
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.scale import Scale

RATE_PER_S, KEYS = 1_000, 1_000
HORIZON_S = 60
"""Horizon of the job's cuts, so that a run of minutes goes through it several times."""
SAMPLES = 80
SLACK_MIB = 1.0
"""MiB by which the maximum of a topic may grow from one third to the next: its size is a sawtooth."""
_PARTITION = re.compile(r"(.+)-\d+")
_JOB = re.compile(r"(.+)\.\d+-[0-9a-f]{6}\.(.+)")
DAY_MIN = 24 * 60


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
    samples: list[tuple[float, Mapping[str, int]]] = []
    with cluster.running(jobs.SHORT, topic, name=name, horizon_s=HORIZON_S) as job:
        job.await_running()
        feeder = Feeder(
            cluster.users_appender("feeder"), topic, RATE_PER_S, lambda i: jobs.record(i, KEYS, int(now_ms()))
        )
        with feeder:
            started = time.monotonic()
            while (passed_s := time.monotonic() - started) < scale.minutes * 60:
                job.watch(scale.minutes * 60 / SAMPLES)
                samples.append((passed_s / 60, _by_topic(cluster.folder / "kafka", {topic, f"{topic}-out"})))
            lag = len(feeder.sent_ms) - job.records
    found = {one: grown(samples, one) for one in sorted({one for _, sizes in samples for one in sizes})}
    for one, how in sorted(found.items(), key=lambda item: -item[1].most_mib):
        verdict = "flat" if how.flat else f"grows by {how.per_day_mib:,.0f} MiB a day"
        cluster.say(f"  {one:40} {how.most_mib:8.2f} MiB at most, {verdict}")
    cluster.say(json.dumps({"minutes": [round(at, 2) for at, _ in samples], "bytes": _series(samples, found)}))
    return {
        "topics_not_flat": sum(not one.flat for one in found.values()),
        "grows_mib_per_day": round(sum(one.per_day_mib for one in found.values() if not one.flat), 1),
        "max_disk_mib": round(max(sum(sizes.values()) for _, sizes in samples) / 2**20, 1),
        "records_behind": lag,
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

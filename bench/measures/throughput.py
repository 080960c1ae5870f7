"""Throughput: how fast a job gets through what waits for it. The generator is off meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.figures import Figures
from bench.rig.followed import MeasureFailed, Reached
from bench.rig.scale import Scale


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records a second, from the first batches to the last, and CPU seconds of the workers per million records.

    partitions: of the topic, and source tasks. per_ms: records in a millisecond of event time. topics: suffixes of
    those that share the records. keyed: records have a key on Kafka, which peers need and ours does not look at.
    burst, pause_ms: after so many records, event time leaps so far ahead; 0: never.
    """

    job: Template
    keys: int
    partitions: int = 1
    per_ms: int = 1
    topics: tuple[str, ...] = ("",)
    keyed: bool = False
    burst: int = 0
    pause_ms: int = 0

    def __call__(self, cluster: BenchCluster, name: str, scale: Scale) -> Figures:
        topic, each = f"bench-{name}", scale.records // len(self.topics)
        start = int(now_ms()) - self._time_ms(scale.records)
        for suffix in self.topics:
            cluster.create(topic + suffix, partitions=self.partitions)
            cluster.preload(
                topic + suffix, each, self.keys, lambda i: start + self._time_ms(i), self.partitions, keyed=self.keyed
            )
        cpu_s = cluster.cpu_s()
        with cluster.running(self.job, topic, name=name, tasks=self.partitions) as job:
            job.await_records(each * len(self.topics))
            spent_s = cluster.cpu_s() - cpu_s
            reached = job.reached
        return {
            "records_per_s": round(per_second(reached)),
            "cpu_s_per_million": round(spent_s / each / len(self.topics) * 1e6, 2),
        }

    def _time_ms(self, index: int) -> int:
        """Time of a record, in milliseconds since the first one."""
        leaps = index // self.burst * self.pause_ms if self.burst else 0
        return index // self.per_ms + leaps


def per_second(reached: list[Reached]) -> float:
    """Records per second from the first progress to the last, without the records before the first. Raises
    MeasureFailed.
    """
    known = [one for one in reached if one.records > 0]
    took_ms = known[-1].time_ms - known[0].time_ms
    if took_ms <= 0:
        raise MeasureFailed("it was over before it could be timed: more --records are needed")
    return (known[-1].records - known[0].records) / took_ms * 1000

"""CPU that a cluster has used so far, by what its processes are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import BenchCluster
from bench.machine import cpu_s


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds: of the brokers, of the workers, and of all that the supervisor has started."""

    brokers: float
    workers: float
    all: float

    @classmethod
    def of(cls, cluster: BenchCluster) -> Spent:
        supervisor, known = cluster.supervisor(), cluster.files.cluster()
        assert supervisor is not None
        assert known is not None
        return cls(
            sum(map(cpu_s, known.kafka_pids)), cluster.cpu_s(), sum(map(cpu_s, (supervisor, *_below(supervisor))))
        )

    @property
    def services(self) -> float:
        """What decides and supervises: controller, recovery replicas, supervisor."""
        return self.all - self.brokers - self.workers


def _below(pid: int) -> Iterator[int]:
    """The children of a process, and theirs."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _below(child)

"""CPU that a cluster has used so far, by kind of process."""

from __future__ import annotations

from dataclasses import dataclass

from bench.rig.cluster import BenchCluster
from bench.rig.machine import cpu_s, trees_cpu_s


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
        return cls(sum(map(cpu_s, known.kafka_pids)), cluster.cpu_s(), trees_cpu_s([supervisor]))

    @property
    def services(self) -> float:
        """CPU of deciding and supervising: controller, recovery replicas, supervisor."""
        return self.all - self.brokers - self.workers

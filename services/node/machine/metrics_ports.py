"""Ports at which the processes of a cluster on this machine serve their metrics: each has one of its own."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MOST = 320
"""Processes that a cluster on one machine may have: recovery replicas, controller, workers and Spark drivers."""


class Target(msgspec.Struct, frozen=True):
    """A process as Prometheus reads it from a file (`file_sd_configs`)."""

    targets: tuple[str, ...]
    labels: dict[str, str]


class MetricsPorts:
    """Assigns ports to names, from the first port on, in the order of requests.

    Args:
        first: the first port; 0: no process serves metrics.
        names: names that get the first ports.
    """

    def __init__(self, first: int, address: str, names: Iterable[str]) -> None:
        self._first = first
        self._address = address
        self._ports: dict[str, int] = {}
        for name in names:
            self.environment(name)

    def environment(self, name: str) -> dict[str, str]:
        """Environment variables for each run of a process of this name."""
        port = self._ports.setdefault(name, self._first + len(self._ports)) if self._first else 0
        return {"HOLDFAST_METRICS_PORT": str(port), "HOLDFAST_METRICS_ADDRESS": self._address}

    @property
    def where(self) -> dict[str, str]:
        """Address of each process, by its name."""
        return {name: f"http://{self._address}:{port}/metrics" for name, port in self._ports.items()}

    @property
    def targets(self) -> list[Target]:
        return [Target((f"{self._address}:{port}",), {"process": name}) for name, port in self._ports.items()]

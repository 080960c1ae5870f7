"""The processes of a cluster: the module that each of them runs, and its environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.services.node.machine.artifacts import ArtifactSet
from holdfast.services.node.machine.metrics_ports import MetricsPorts
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.naming import Naming
from holdfast.services.node.settings import Settings

Own = Callable[[str], dict[str, str]]
"""A member's own part of the environment, given the name of the run."""


class MakeMember(Protocol):
    """Makes the member of that name, which runs a module; adds the part of the environment that all members have."""

    def __call__(self, name: str, module: str, own: Own) -> Member: ...


class Lineup:
    """Makes the members. state_dir: where workers keep their images. metrics: the port of each."""

    def __init__(self, settings: Settings, naming: Naming, data_dir: Path, member: MakeMember) -> None:
        self._settings, self._naming, self._data_dir, self._member = settings, naming, data_dir, member
        self.state_dir = data_dir / "state"
        first = [naming.name(f"recovery-{number}") for number in range(1, settings.recoveries + 1)]
        self.metrics = MetricsPorts(settings.metrics_port, settings.metrics_address, first)

    def controller(self) -> Member:
        name = self._naming.name("controller")
        own = {
            "HOLDFAST_TRIM_AFTER_S": str(self._settings.trim_after_s),
            "HOLDFAST_KEEP_ENDED_JOBS": str(self._settings.keep_ended_jobs),
        }
        return self._member(
            name, "holdfast.services.controller", lambda run: {**own, "HOLDFAST_CONTROLLER": f"{name}-{run}"}
        )

    def recovery(self, number: int) -> Member:
        name = self._naming.name(f"recovery-{number}")
        own = {
            "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(self._settings.heartbeat_interval_ms),
            "HOLDFAST_GRACE": self._settings.grace,
            "HOLDFAST_BALANCE_CALM_S": str(self._settings.balance_calm_s),
            "HOLDFAST_REASSIGN": self._settings.reassign,
            "HOLDFAST_REASSIGN_LEAST_MS": str(self._settings.reassign_least_ms),
            "HOLDFAST_TRIM_AFTER_S": str(self._settings.trim_after_s),
        }
        return self._member(
            name, "holdfast.services.recovery", lambda run: {**own, "HOLDFAST_RECOVERY": f"{name}-{run}"}
        )

    def worker(self, number: int) -> Member:
        name = self._naming.name(f"worker-{number}")
        own = {
            "HOLDFAST_WORKER": name,
            "HOLDFAST_ZONE": self._naming.zone(number),
            "HOLDFAST_SLOTS": str(self._settings.slots),
            "HOLDFAST_STANDBYS": str(self._settings.standbys),
            "HOLDFAST_MEMORY_MB": str(self._settings.memory_mb),
            "HOLDFAST_STATE_DIR": str(self.state_dir),
            "HOLDFAST_STATE_CACHE_MB": str(self._settings.state_cache_mb),
            "HOLDFAST_STATE_BUFFER_MB": str(self._settings.state_buffer_mb),
            **self._of_hosts,
        }
        return self._member(name, "holdfast.services.worker", lambda run: {**own, "HOLDFAST_INCARNATION": run})

    @property
    def _of_hosts(self) -> dict[str, str]:
        """Environment that workers and Spark drivers have in common."""
        return {
            "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(self._settings.heartbeat_interval_ms),
            "HOLDFAST_LEAVE_S": str(self._settings.leave_s),
            "HOLDFAST_LOOP_PATIENCE_S": str(self._settings.loop_patience_s),
            "HOLDFAST_CALL_PATIENCE_S": str(self._settings.call_patience_s),
        }

    def driver(self, number: int, jars: ArtifactSet) -> Member:
        name = self._naming.name(f"spark-{number}")
        own = {
            "HOLDFAST_DRIVER": name,
            "HOLDFAST_ZONE": self._naming.zone(number),
            "HOLDFAST_SPARK_DIR": os.environ.get("HOLDFAST_SPARK_DIR") or str(self._data_dir / "spark"),
            "HOLDFAST_SPARK_JARS": ",".join(str(jars.directory / jar) for jar in sorted(jars.sums)),
            "HOLDFAST_SPARK_MASTER": self._settings.spark_master,
            "HOLDFAST_SPARK_MEMORY": self._settings.spark_memory,
            "HOLDFAST_SPARK_EXECUTOR_MEMORY": self._settings.spark_executor_memory,
            "HOLDFAST_SPARK_CORES": str(self._settings.spark_cores),
            "HOLDFAST_SPARK_KEEP_BATCHES": str(self._settings.spark_keep_batches),
            **self._of_hosts,
        }
        return self._member(name, "holdfast.services.spark", lambda run: {**own, "HOLDFAST_INCARNATION": run})

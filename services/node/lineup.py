"""The processes of a cluster: the module that each of them runs, and its environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.services.diagnostics.settings import PREFIX
from holdfast.services.node.machine.artifacts import ArtifactSet
from holdfast.services.node.machine.metrics_ports import MetricsPorts
from holdfast.services.node.members.members import Member
from holdfast.services.node.members.naming import Naming
from holdfast.services.node.settings import HANDED_ON, Settings

Own = Callable[[str], dict[str, str]]
"""A member's own part of the environment, given the name of the run."""


class MakeMember(Protocol):
    """Makes the member of that name, which runs a module; adds the part of the environment that all members have."""

    def __call__(self, name: str, module: str, own: Own) -> Member: ...


class Lineup:
    """Makes the members.

    state_dir: directory of the workers' images.
    metrics: port of each member's metrics.
    """

    def __init__(self, settings: Settings, naming: Naming, data_dir: Path, member: MakeMember) -> None:
        self._settings, self._naming, self._data_dir, self._member = settings, naming, data_dir, member
        self.state_dir = data_dir / "state"
        first = [naming.name(f"recovery-{number}") for number in range(1, settings.recoveries + 1)]
        self.metrics = MetricsPorts(settings.metrics_port, settings.metrics_address, first)

    def controller(self) -> Member:
        name = self._naming.name("controller")
        own = self._handed_on("controller")
        return self._member(
            name, "holdfast.services.controller", lambda run: {**own, "HOLDFAST_CONTROLLER": f"{name}-{run}"}
        )

    def recovery(self, number: int) -> Member:
        name = self._naming.name(f"recovery-{number}")
        own = self._handed_on("recovery")
        return self._member(
            name, "holdfast.services.recovery", lambda run: {**own, "HOLDFAST_RECOVERY": f"{name}-{run}"}
        )

    def worker(self, number: int) -> Member:
        name = self._naming.name(f"worker-{number}")
        own = {
            "HOLDFAST_WORKER": name,
            "HOLDFAST_ZONE": self._naming.zone(number),
            "HOLDFAST_STATE_DIR": str(self.state_dir),
            **self._handed_on("worker"),
        }
        return self._member(name, "holdfast.services.worker", lambda run: {**own, "HOLDFAST_INCARNATION": run})

    def _handed_on(self, kind: str) -> dict[str, str]:
        """Environment of a process of that kind, by its settings that the cluster has, too."""
        names = {name for options in HANDED_ON[kind] for name in options.model_fields}
        return {f"{PREFIX}{name.upper()}": str(getattr(self._settings, name)) for name in sorted(names)}

    def driver(self, number: int, jars: ArtifactSet) -> Member:
        name = self._naming.name(f"spark-{number}")
        own = {
            "HOLDFAST_DRIVER": name,
            "HOLDFAST_ZONE": self._naming.zone(number),
            "HOLDFAST_SPARK_DIR": os.environ.get("HOLDFAST_SPARK_DIR") or str(self._data_dir / "spark"),
            "HOLDFAST_SPARK_JARS": ",".join(str(jars.directory / jar) for jar in sorted(jars.sums)),
            **self._handed_on("spark"),
        }
        return self._member(name, "holdfast.services.spark", lambda run: {**own, "HOLDFAST_INCARNATION": run})

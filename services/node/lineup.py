"""The processes of a cluster: the module that each of them runs, and its environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from holdfast.services.diagnostics.settings import PREFIX
from holdfast.services.hosting.settings import new_incarnation
from holdfast.services.node.machine.artifacts import ArtifactSet
from holdfast.services.node.machine.cluster_files import ClusterFiles
from holdfast.services.node.machine.metrics_ports import MetricsPorts
from holdfast.services.node.machine.processes import Launch, Started
from holdfast.services.node.members.members import Ended, Member
from holdfast.services.node.members.naming import Naming
from holdfast.services.node.settings import HANDED_ON, Settings

FAREWELL_S = 5.0
"""Beyond HOLDFAST_LEAVE_S, for a worker's last words."""

Own = Callable[[str], dict[str, str]]
"""A member's own part of the environment, given the name of the run."""


class Lineup:
    """Makes the members.

    state_dir: directory of the workers' images.
    metrics: port of each member's metrics.

    Args:
        served: true if one service runs here, in the supervisor's log.
        shared: the part of the environment that all members have, as it is at each start.
        ended: called when a run of a member has ended.
        launch: starts the processes.
    """

    def __init__(
        self,
        settings: Settings,
        naming: Naming,
        files: ClusterFiles,
        *,
        served: bool,
        shared: Callable[[], Mapping[str, str]],
        ended: Ended,
        launch: Callable[[Launch], Started],
    ) -> None:
        self.settings = settings
        self._naming = naming
        self._files = files
        self._served = served
        self._shared = shared
        self._ended = ended
        self._launch = launch
        self.state_dir = files.data_dir / "state"
        first = [naming.name(f"recovery-{number}") for number in range(1, settings.recoveries + 1)]
        self.metrics = MetricsPorts(settings.metrics_port, settings.metrics_address, first)

    def controller(self) -> Member:
        name = self._naming.name("controller")
        own = self._handed_on("controller")
        return self.member(
            name, "holdfast.services.controller", lambda run: {**own, "HOLDFAST_CONTROLLER": f"{name}-{run}"}
        )

    def recovery(self, number: int) -> Member:
        name = self._naming.name(f"recovery-{number}")
        own = self._handed_on("recovery")
        return self.member(
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
        return self._host(name, "holdfast.services.worker", own)

    def _handed_on(self, kind: str) -> dict[str, str]:
        """Environment of a process of that kind, by its settings that the cluster has, too."""
        names = {name for options in HANDED_ON[kind] for name in options.model_fields}
        return {f"{PREFIX}{name.upper()}": str(getattr(self.settings, name)) for name in sorted(names)}

    def driver(self, number: int, jars: ArtifactSet) -> Member:
        name = self._naming.name(f"spark-{number}")
        own = {
            "HOLDFAST_DRIVER": name,
            "HOLDFAST_ZONE": self._naming.zone(number),
            "HOLDFAST_SPARK_DIR": os.environ.get("HOLDFAST_SPARK_DIR") or str(self._files.data_dir / "spark"),
            "HOLDFAST_SPARK_JARS": ",".join(str(jars.directory / jar) for jar in sorted(jars.sums)),
            **self._handed_on("spark"),
        }
        return self._host(name, "holdfast.services.spark", own)

    def _host(self, name: str, module: str, own: Mapping[str, str]) -> Member:
        """A worker or driver. One that is stopped alone hands its units over; in a whole cluster all end now."""
        host = self.member(name, module, lambda run: {**own, "HOLDFAST_INCARNATION": run})
        if self._served:
            host.stop_s, host.hands_over = self.settings.leave_s + FAREWELL_S, True
        else:
            host.ends_by = signal.SIGINT
        return host

    def member(self, name: str, module: str, own: Own) -> Member:
        """The member of that name, which runs a module."""
        metrics = self.metrics.environment(name)
        made = Member(
            name,
            module,
            None if self._served else self._files.logs / f"{name}.log",
            environment=lambda run: {**self._shared(), **metrics, **own(run)},
            new_run=new_incarnation,
            ended=self._ended,
            limits=self.settings.log_limits,
        )
        made.launch = self._launch
        return made

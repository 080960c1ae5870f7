"""Time until processes know the state of a cluster after an hour, and after a month: both are to take as long."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.rig.aged import Aged
from bench.rig.cluster import BenchCluster, run_command
from bench.rig.figures import Figures
from bench.rig.followed import DEADLINE_S, MeasureFailed
from bench.rig.machine import cpu_s
from bench.rig.scale import Scale
from holdfast.schemas import commands, events, heartbeats
from holdfast.schemas.commands import Command
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.node.machine.processes import Child
from holdfast.services.node.members.readiness import NO_JOB

PROCESSES = ("controller", "recovery", "worker", "command")
HOUR, MONTH = 1, 30 * 24
BEAT_S = 0.02


def startup(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Seconds from the start of each process until it knows, after an hour and after a month."""
    kinds = {
        "hour": Aged(cluster, f"{name}-hour", HOUR),
        "month": Aged(cluster, f"{name}-month", round(MONTH * min(1.0, scale.history / 150_000))),
    }
    found: Figures = {}
    for kind, history in kinds.items():
        history.write()
        sizes = history.sizes()
        cluster.say(f"  {kind}: {sizes}")
        found |= {f"{kind}_{topic}": size for topic, size in sizes.items()}
        for process, took_s, worked_s in _Started(cluster, history.name, history.topics).measured():
            found |= {f"{kind}_{process}_s": round(took_s, 2), f"{kind}_{process}_cpu_s": round(worked_s, 2)}
    for figure in (name for process in PROCESSES for name in (process, f"{process}_cpu")):
        found[f"{figure}_month_over_hour"] = round(found[f"month_{figure}_s"] / found[f"hour_{figure}_s"], 2)
    return found


@dataclass(frozen=True, slots=True)
class _Started:
    """Processes of the cluster `name`, which is beside the one that runs."""

    cluster: BenchCluster
    name: str
    topics: ClusterTopics

    def measured(self) -> Iterator[tuple[str, float, float]]:
        """Each process alone: seconds, and CPU seconds. Raises MeasureFailed for one that is not ready in time."""
        yield "controller", *self._took_s("controller", self._answers)
        yield "recovery", *self._took_s("recovery", self._has_caught_up)
        yield "worker", *self._took_s("worker", self._beats)
        began, worked = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        where = {"HOLDFAST_CLUSTER": self.name}
        run_command("workers", "--kafka", self.cluster.bootstrap_servers, variables=where)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked_s = after.ru_utime + after.ru_stime - worked.ru_utime - worked.ru_stime
        yield "command", time.monotonic() - began, worked_s

    def _took_s(self, service: str, ready: Callable[[Path], Callable[[], bool]]) -> tuple[float, float]:
        log = self.cluster.folder / f"{self.name}-{service}.log"
        is_ready = ready(log)
        variables = {
            "HOLDFAST_KAFKA": self.cluster.bootstrap_servers,
            "HOLDFAST_CLUSTER": self.name,
            "HOLDFAST_STATE_DIR": str(self.cluster.folder / self.name),
            "HOLDFAST_METRICS_PORT": "0",
        }
        began = time.monotonic()
        child = Child([sys.executable, "-m", f"holdfast.services.{service}"], log=log, environment=variables)
        try:
            while not is_ready():
                if time.monotonic() - began > DEADLINE_S or child.returncode is not None:
                    raise MeasureFailed(f"{service} is not ready: {log.read_text()[-500:]}")
                time.sleep(BEAT_S)
            return time.monotonic() - began, cpu_s(child.pid)
        finally:
            child.stop(1.0)

    def _answers(self, _log: Path) -> Callable[[], bool]:
        """The controller refuses a command for a job that cannot be."""
        reader, told, probe = self.cluster.log.reader("told"), Partition(self.topics.events, 0), f"{NO_JOB}{self.name}"
        reader.assign(self.cluster.log.offsets([told], "end"))
        self.cluster.appender.append(Partition(self.topics.submit, 0), commands.encode(Command("resume", probe)))
        self.cluster.appender.flush(DEADLINE_S)

        def heard() -> bool:
            found = [events.decode(m.value() or b"") for chunk in reader.poll(0) for m in chunk.messages]
            return any(event.job == probe for event in found)

        return heard

    def _has_caught_up(self, log: Path) -> Callable[[], bool]:
        return lambda: log.exists() and "caught up" in log.read_text()

    def _beats(self, _log: Path) -> Callable[[], bool]:
        """Returns a check that is true once a worker's heartbeats report the newest assignment."""
        reader, beats = self.cluster.log.reader("beats"), Partition(self.topics.heartbeats, 0)
        reader.assign(self.cluster.log.offsets([beats], "end"))
        last = self.cluster.log.offsets([Partition(self.topics.assignments, 0)], "end").popitem()[1] - 1

        def heard() -> bool:
            found = [heartbeats.decode(m.value() or b"") for chunk in reader.poll(0) for m in chunk.messages]
            return any(isinstance(beat, Heartbeat) and beat.decided >= last for beat in found)

        return heard

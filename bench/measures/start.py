"""Time until processes have read the state of the cluster, with short logs and with long ones."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.rig.cluster import POLL_EVERY, BenchCluster, now_ms, run_command
from bench.rig.figures import Figures
from bench.rig.followed import DEADLINE_S, MeasureFailed
from bench.rig.machine import cpu_s
from bench.rig.scale import Scale
from holdfast.schemas import assignments, commands, events, heartbeats
from holdfast.schemas.assignments import PRIMARY, Assignment, Change, Copy, Flags, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.snapshots import Pace
from holdfast.services.decisions.standings import EVERY, MANY, Standings
from holdfast.services.node.machine.processes import Child
from holdfast.services.node.members.readiness import NO_JOB

PROCESSES = ("controller", "recovery", "worker", "command")
UNITS = 40
SHORT = 1_000
RECORDS_PER_COMMAND = 50
LONG_AGO_MS = 3_600_000
BEAT_S = 0.02
_SUSPENDED = Flags(state="synced", process=False, send=False, commit=False, checkpoint_target=True)


def start(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Seconds from the start of each process until it knows; few records, many, and many without snapshots."""
    kinds = {
        "short": History(cluster, f"{name}-short", SHORT),
        "long": History(cluster, f"{name}-long", scale.history),
        "bare": History(cluster, f"{name}-bare", scale.history, snapshots=False),
    }
    found: Figures = {}
    for kind, history in kinds.items():
        cluster.say(f"  {kind}: {history.records:,} assignments and events")
        history.write()
        for process, took_s, worked_s in history.measured():
            found |= {f"{kind}_{process}_s": round(took_s, 2), f"{kind}_{process}_cpu_s": round(worked_s, 2)}
    for figure in (name for process in PROCESSES for name in (process, f"{process}_cpu")):
        found[f"{figure}_long_over_short"] = round(found[f"long_{figure}_s"] / found[f"short_{figure}_s"], 2)
    return found


@dataclass(slots=True)
class History:
    """The topics of a cluster that ran for long, beside the one that runs: its units changed hands all the time."""

    cluster: BenchCluster
    name: str
    records: int
    snapshots: bool = True

    @property
    def topics(self) -> ClusterTopics:
        return ClusterTopics(self.name)

    def write(self) -> None:
        """Writes the logs; the last snapshot is somewhere before the end, as in any cluster. Raises Retriable."""
        appender, before_ms = self.cluster.appender, int(now_ms()) - LONG_AGO_MS
        self.cluster.log.create(self.topics.specs())
        for number, record in enumerate(self._assignments()):
            appender.append(Partition(self.topics.assignments, 0), assignments.encode(record), timestamp_ms=before_ms)
            event = Event(before_ms, "decided", job="bench", unit=f"count-{number % UNITS}", epoch=number)
            appender.append(Partition(self.topics.events, 0), events.encode(event), timestamp_ms=before_ms)
            if number % RECORDS_PER_COMMAND == 0:
                asked = commands.encode(Command("resume", "gone"))
                appender.append(Partition(self.topics.submit, 0), asked, timestamp_ms=before_ms)
            if number % POLL_EVERY == 0:
                appender.poll()
        appender.flush(DEADLINE_S)

    def _assignments(self) -> Iterator[Assignment]:
        """A takeover a record, and a snapshot where a recovery replica would write one."""
        standings, pace = Standings(), Pace(self.name, EVERY, MANY)
        for number in range(self.records):
            if self.snapshots and pace.due(standings.next, standings.snapshotted, len(standings)):
                snapshot = standings.snapshot()
                standings.check(number, snapshot)
                record = Assignment("bench", 0, (), snapshot)
            else:
                record = Assignment("bench", 0, (takeover(number, standings),))
            standings.read(number, record)
            yield record

    # -- what starts --------------------------------------------------------------------------------------------------

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


def takeover(number: int, standings: Standings) -> Change:
    """The next unit in turn is led by its other worker."""
    unit = unit_key("bench", "0-abcdef", f"count-{number % UNITS}")
    there = number // UNITS % 2
    copies = (Copy(f"worker-{1 + there}", "1", PRIMARY), Copy(f"worker-{2 - there}", "1", _SUSPENDED))
    return Change(unit, standings.assigned.epoch(unit) + 1, copies, "hybrid", "the primary is gone")

"""A simulated cluster: a broker, processes on it that die and come back, a user who feeds and asks."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from holdfast.schemas import assignments, commands, events, formats
from holdfast.schemas.assignments import Assignment
from holdfast.schemas.heartbeats import At, Exit, encode
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import OtherFormat, PositionGone, WorkerUnfit
from holdfast.services.kernel.protection.reassigning import HALF
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.link import Link, LinkAppender
from tests.simulation.kafka.names import TOPICS, profile_of
from tests.simulation.kafka.timeline import Timeline
from tests.simulation.observers.captures import Captures
from tests.simulation.observers.images import Images
from tests.simulation.observers.reassigned import Planned
from tests.simulation.processes.engine import SharedNotes
from tests.simulation.processes.feeds import Feed
from tests.simulation.processes.hosts import INJECTED, DriverProcess, Errors, HostProcess, WorkerProcess
from tests.simulation.processes.jobs import DrawnJob
from tests.simulation.processes.services import VERSIONS, ControllerProcess, Incarnation, Process, ReplicaProcess
from tests.simulation.profiles import PROFILES

NOTICE_US = (2_000, 30_000)
HUNG_MS = 200
"""Until a process that its watchdog has ended starts again."""
KILLED = -9
NEEDED = 2
"""Workers that turn, for a unit and its standby."""
OTHERWISE = "otherwise: "
"""Begins what a copy says that has met another version of its code: the history is over, and nothing is wrong."""
END_MS = 1_000_000
"""Later than anything."""


class Story:
    """Actions with their simulated times."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.lines: list[tuple[int, str]] = []

    def tell(self, what: str) -> None:
        self.lines.append((self._timeline.now_us, what))


UNEXPECTED = ("copy-faulted", "warm-up-failed")
"""Events of errors that nobody foresaw."""


class Cluster:
    """processes: the newest incarnation of each role. wrong: what a process raised or reported that it never may.

    deadly: units whose work ends every worker, from which batch on. deadly_lines: names of those whose tentative
    batches do. upgraded: with which versions workers start.
    planned: what was wrong with plans of standbys that move.
    accepted_us: when the user let the versions lead that ran then.
    held: topics that their user is replacing, and the records that wait meanwhile. healed_us: when all faults
    had ended.
    """

    def __init__(
        self,
        seed: str,
        job: DrawnJob,
        workers: dict[str, str],
        replicas: int,
        controllers: int,
        calm_ms: int | None = None,
        drivers: tuple[str, ...] = (),
    ) -> None:
        self.seed, self.job, self.calm_ms = seed, job, calm_ms
        self.timeline = Timeline()
        self.broker = Broker(self.timeline)
        self.story = Story(self.timeline)
        self.processes: dict[str, Process] = {}
        self.wrong: list[str] = []
        self.held: dict[str, list[Feed]] = {}
        self.deadly: dict[str, int] = {}
        self.deadly_lines = set[str]()
        self.errors = Errors()
        self.upgraded: dict[str, Mapping[str, str]] = {}
        self.accepted_us = -1
        self.old = set(workers) if profile_of(seed) == "formats" else set[str]()
        """Processes that read the first format alone."""
        self.healed_us: int | None = None
        self.images, self.captures = Images(), Captures(lambda: self.timeline.now_us)
        self.planned: list[str] = []
        self._zones, self._drivers = workers, drivers
        self._starts = 0
        profile = PROFILES[profile_of(seed)]
        self.notes = SharedNotes(in_kafka=profile.query_files)
        self.broker.short_lived = profile.short_lived
        self._slots = max(1, len(job.units) // len(workers)) if profile.fork else profile.slots
        self._reassigns = profile.reassigns
        self._costing = profile.reassigns or profile.adaptive or profile.budget
        most = Random(f"{seed}/standbys")
        self._standbys = {role: most.choice(profile.standbys or (-1,)) for role in workers}
        self.broker.create(TOPICS.specs())
        self.broker.create([TopicSpec(name, count) for name, count in job.topics.items()])
        self.broker.watch(Partition(TOPICS.events, 0), self._happened)
        self._user = Link("user", self.broker, self.timeline, Random(f"{seed}/user"))
        self._hand = LinkAppender(self._user)
        if profile.clocked or profile.asks or profile.updates:
            # Such a job is planned once all processes are known to be of this release; it is submitted at once.
            current = Assignment("user", self.timeline.time_ms, (), format=formats.NEWEST)
            self.broker.put(Partition(TOPICS.assignments, 0), assignments.encode(current), None, None)
        self.roles = (
            *workers,
            *(f"recovery-{number}" for number in range(replicas)),
            *(f"controller-{number}" for number in range(controllers)),
            *drivers,
        )
        for role in self.roles:
            self.start(role)

    # -- processes ----------------------------------------------------------------------------------------------------

    def start(self, role: str) -> None:
        """A new incarnation."""
        self._starts += 1
        own = f"{self.timeline.time_ms:013d}-{self._starts:03d}"
        if role not in self._zones and role not in self._drivers:
            own = f"{role}/{own}"
        random = Random(f"{self.seed}/{role}/{self._starts}")
        of = Incarnation(role, own, self.broker, self.timeline, random, self._raised)
        if role in self._zones:
            self.processes[role] = WorkerProcess(
                of, self._zones[role], self._slots, self.images, self.captures, self.deadly, self.deadly_lines,
                self.errors, self.upgraded.get(role, VERSIONS), self._costing,
                self._standbys[role], old=role in self.old,
            )  # fmt: skip
        elif role in self._drivers:
            self.processes[role] = DriverProcess(of, self.notes)
        elif role.startswith("recovery"):
            reassignment = Planned(HALF, least_ms=0.0, wrong=self.planned) if self._reassigns else None
            self.processes[role] = ReplicaProcess(of, self.calm_ms, reassignment)
        else:
            former = self.processes.get(role)
            self.processes[role] = ControllerProcess(of, 0 if former is None else former.clock_ahead_ms)
        process = self.processes[role]
        if isinstance(process, HostProcess):
            process.ends = lambda: self._ends_itself(process)
        if isinstance(process, WorkerProcess):
            process.dies = lambda at: self._dies(process, at)

    def crash(self, role: str, restart_ms: int, notice: bool, at: tuple[At, ...] = (), status: int = KILLED) -> None:
        """The process is gone; its parent says so, and at what, or nobody does, and starts it again later."""
        process = self.processes[role]
        if not process.alive:
            return
        process.crash()
        if notice and isinstance(process, HostProcess):
            self.timeline.after(self._user.random.randint(*NOTICE_US), lambda: self._notice(process, at, status))
        self.timeline.after(max(1, restart_ms) * 1000, lambda: self._restart(role, process))

    def _ends_itself(self, process: HostProcess) -> None:
        self.story.tell(f"{process.name} ends: its loop hangs")
        self.crash(process.name, HUNG_MS, notice=True)

    def _dies(self, process: WorkerProcess, at: At) -> None:
        self.story.tell(f"{process.name} ends itself at {at}")
        self.crash(process.name, HUNG_MS, notice=True, at=(at,), status=1)

    def hang(self, role: str) -> None:
        """The loop of a worker hangs for good, and nothing ends the process; unless too few workers would be left."""
        process = self.processes[role]
        turning = [one for one in self.workers() if not one.hung and one is not process]
        if isinstance(process, WorkerProcess) and process.alive and len(turning) >= NEEDED:
            process.stuck = process.hung = True

    def _restart(self, role: str, gone: Process) -> None:
        if self.processes[role] is gone:
            self.story.tell(f"{role} starts again")
            self.start(role)

    def _notice(self, process: Process, at: tuple[At, ...], status: int) -> None:
        record = encode(Exit(process.name, process.own, self.timeline.time_ms, status, at=at))
        self._hand.append(Partition(TOPICS.heartbeats, 0), record)

    def _raised(self, who: str, error: Exception) -> None:
        if isinstance(error, PositionGone | WorkerUnfit | OtherFormat):  # it ends, and its parent starts it again
            process = next(one for one in self.processes.values() if one.own == who)
            self.story.tell(f"{process.name} was caught by a trim: {error}")
            self.timeline.after(Random(f"{who}/caught").randint(*NOTICE_US), lambda: self._caught(process))
            return
        trace = "".join(traceback.format_exception(error)[-6:])
        self.wrong.append(f"raised: {who} {type(error).__name__}: {error}\n{trace}")

    def _caught(self, process: Process) -> None:
        if isinstance(process, HostProcess):
            self._notice(process, (), 1)
        self._restart(process.name, process)

    def _happened(self) -> None:
        """No copy gives up: nothing in these jobs is to fail."""
        last = self.broker.written[-1] if self.broker.written else None
        if last is None or last.partition.topic != TOPICS.events:
            return  # its topic was created
        event = events.decode(last.value)
        if event.kind == "snapshot-differs":
            self.wrong.append(f"snapshot-differs: {event.detail}")
        if event.kind == "copy-failed" and profile_of(self.seed) == "versions" and "same versions" in event.detail:
            self.wrong.append(f"{OTHERWISE}{event.detail}")
        elif event.kind == "copy-failed" or (event.kind in UNEXPECTED and INJECTED not in event.detail):
            self.wrong.append(f"failed copy: {event.unit} on {event.worker} #{event.epoch}: {event.detail}")

    def heal(self) -> None:
        """Faults end: every process runs and is reached."""
        self.healed_us = self.timeline.now_us
        self.upgraded.clear()
        self.errors.end()
        former, self.old = self.old, set()
        self.broker.find_leaders(list(self.broker.away))
        self.set_available(True)
        for role in self.roles:
            process = self.processes[role]
            other = isinstance(process, HostProcess) and (process.versions != VERSIONS or role in former)
            if isinstance(process, HostProcess) and (process.leaving or other):
                self.crash(role, END_MS, notice=True)
            if not process.alive:
                self.start(role)
                continue
            process.link.appended = lambda partition, value: None
            process.link.slowness, process.step_us = 1, 50
            process.link.lagging.clear()
            process.link.unserved.clear()
            process.link.cut(True, True)
            if isinstance(process, HostProcess):
                process.mute, process.stuck = False, process.hung
                process.late_us = 0
            if process.frozen:
                process.thaw()

    def set_available(self, available: bool) -> None:
        self.broker.available = available
        if available:
            self._kick()

    def lose_leaders(self, partitions: Collection[Partition], ms: int) -> None:
        """Nobody leads these partitions for so long."""
        self.broker.lose_leaders(partitions)
        self.timeline.after(ms * 1000, lambda: self.find_leaders(partitions))

    def find_leaders(self, partitions: Collection[Partition]) -> None:
        self.broker.find_leaders(partitions)
        self._kick()

    def _kick(self) -> None:
        self._user.kick()
        for process in self.processes.values():
            process.link.kick()

    # -- the user -----------------------------------------------------------------------------------------------------

    def submit(self, record: dict[str, Any]) -> None:
        """A job, or a command."""
        self._hand.append(Partition(TOPICS.submit, 0), commands.encode(record))

    @property
    def placed(self) -> bool:
        """Every unit of the job has had a leader, as far as a replica knows."""
        cores = [process.replica.core for process in self.replicas() if process.alive and process.replica is not None]
        known = (sum(bool(change.shown) for change in core.known.assigned.units().values()) for core in cores)
        return max(known, default=0) >= len(self.job.units)

    @property
    def asking(self) -> bool:
        """Something that the user has submitted is not answered yet."""
        return self._hand.waiting

    def grow(self, topic: str, more: int) -> list[int]:
        """Adds partitions to a topic; the new ones."""
        count = self.broker.topics()[topic]
        self.broker.grow(topic, count + more)
        return list(range(count, count + more))

    def feed(self, one: Feed, freely: bool = False) -> None:
        """Appends records; in a transaction they come with a marker behind them. freely: nothing holds them back."""
        if one.topic in self.held and not freely:
            self.held[one.topic].append(one)
            return
        where = Partition(one.topic, one.partition % self.broker.topics()[one.topic])
        if not self.broker.available or where in self.broker.away:
            self.timeline.after(50_000, lambda: self.feed(one, freely))
            return
        self.broker.author = "user"
        for value in one.values:
            self.broker.put(where, value, None, None)
        if one.committed:
            self.broker.skip(where)

    # -- what one sees ------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerProcess]:
        return [process for process in self.processes.values() if isinstance(process, WorkerProcess)]

    def hosts(self) -> list[HostProcess]:
        """Workers and Spark drivers."""
        return [process for process in self.processes.values() if isinstance(process, HostProcess)]

    def replicas(self) -> list[ReplicaProcess]:
        return [process for process in self.processes.values() if isinstance(process, ReplicaProcess)]

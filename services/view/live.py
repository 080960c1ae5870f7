"""A live view: a cluster's topics folded once, then followed record by record, for a process that shows them for long.

Source: JOBS "Details that scripts rely on". Its `Picture` holds the structs that the commands print with `--json`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from holdfast.schemas import events
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.view.cluster import OVER
from holdfast.services.view.costs import JobCosts
from holdfast.services.view.door import Door
from holdfast.services.view.happenings import Happening, happenings_of
from holdfast.services.view.incidents import IncidentLine, climbed, incident_line
from holdfast.services.view.lines import JobLine, JobStatus, UnitLine, WorkerLine
from holdfast.services.view.reader import RECENT_MS, read_jobs, read_progress
from holdfast.services.view.side_question import SideQuestion
from holdfast.services.view.stairs import Stairs
from holdfast.services.view.takeovers import Takeover, Takeovers

MOST_EVENTS = 5_000
"""Number of events kept in memory, the newest."""
SILENT_S = 3.0
"""Seconds without a record after which Kafka is asked for an answer: while a worker lives, records come."""
SAID_S = 5.0
"""Seconds without a record or an answer after which the shown state is marked as old."""
PROMPT_S = 0.05
"""Longest wait in seconds for an answer of Kafka; a later answer counts in a later picture."""

ENDS_S = 2.0
"""Seconds between two requests for the ends of the topics that jobs read."""


class LiveJob(msgspec.Struct, frozen=True):
    """A job that is not over, as `list`, `status`, `units` and `units --costs` print it.

    lags: approximate number of records of each source's topic that no batch has yet. Offsets are counted, and a topic
        that is compacted, or written in transactions, has offsets without a record.
    lags_of: lags of each source by the partitions that one task reads: "0", or "0, 2" for a task that reads several.
    incident: the last incident, as `explain --incident` prints it; it may be over. None: there was none.
    """

    line: JobLine
    status: JobStatus
    plan: Plan
    units: tuple[UnitLine, ...]
    costs: JobCosts
    lags: dict[str, int] = {}
    lags_of: dict[str, dict[str, int]] = {}
    incident: IncidentLine | None = None


class Picture(msgspec.Struct, frozen=True):
    """The cluster at one moment.

    number: grows with each picture.
    time_ms: time of day, milliseconds since 1970.
    jobs: jobs that run.
    over: jobs that have ended or were rejected, or have no plan.
    takeovers: newest first.
    happenings: lines that `events` prints, oldest first.
    """

    number: int
    time_ms: int
    cluster: str
    jobs: tuple[LiveJob, ...] = ()
    over: tuple[JobLine, ...] = ()
    workers: tuple[WorkerLine, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    happenings: tuple[Happening, ...] = ()

    def job(self, name: str) -> LiveJob | None:
        """The newest running job of that name; None if there is none."""
        return next((one for one in reversed(self.jobs) if one.line.job == name), None)


class LiveView:
    """Reads the cluster's topics through a door. One thread at a time uses it.

    Raises:
        Retriable, PositionGone: from any method; the owner makes a new view later.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        topics, log = door.topics, door.log
        followed = [Partition(one, 0) for one in (topics.plans, topics.status, topics.assignments, topics.heartbeats)]
        # The ends are requested before the read: a record that comes meanwhile is read twice, which changes nothing.
        positions = log.offsets(followed, "end")
        heartbeats = Partition(topics.heartbeats, 0)
        positions |= log.offsets([heartbeats], int(time.time() * 1000) - RECENT_MS)
        positions |= log.offsets([Partition(topics.events, 0)], "start")
        self._view = read_jobs(door)
        self._view.begin(read_standings(log, Partition(topics.assignments, 0)).assigned)
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._takeovers = Takeovers()
        self._told: tuple[Happening, ...] | None = None
        self._stairs: dict[str, Stairs | None] = {}
        self._progress: dict[str, Partition] = {}
        self._ends: dict[Partition, int] = {}
        self._ends_s = float("-inf")
        self._heard_s = time.monotonic()
        self._happened = False
        self._asking_ends: SideQuestion[dict[Partition, int]] = SideQuestion()
        self._asking_it: SideQuestion[dict[Partition, int]] = SideQuestion()
        self._reader = log.reader("console", on_demand=True)
        self._reader.assign(positions)
        ends = log.offsets(list(positions), "end")
        self._missing = {one: end for one, end in ends.items() if positions[one] < end}

    def close(self) -> None:
        self._reader.close()

    def turn(self, timeout_s: float) -> bool:
        """Waits up to timeout_s for records, and folds the present ones; true if any came. Asks Kafka for an answer
        during silence.
        """
        self._follow_progress()
        chunks = self._reader.poll(timeout_s)
        came = False
        for chunk in chunks:
            if not self._reader.current(chunk):
                continue
            reached = chunk.end or (chunk.messages[-1].offset() + 1 if chunk.messages else 0)
            if reached >= self._missing.get(chunk.partition, reached + 1):
                del self._missing[chunk.partition]
            for message in chunk.messages:
                came = True
                self._read(chunk.partition.topic, message.value())
        if came:
            self._heard_s = time.monotonic()
        elif time.monotonic() - self._heard_s > SILENT_S:
            events_of = [Partition(self._door.topics.events, 0)]
            if self._asking_it.ask(lambda: self._door.log.offsets(events_of, "end"), PROMPT_S) is not None:
                self._heard_s = time.monotonic()
        return came

    @property
    def silence(self) -> str:
        """Text for people if Kafka does not answer; empty if it does."""
        silent_s = time.monotonic() - self._heard_s
        return "" if silent_s < SAID_S else f"Kafka has not answered for {silent_s:.0f} s"

    @property
    def behind(self) -> bool:
        """True if some of the records that existed at the beginning are not read yet."""
        return bool(self._missing)

    @property
    def happened(self) -> bool:
        """True if an event or a decision, not only counts and states, has come since the last picture."""
        return self._happened

    def picture(self, now_ms: int, number: int = 1) -> Picture:
        self._happened = False
        lines = self._view.jobs()
        self._read_ends([line for line in lines if line.state not in OVER])
        jobs = [job for line in lines if line.state not in OVER and (job := self._job(line, now_ms))]
        running = {one.line.generation for one in jobs}
        if self._told is None:
            self._told = tuple(happenings_of(self._events))
            self._stairs.clear()
        return Picture(
            number,
            now_ms,
            self._door.topics.prefix,
            tuple(jobs),
            over=tuple(line for line in lines if line.generation not in running),
            workers=tuple(self._view.workers(now_ms)),
            takeovers=tuple(self._takeovers.newest()),
            happenings=self._told,
        )

    def _job(self, line: JobLine, now_ms: int) -> LiveJob | None:
        plan = self._view.plan(line.generation)
        if plan is None:
            return None
        status = self._view.status(line, now_ms)
        line = msgspec.structs.replace(line, unprotected=status.unprotected)
        costs = self._view.costs(plan)
        units, last = tuple(self._view.units(plan)), self._view.incident(plan)
        incident = None if last is None else incident_line(plan, last, units, status.retention, self._climbed(plan))
        lags_of = self._lags(plan, costs)
        lags = {source: sum(parts.values()) for source, parts in lags_of.items()}
        return LiveJob(line, status, plan, units, costs=costs, lags=lags, lags_of=lags_of, incident=incident)

    def _climbed(self, plan: Plan) -> Stairs | None:
        """Stairs of the last incident of a job; folded again only when an event has come."""
        if plan.generation not in self._stairs:
            self._stairs[plan.generation] = climbed(plan, self._events)
        return self._stairs[plan.generation]

    def _read_ends(self, lines: Sequence[JobLine]) -> None:
        """Reads ends of the topics that jobs read, from time to time."""
        if time.monotonic() - self._ends_s < ENDS_S and not self._asking_ends.under_way:
            return
        self._ends_s = time.monotonic()
        plans = [plan for line in lines if (plan := self._view.plan(line.generation)) is not None]
        wanted = {Partition(one.topic, index) for plan in plans for one in plan.sources for index in one.first}
        with suppress(Retriable):  # a deleted topic, or a partition without a leader: the job's state shows it
            self._ends = self._asking_ends.ask(lambda: self._door.log.offsets(wanted, "end"), PROMPT_S) or self._ends

    def _lags(self, plan: Plan, costs: JobCosts) -> dict[str, dict[str, int]]:
        """Lags by source, then by the partitions that one task reads; a source with an unknown part is left out."""
        taken = {(one.edge, one.unit): one.records for one in costs.edges if one.direction == "in"}
        found: dict[str, dict[str, int]] = {}
        for source in plan.sources:
            readers = {unit.name: unit.index for unit in plan.units if source.operator in unit.operators}
            ends = {index: self._ends.get(Partition(source.topic, index)) for index in source.first}
            if None in ends.values() or not all((source.operator, unit) in taken for unit in readers):
                continue
            parts: dict[str, int] = {}
            for unit, at in readers.items():
                own = source.owners[at]
                written = sum((ends[index] or 0) - source.first[index] for index in own)
                parts[", ".join(map(str, own))] = max(0, written - taken[source.operator, unit])
            found[source.operator] = parts
        return found

    def _read(self, topic: str, value: bytes | None) -> None:
        topics = self._door.topics
        self._happened = self._happened or topic in (topics.events, topics.plans, topics.assignments)
        if topic == self._door.topics.events:
            with suppress(msgspec.DecodeError):
                event = events.decode(value or b"")
                self._events.append(event)
                self._takeovers.read(event)
                self._told = None
        elif (generation := self._generation(topic)) is not None:
            self._view.read_progress(generation, value)
        else:
            self._view.read(topic, value)

    def _generation(self, topic: str) -> str | None:
        """Generation of the job whose progress the topic holds; None if there is none."""
        return next((one for one, partition in self._progress.items() if partition.topic == topic), None)

    def _follow_progress(self) -> None:
        """Starts to read the progress of jobs that run, and stops for the others."""
        running = {line.generation: line for line in self._view.jobs() if line.state not in OVER}
        new = [line for generation, line in running.items() if generation not in self._progress]
        if gone := [generation for generation in self._progress if generation not in running]:
            self._reader.unassign([self._progress.pop(generation) for generation in gone])
        if not new:
            return
        present = self._door.log.topics()
        door = replace(self._door, present=present)
        for line in new:
            plan = self._view.plan(line.generation)
            partition = Partition(self._door.topics.job(line.job, line.generation).progress, 0)
            if plan is None or partition.topic not in present:
                continue
            self._reader.assign(self._door.log.offsets([partition], "end"))
            self._progress[line.generation] = partition
            read_progress(door, self._view, plan)

"""Reads a cluster's topics into a view, and follows them from a moment on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import msgspec

from holdfast.schemas import events, heartbeats, plans
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.plans import Decision, Plan, Status
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import read_admitted
from holdfast.services.log.late.last_words import last_words
from holdfast.services.log.protocol import Log
from holdfast.services.log.silence import Silence
from holdfast.services.view.cluster import OVER, ClusterView
from holdfast.services.view.door import Door
from holdfast.services.view.lines import JobLine

RECENT_MS = 60_000
"""Milliseconds of heartbeats that are read: workers silent for longer are not shown."""
COSTS_MS = 20_000
"""Milliseconds of heartbeats from which the present costs of units follow."""


def read_jobs(door: Door) -> ClusterView:
    """A view of the present jobs."""
    view = ClusterView(door.topics)
    view.begin_jobs(read_admitted(door.log, door.topics))
    _scan(door.log, view, door.topics.status)
    return view


def read_all(door: Door) -> ClusterView:
    """A view of jobs, assignments and workers."""
    view = read_jobs(door)
    view.begin(read_standings(door.log, Partition(door.topics.assignments, 0)).assigned)
    read_heartbeats(door, view)
    return view


def read_heartbeats(door: Door, view: ClusterView) -> None:
    partition = Partition(door.topics.heartbeats, 0)
    start = door.log.offsets([partition], int(time.time() * 1000) - RECENT_MS)[partition]
    _scan(door.log, view, door.topics.heartbeats, start)


def read_beats(door: Door, now_ms: int) -> list[Heartbeat]:
    """Heartbeats of the last COSTS_MS, in the order of the log."""
    partition = Partition(door.topics.heartbeats, 0)
    found = []
    for message in door.log.scan(partition, door.log.offsets([partition], now_ms - COSTS_MS)[partition]):
        with suppress(msgspec.DecodeError):
            beat = heartbeats.decode(message.value() or b"")
            if isinstance(beat, Heartbeat):
                found.append(beat)
    return found


def read_events(door: Door, since_ms: int | None = None) -> Iterator[Event]:
    """All present events, oldest first, or those since `since_ms`; an event that cannot be decoded is skipped."""
    partition = Partition(door.topics.events, 0)
    start = None if since_ms is None else door.log.offsets([partition], since_ms)[partition]
    for message in door.log.scan(partition, start):
        with suppress(msgspec.DecodeError):
            yield events.decode(message.value() or b"")


def read_progress(door: Door, view: ClusterView, plan: Plan) -> None:
    """Adds the last progress of each unit of a job to the view."""
    partition = Partition(door.topics.job(plan.job, plan.generation).progress, 0)
    if partition.topic not in door.present:
        return  # the job has ended
    for value in last_words(door.log, partition, [unit.name for unit in plan.units]):
        view.read_progress(plan.generation, value)


def named_job(view: ClusterView, name: str) -> JobLine:
    """The job of that name. Raises CommandFailed if there is none."""
    job = view.find(name)
    if job is None:
        known = list(dict.fromkeys(one.job for one in view.jobs()))
        raise CommandFailed(
            f"there is no job '{name}'", suggest(name, known) or "`holdfast list --all` lists them", USAGE
        )
    return job


def running_job(view: ClusterView, name: str, lacks: str = "it has no units") -> JobLine:
    """The job of that name, which is not over. Raises CommandFailed.

    lacks: why a job that is over is refused.
    """
    job = named_job(view, name)
    if job.state in OVER:
        raise CommandFailed(f"job {job.job} is {job.state}: {lacks}")
    return job


def running_unit(view: ClusterView, name: str, unit: str) -> JobLine:
    """The job of that name, which is not over and has that unit. Raises CommandFailed."""
    job = running_job(view, name)
    plan = view.plan(job.generation)
    names = [] if plan is None else [one.name for one in plan.units]
    if unit not in names:
        raise CommandFailed(f"job {job.job} has no unit '{unit}': one of {', '.join(names)}", code=USAGE)
    return job


def _scan(log: Log, view: ClusterView, topic: str, start: int | None = None) -> None:
    for message in log.scan(Partition(topic, 0), start):
        view.read(topic, message.value())


class Watch:
    """Decisions, statuses and events from the moment of its creation."""

    def __init__(self, log: Log, topics: ClusterTopics, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._decoders = {topics.plans: plans.decode, topics.status: plans.decode_status, topics.events: events.decode}
        self._read: deque[tuple[str, bytes]] = deque()
        self._reader = log.reader("watch")
        self._reader.assign(log.offsets([Partition(topic, 0) for topic in self._decoders], "end"))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def records(self, timeout_s: float) -> Iterator[Decision | Status | Event]:
        """Records, until the waits for them add up to timeout_s; a caller that stops early gets the rest next time.

        The caller's work between two records does not count.
        """
        waiting = Silence(self._clock_s)
        while True:
            while self._read:
                topic, value = self._read.popleft()
                with suppress(msgspec.DecodeError):
                    yield self._decoders[topic](value)
            if (left_s := min(0.2, timeout_s - waiting.waited_s)) <= 0:
                return
            for chunk in waiting.during(partial(self._reader.poll, left_s)):
                self._read.extend((chunk.partition.topic, message.value() or b"") for message in chunk.messages)

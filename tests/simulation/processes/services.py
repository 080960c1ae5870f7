"""The processes of a simulated cluster: the real cores and shells, turned by the timeline instead of a thread.

A process may crash, freeze, be slow, or be cut off. What it does, it does at one moment of simulated time, and what it
asked for reaches the broker later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from holdfast.schemas.assignments import Change
from holdfast.schemas.topics import Partition
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.plan_snapshots import PlanSnapshots
from holdfast.services.controller.polled_conductor import PolledConductor
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.errors import OtherFormat, Retriable
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.late.jobs import feed_kept, positions, read_jobs
from holdfast.services.log.late.trims import trim_due
from holdfast.services.recovery.core.placement.reassignment import Reassignment
from holdfast.services.recovery.replica import ECHO_MS, Replica
from tests.simulation.kafka.broker import Beginning, Broker
from tests.simulation.kafka.link import Link
from tests.simulation.kafka.names import TOPICS
from tests.simulation.kafka.timeline import Timeline
from tests.simulation.observers import hasty, overlooked
from tests.simulation.processes.budgets import Planner

VERSIONS, OTHER_VERSIONS, ODD_VERSIONS = {"kernel": "simulated"}, {"kernel": "another"}, {"kernel": "odd"}
PROOF = 5
"""Batches that a worker with other versions must show to be equal: a history has few."""
BEAT_US = 100_000
MIN_IDLE_US, MAX_IDLE_US = 100, 50_000
"""Between two turns, if nothing comes."""
RETRY_US = 200_000
SNAPSHOT_EVERY = 3
"""Records of `assignments`: so that most histories have some, and processes that start late begin with one."""
JOBS_EVERY = 2
SAFE_S = (0.05, 0.3, 1.5)
"""Ages at which replicas trim to a snapshot: some readers are caught below it, and scan again."""

Failed = Callable[[str, Exception], None]
"""Called with a process that raised what it must not raise."""


class Incarnation(NamedTuple):
    """A process from its start to its end.

    name: of its role, kept over restarts. own: unique.
    """

    name: str
    own: str
    broker: Broker
    timeline: Timeline
    random: Random
    failed: Failed


class Process(ABC):
    def __init__(self, of: Incarnation) -> None:
        self.name, self.own, self.timeline, self.random = of.name, of.own, of.timeline, of.random
        self.link = Link(of.own, of.broker, of.timeline, of.random)
        self.link.wake = self.wake
        self.alive, self.frozen, self._begun = True, False, False
        self.clock_ahead_ms = 0
        self._failed = of.failed
        self._turn_at: int | None = None
        self._turns = 0
        self._lag_us = 0
        self.step_us = of.random.choice((1, 5, 20, 50, 200, 1_000))
        self.begin()

    # -- what happens to it -------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self.alive = False
        self.link.die()

    def freeze(self) -> None:
        self.frozen = True
        self.link.freeze()

    def failed(self, error: Exception) -> None:
        """Reports that it did what it never may."""
        self._failed(self.own, error)

    def thaw(self) -> None:
        if self.alive:
            self.frozen = False
            self.link.thaw()
            self.wake()

    # -- time ---------------------------------------------------------------------------------------------------------

    def clock_us(self) -> int:
        """Monotonic; advances a little each time it is asked, as work takes time."""
        self._lag_us += self.step_us
        return self.timeline.now_us + self._lag_us

    def clock_ms(self) -> float:
        self._lag_us += self.step_us  # as clock_us, and asked far more often
        return (self.timeline.now_us + self._lag_us) / 1000

    @property
    def shown_ms(self) -> float:
        """Time of its clock, for a check: looking takes no time."""
        return (self.timeline.now_us + self._lag_us) / 1000

    def time_ms(self) -> int:
        return self.timeline.time_ms + self.clock_ahead_ms

    def wake(self) -> None:
        """Something came: its next turn is soon."""
        self._turn_in(20 + int(480 * self.random.random()))

    def _turn_in(self, delay_us: int) -> None:
        when_us = self.timeline.now_us + delay_us
        if self._turn_at is None or when_us < self._turn_at:
            self._turn_at = when_us
            self._turns += 1
            turn = self._turns
            self.timeline.at(when_us, lambda: self._turn(turn))

    def _turn(self, turn: int) -> None:
        if turn != self._turns or not self.alive:
            return
        self._turn_at = None
        if self.frozen or not self._begun:
            return
        self._lag_us = 0
        try:
            wait_us = self.turn()
        except Exception as error:
            self._failed(self.own, error)
            self.crash()
            return
        self._turn_in(self._lag_us * self.link.slowness + wait_us)

    def begin(self) -> None:
        try:
            self.start()
        except Retriable:
            self.timeline.after(RETRY_US, lambda: self.begin() if self.alive else None)
        except OtherFormat:  # it says so, and ends
            self.crash()
        else:
            self._begun = True
            self.wake()

    def began(self, upto: int, assigned: Assigned) -> None:
        """For the checkers: where it begins to read `assignments`, and how units stand there."""
        self.link.broker.beginnings.append(Beginning(self.own, upto, assigned.units()))

    @abstractmethod
    def start(self) -> None:
        """Opens what it needs; Retriable: once more, later."""

    @abstractmethod
    def turn(self) -> int:
        """Takes a turn; the time it may then wait, in microseconds."""


class ReplicaProcess(Process):
    """A recovery replica."""

    def __init__(self, of: Incarnation, calm_ms: int | None = None, reassignment: Reassignment | None = None) -> None:
        self._calm_ms, self._reassignment = calm_ms, reassignment
        self.replica: Replica | None = None
        super().__init__(of)

    def start(self) -> None:
        assigned, happened = Partition(TOPICS.assignments, 0), Partition(TOPICS.events, 0)
        beats = Partition(TOPICS.heartbeats, 0)
        standings = read_standings(self.link, assigned)
        self.began(standings.next, standings.assigned)
        jobs = read_jobs(self.link, TOPICS)
        begins = self.link.offsets([beats], "start") | positions(self.link, TOPICS, jobs)
        begins |= {assigned: standings.next} | self.link.offsets([happened], "end")
        backlog = Backlog.of(self.link, begins)
        self._reader = self.link.reader("replica")
        self._reader.assign(begins)
        self.replica = Replica(
            self.own,
            TOPICS,
            self.link.appender("replica"),
            backlog,
            BEAT_US // 1000,
            now_us=self.clock_us,
            begun=standings,
            snapshot_every=SNAPSHOT_EVERY,
            calm_ms=self._calm_ms,
            safe_s=Random(f"{self.own}/safe").choice(SAFE_S),
            reassignment=self._reassignment,
            proof=PROOF,
            aside=Planner(self.timeline, Random(f"{self.own}/planner")),
        )
        hasty.watch(self.replica)
        overlooked.watch(self.replica)
        feed_kept(TOPICS, jobs, self.replica.feed)
        self._proposed: dict[str, Change] = {}
        self.timeline.after(ECHO_MS * 1000, self._echo)

    def turn(self) -> int:
        assert self.replica is not None
        core, changed = self.replica.core, False
        for chunk in self._reader.poll(0):
            changed |= chunk.partition.topic != TOPICS.heartbeats
            for message in chunk.messages:
                self.replica.read(chunk.partition, message.offset(), message.timestamp()[1], message.value())
        self.replica.turn()
        trim_due(self.link, self.replica.trims, self.clock_us())
        if changed or core.known.proposed != self._proposed:
            core.check_invariants()
            self._proposed = dict(core.known.proposed)
        return max(MIN_IDLE_US, core.next_deadline() - self.clock_us())

    def _echo(self) -> None:
        if self.alive and self.replica is not None:
            self.timeline.after(ECHO_MS * 1000 if self.frozen else self.replica.echo(), self._echo)


class ControllerProcess(Process):
    """A replica of the controller. Its clock is that of its start, advancing evenly, as `steady_time_ms` is.

    clock_ahead_ms: of its host.
    """

    def __init__(self, of: Incarnation, clock_ahead_ms: int) -> None:
        self._started_ahead_ms = clock_ahead_ms
        self.core: Controller | None = None
        super().__init__(of)
        self.clock_ahead_ms = clock_ahead_ms

    def time_ms(self) -> int:
        return self.timeline.time_ms + self._started_ahead_ms

    def start(self) -> None:
        self.core = Controller(self.own, BEAT_US // 1000)
        self.conductor = Conductor(
            self.link,
            TOPICS,
            self.core,
            self.time_ms,
            Means(VERSIONS, ["tests"]),
            rooting=PlanSnapshots(self.own, TOPICS, JOBS_EVERY, Random(f"{self.own}/safe").choice(SAFE_S)),
        )
        self._polling = PolledConductor(self.conductor, self.link, self.time_ms)
        self.began(self._polling.decided, self.core.goals.standings.assigned)

    def turn(self) -> int:
        assert self.core is not None
        self._polling.turn()
        self.core.check_invariants()
        return max(MIN_IDLE_US, min(MAX_IDLE_US, (self._polling.next_deadline_ms - self.time_ms()) * 1000))

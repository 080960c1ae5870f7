"""The loop of a driver process: it reads assignments and keeps the copies of Spark units equal to them.

Source: PROTOCOL 5 and 12. A driver takes only units that a plan assigns to Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Plan, SparkPlan
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.copies import Copies
from holdfast.services.hosting.decisions import Decisions
from holdfast.services.hosting.event_publisher import EventPublisher
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.lags import Taken
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.kernel.errors import PositionGone, WorkerUnfit
from holdfast.services.log.protocol import Log
from holdfast.services.spark.copy import SparkCopy
from holdfast.services.spark.engine import Engine
from holdfast.services.spark.surroundings import DriverServices

HOSTS = "spark"
"""The kind of units that a driver takes, as in its heartbeats."""

MAX_WAIT_MS = 50.0
SOON_MS = 5.0
"""Longest wait of a turn while a copy leads, because commits are to be read back. An event of an engine ends the
wait.
"""


class Host:
    """Hosts the copies that `assignments` names for this incarnation.

    Args:
        engine: creates the engine of a new copy. fault: returns why no query can run here; empty if queries can.
        clock_ms: monotonic time. time_ms: time of day.
        wait: waits for an event of an engine, or for a number of seconds.

    Raises Retriable.
    """

    def __init__(
        self,
        identity: Identity,
        log: Log,
        cluster: ClusterTopics,
        *,
        engine: Callable[[Plan, SparkPlan, JobTopics], Engine],
        fault: Callable[[], str],
        clock_ms: Callable[[], float],
        time_ms: Callable[[], int],
        wait: Callable[[float], None],
    ) -> None:
        self.identity = identity
        self._cluster = cluster
        self._engine = engine
        self._fault = fault
        self._clock_ms = clock_ms
        self._time_ms = time_ms
        self._wait = wait
        self._decisions = Decisions(identity, log, cluster, self._refuse)
        self._appender = log.appender("events")
        self._publish = EventPublisher(identity, self._appender, cluster)
        self.refusals = Refusals(self._publish, clock_ms, time_ms)
        self._around = DriverServices(
            log=log,
            appender=self._appender,
            author=Author(identity.incarnation),
            clock_ms=clock_ms,
            time_ms=time_ms,
            happened=self._publish,
            refuse=self._refuse,
        )
        self._reader = log.reader("decisions")
        self._reader.assign(self._decisions.positions)
        self._copies = Copies(self._decisions, self._begin, self._skip)
        self.leaving = False
        self.doing = PresentWork()

    def turn(self) -> None:
        """Reads decisions and takes a turn of every copy.

        Raises:
            WorkerUnfit: no query can run here, or decisions were trimmed before this host read them.
        """
        if fault := self._fault():
            raise WorkerUnfit(fault)
        try:
            chunks = self._reader.poll(self._waited_s())
        except PositionGone as gone:  # a snapshot has taken their place: the process starts again
            raise WorkerUnfit(f"decisions were trimmed before they were read: {gone}") from gone
        changed = [self._decisions.read(chunk) for chunk in chunks]
        if any(changed):
            self._copies.reconcile()
        now_ms = self._clock_ms()
        for key, copy in list(self._copies.here.items()):
            with self.doing.of(key):
                copy.step(now_ms)
            self.doing.warmed(key)
        self._appender.poll()

    def copies(self) -> tuple[CopyState, ...]:
        """The states of the copies, for the heartbeat."""
        return tuple(copy.report() for copy in list(self._copies.here.values()))

    def costs(self, units: Collection[str]) -> tuple[Costs, ...]:
        """The costs of the copies here of these units, for heartbeats and metrics."""
        return tuple(copy.costs() for key, copy in list(self._copies.here.items()) if key in units)

    def taken(self) -> list[Taken]:
        """The positions of the leaders here in the users' topics."""
        return [one for copy in list(self._copies.here.values()) if copy.leads for one in copy.taken()]

    @property
    def caught_up(self) -> bool:
        """True if all decisions from before the start were read."""
        return self._decisions.caught_up

    def over(self, generation: str) -> bool:
        """True if the generation's job has ended, as far as the decisions were read."""
        return self._decisions.over(generation)

    @property
    def decided(self) -> int:
        """The offset of the last assignment that was read."""
        return self._decisions.decided

    @property
    def leads(self) -> bool:
        """True if a copy here leads its unit and has not ended."""
        return any(copy.leads for copy in self._copies.here.values())

    @property
    def next_deadline(self) -> float:
        """The clock time of the next turn without events."""
        return min((copy.next_deadline for copy in self._copies.here.values()), default=math.inf)

    def stops(self, cause: str) -> None:
        """Publishes the reason why the driver can no longer hold copies."""
        self._publish(Event(time_ms=self._time_ms(), kind="worker-stops", detail=cause))

    def close(self) -> None:
        """Closes readers and appenders. A successor finds all state in the log and in the checkpoints."""
        self._reader.close()
        self._appender.close()

    def _waited_s(self) -> float:
        """Waits for an engine if one is busy. Returns how long the reader may then wait, in seconds."""
        wait_ms = max(0.0, min(MAX_WAIT_MS, self.next_deadline - self._clock_ms()))
        if not self.leads:
            return wait_ms / 1000
        self._wait(min(wait_ms, SOON_MS) / 1000)
        return 0.0

    def _begin(self, plan: Plan, unit: str) -> SparkCopy | None:
        spark = next((one for one in plan.spark if one.unit == unit), None)
        if spark is None:
            return None
        topics = self._cluster.job(plan.job, plan.generation)
        skipped = self._decisions.skipped(plan.generation)
        log = Partition(topics.commits(spark.operator), 0)
        engine = self._engine(plan, spark, topics)
        return SparkCopy(plan, spark, topics, self._around, engine=engine, skipped=skipped.get(log, frozenset()))

    def _skip(self, generation: str, skipped: Skipped) -> None:
        for copy in self._copies.here.values():
            if copy.plan.generation == generation:
                copy.skip(skipped.get(Partition(copy.commits_topic, 0), frozenset()))

    def _refuse(self, partition: Partition, offset: int, cause: object, job: str = "") -> None:
        self.refusals.refuse(partition, offset, cause, job)

"""The loop of a driver process: assignments in, copies of Spark units made to follow them.

Source: PROTOCOL 5 and 8. It takes only units that a plan gives to Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from schemas.events import Event
from schemas.heartbeats import CopyState
from schemas.plans import Plan
from schemas.topics import ClusterTopics, Partition
from services.hosting.copies import Copies
from services.hosting.decisions import Decisions
from services.hosting.identity import Identity
from services.hosting.publishing import EventPublisher
from services.kernel.errors import WorkerUnfit
from services.kernel.logs.admitted import Skipped
from services.kernel.logs.refusals import Refusals
from services.log.protocol import Log
from services.spark.driver import Around, Driver

HOSTS = "spark"
"""Units that a driver takes, as its heartbeats say it."""


class Host:
    """Hosts the copies that `assignments` names for this incarnation.

    Args:
        open_session: takes seconds; called once, in a thread of its own.
        checkpoints: where queries keep what they have done. scratch: what need not be kept.
        allow: modules that operators may come from.
    """

    def __init__(
        self,
        identity: Identity,
        log: Log,
        cluster: ClusterTopics,
        *,
        bootstrap_servers: str,
        open_session: Callable[[], SparkSession],
        checkpoints: Path,
        scratch: Path,
        allow: list[str] | None,
        time_ms: Callable[[], int],
    ) -> None:
        self.identity, self._cluster, self._time_ms = identity, cluster, time_ms
        self._session = _Session(open_session)
        self._around = Around(
            log=log,
            bootstrap_servers=bootstrap_servers,
            incarnation=identity.incarnation,
            checkpoints=checkpoints,
            scratch=scratch,
            allow=allow,
            session=self._session.wait,
            time_ms=time_ms,
            happened=self._happened,
            refuse=self._refuse,
        )
        self._appender = log.appender("events")
        self._publish = EventPublisher(identity, self._appender, cluster)
        self._refusing = threading.Lock()
        self._decisions = Decisions(identity, log, cluster, self._refuse)
        self._reader = log.reader("decisions")
        self._reader.assign(self._decisions.positions)
        self._copies = Copies(self._decisions, self._begin, self._skip)
        self.refusals = Refusals(self._publish, lambda: time.monotonic() * 1000, time_ms)
        self.leaving = False

    def turn(self, timeout_s: float) -> None:
        """Reads what was decided and follows it.

        Raises:
            WorkerUnfit: the session cannot be opened; the process should end and say so.
        """
        self._session.check()
        changed = [self._decisions.read(chunk) for chunk in self._reader.poll(timeout_s)]
        if any(changed):
            self._copies.reconcile()
        self._appender.poll()

    def copies(self) -> tuple[CopyState, ...]:
        """For the heartbeat."""
        return tuple(driver.report() for driver in list(self._copies.here.values()))

    @property
    def decided(self) -> int:
        """Offset of the last assignment that was read."""
        return self._decisions.decided

    @property
    def in_charge(self) -> bool:
        """A copy here leads its unit and has not ended."""
        return any(driver.leads for driver in self._copies.here.values())

    def stops(self, cause: str) -> None:
        """Publishes why it can hold copies no longer."""
        self._publish(Event(time_ms=self._time_ms(), kind="worker-stops", detail=cause))

    def close(self) -> None:
        """Leaves everything as it is: a successor finds all in the log and in the checkpoints."""
        for driver in self._copies.here.values():
            driver.unplace()
        self._reader.close()
        self._appender.close()

    def _begin(self, plan: Plan, unit: str) -> Driver | None:
        spark = next((one for one in plan.spark if one.unit == unit), None)
        if spark is None:
            return None
        topics = self._cluster.job(plan.job, plan.generation)
        skipped = self._decisions.skipped(plan.generation).get(
            Partition(topics.commits(spark.operator), 0), frozenset()
        )
        return Driver(plan, spark, topics, self._around, skipped)

    def _skip(self, generation: str, skipped: Skipped) -> None:
        for driver in self._copies.here.values():
            if driver.plan.generation == generation:
                driver.skip(skipped.get(Partition(driver.commits_topic, 0), frozenset()))

    def _refuse(self, partition: Partition, offset: int, cause: object, job: str = "") -> None:
        """From any thread."""
        with self._refusing:
            self.refusals.refuse(partition, offset, cause, job)

    def _happened(self, job: str, unit: str, epoch: int, kind: str, phases_ms: dict[str, float]) -> None:
        self._publish(Event(self._time_ms(), kind, job, unit, epoch, phases_ms=phases_ms))


class _Session:
    """Opened once, from the start on, for every caller that waits for it."""

    def __init__(self, open_session: Callable[[], SparkSession]) -> None:
        self._open = open_session
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._there = threading.Event()
        threading.Thread(target=self._work, name="session", daemon=True).start()

    def _work(self) -> None:
        try:
            self._session = self._open()
        except BaseException as error:
            self._error = error
        self._there.set()

    def wait(self) -> SparkSession:
        self._there.wait()
        if self._session is None:
            raise RuntimeError(f"Spark's session cannot be opened: {self._error}")
        return self._session

    def check(self) -> None:
        """Raises WorkerUnfit when it could not be opened, or its JVM is gone."""
        if self._error is not None:
            raise WorkerUnfit(f"Spark's session cannot be opened: {self._error}")
        gateway = None if self._session is None else self._session.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        if process is not None and process.poll() is not None:
            raise WorkerUnfit(f"Spark's JVM has ended with status {process.poll()}")

"""The loop of a driver process: assignments in, copies of Spark units made to follow them.

Source: PROTOCOL 5 and 8. It takes only units that a plan gives to Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog
from pyspark.sql import SparkSession

from schemas import assignments
from schemas.assignments import Change, split_unit_key
from schemas.events import Event
from schemas.events import encode as encode_event
from schemas.heartbeats import CopyState
from schemas.plans import Plan
from schemas.topics import ClusterTopics, Partition
from services.kernel.logs.admitted import Admitted
from services.kernel.logs.admitted import decode as decode_decision
from services.kernel.logs.refusals import Refusals
from services.log.assignments import read_standings
from services.log.protocol import Chunk, Log
from services.spark.driver import Around, Driver

SLOTS = 8

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Identity:
    """One incarnation of a driver process."""

    worker: str
    incarnation: str
    zone: str = ""
    slots: int = SLOTS
    hosts: str = "spark"


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
        self.identity, self._log, self._cluster, self._time_ms = identity, log, cluster, time_ms
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
        self._appender, self._telling = log.appender("events"), threading.Lock()
        self._refusing = threading.Lock()
        self._reader = log.reader("decisions")
        decided = Partition(cluster.assignments, 0)
        standings = read_standings(log, decided)
        self._reader.assign({Partition(cluster.plans, 0): 0, decided: standings.next})
        self._admitted, self._assigned = Admitted(), standings.assigned
        self._drivers: dict[str, Driver] = {}
        self.refusals = Refusals(self._tell, lambda: time.monotonic() * 1000, time_ms)
        self.leaving = False
        """A driver ends at once: to hand a query over is to start it elsewhere, as after its end."""
        self.decided = standings.next - 1

    def turn(self, timeout_s: float) -> None:
        """Reads what was decided and follows it.

        Raises:
            RuntimeError: the session cannot be opened; the process should end and say so.
        """
        self._session.check()
        changed = [self._offer(chunk) for chunk in self._reader.poll(timeout_s)]
        if any(changed):
            self._reconcile()

    def copies(self) -> tuple[CopyState, ...]:
        """For the heartbeat."""
        return tuple(driver.report() for driver in list(self._drivers.values()))

    def close(self) -> None:
        """Leaves everything as it is: a successor finds all in the log and in the checkpoints."""
        for driver in self._drivers.values():
            driver.close()
        self._reader.close()

    def _offer(self, chunk: Chunk) -> bool:
        changed = False
        for message in chunk.messages:
            try:
                if chunk.partition.topic == self._cluster.plans:
                    changed |= self._admitted.read(decode_decision(message.value() or b""))
                else:
                    self.decided = message.offset()
                    changed |= bool(self._assigned.read(assignments.decode(message.value() or b"")))
            except msgspec.DecodeError as error:
                self._refuse(chunk.partition, message.offset(), error)
        return changed

    def _reconcile(self) -> None:
        named = self._assigned.of_incarnation(self.identity.worker, self.identity.incarnation)
        ended = self._admitted.ended
        wanted = {key: change for key, change in named.items() if ended(split_unit_key(key)[1]) is None}
        for key in [key for key in self._drivers if key not in wanted]:
            self._drivers.pop(key).close()
        for key, change in wanted.items():
            self._place(key, change)

    def _place(self, key: str, change: Change) -> None:
        _, generation, unit = split_unit_key(key)
        plan = self._admitted.plan(generation)
        if plan is None:
            return
        if key not in self._drivers:
            if unit not in {one.unit for one in plan.spark}:
                return  # anybody may append anything
            self._drivers[key] = self._driver(plan, unit)
        mine = (self.identity.worker, self.identity.incarnation)
        flags = next(copy.flags for copy in change.copies if (copy.worker, copy.incarnation) == mine)
        log = Partition(self._drivers[key].commits_topic, 0)
        self._drivers[key].skip(self._admitted.skipped(generation).get(log, frozenset()))
        self._drivers[key].place(change.epoch, flags)

    def _driver(self, plan: Plan, unit: str) -> Driver:
        spark = next(one for one in plan.spark if one.unit == unit)
        return Driver(plan, spark, self._cluster.job(plan.job, plan.generation), self._around)

    def _refuse(self, partition: Partition, offset: int, cause: object, job: str = "") -> None:
        """From any thread."""
        with self._refusing:
            self.refusals.refuse(partition, offset, cause, job)

    def _happened(self, job: str, unit: str, epoch: int, kind: str, phases_ms: dict[str, float]) -> None:
        _log.info(kind, job=job, unit=unit, epoch=epoch, **phases_ms)
        self._tell(Event(self._time_ms(), kind, job, unit, epoch, phases_ms=phases_ms))

    def _tell(self, event: Event) -> None:
        event = msgspec.structs.replace(event, worker=self.identity.worker)
        with self._telling:
            self._appender.append(Partition(self._cluster.events, 0), encode_event(event))
            self._appender.poll()


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
        """Raises RuntimeError when it could not be opened, or its JVM is gone."""
        if self._error is not None:
            raise RuntimeError(f"Spark's session cannot be opened: {self._error}")
        gateway = None if self._session is None else self._session.sparkContext._gateway
        process = getattr(gateway, "proc", None)
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"Spark's JVM has ended with status {process.poll()}")

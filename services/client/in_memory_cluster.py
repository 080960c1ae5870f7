"""A cluster in this process for one job: the cores of the services, on a log in memory with its own clock.

One controller, one recovery replica, one worker and, for Spark operators, one driver take turns. No turn waits for real
time, and the clock advances by one millisecond a turn, so the same input always gives the same output. Source: JOBS
`try`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from holdfast.schemas import assignments, commands, formats, plans
from holdfast.schemas.assignments import Assignment, job_key
from holdfast.schemas.delivered import NO_ROW
from holdfast.schemas.heartbeats import FAULTED, CopyState, Exit, Heartbeat
from holdfast.schemas.heartbeats import encode as encode_beat
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Decision, Ended, Plan, Rejection
from holdfast.schemas.topics import ClusterTopics, JobTopics, Partition, TopicSpec
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.effects import Means
from holdfast.services.controller.polled_conductor import PolledConductor
from holdfast.services.hosting.blocking_calls import Inline
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.dataflow.sink_records import json_rows
from holdfast.services.kernel.errors import HoldfastError, JobRejected
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.versions import versions
from holdfast.services.log.memory import MemoryLog
from holdfast.services.planning import spark_installation
from holdfast.services.recovery.polled_replica import PolledReplica
from holdfast.services.worker.process.loop import Worker

BEAT_EVERY_TURNS = 20
RECOVER_EVERY_TURNS = 5
MAX_IDLE_TURNS = 100_000
KILLED = -9
"""The status of a process that SIGKILL has ended."""
T = TypeVar("T")


if TYPE_CHECKING:
    from holdfast.services.planning.check import Describe
    from holdfast.services.spark.local.driver import LocalDriver


class LocalRunFailed(HoldfastError):
    """The job stopped with an error."""


class InMemoryCluster:
    """A job, on a log and a worker of its own.

    Args:
        spec: the job, complete.
        allow: modules that Python operators may come from.
        schemas: schemas of records that name one.
        at: the time of day when it starts; None: the present.
    """

    def __init__(
        self, spec: JobSpec, allow: list[str], schemas: Schemas = NO_SCHEMAS, at: datetime | None = None
    ) -> None:
        heavy = [name for name, operator in spec.operators.items() if operator.kind == "spark"]
        if heavy and (absent := spark_installation.missing()):
            raise LocalRunFailed(f"operator '{heavy[0]}' needs Spark. {absent}: {spark_installation.COMMAND}")
        self.spec = spec
        self._schemas = schemas
        self._versions = versions(tuple(allow))
        self._turns = self._now_ms = self._incarnations = 0
        self._started_ms = int((time.time() if at is None else at.timestamp()) * 1000)
        self._cluster = ClusterTopics("local")
        self.log = MemoryLog(self._time_ms)
        self.log.create(self._cluster.specs())
        self._appender = self.log.appender("local")
        conductor = Conductor(
            self.log,
            self._cluster,
            Controller("local"),
            self._time_ms,
            means=Means(self._versions, allow, describe=_asking_here(allow) if heavy else None),
        )
        self._controller = PolledConductor(conductor, self.log, self._time_ms)
        self._recovery = PolledReplica(
            "local-recovery", self.log, self._cluster, BEAT_EVERY_TURNS, now_us=lambda: self._now_ms * 1000
        )
        self.worker: Worker | None = None
        self._driver = self._start_driver(allow) if heavy else None
        self.start_worker()

    # -- actions of a user ---------------------------------------------------------------------------------------------

    def create_topics(self) -> None:
        """The topics of the job's sources, a partition for each task, and of its sinks."""
        for source in self.spec.sources.values():
            assert source.topic is not None
            self.log.create([TopicSpec(source.topic, source.parallelism)])
        for query in self.spec.queries.values():
            assert query.sink is not None
            self.log.create([TopicSpec(query.sink.topic, query.sink.partitions or 1)])

    def feed(self, name: str, blocks: Iterable[list[bytes]], count: int = 0) -> int:
        """Appends records to a source, in turns over its partitions: one a task. A table's stay in order, in one.

        Args:
            count: how many the source has been fed with before.

        Returns how many it has been fed with now.
        """
        source = self.spec.sources[name]
        assert source.topic is not None
        for block in blocks:
            for record in block:
                index = 0 if source.table else count % source.parallelism
                self._appender.append(Partition(source.topic, index), record)
                count += 1
        return count

    def submit(self) -> None:
        """Submits the job; `plan` returns the outcome. All of the cluster's processes are of this release."""
        record = Assignment("local", self._time_ms(), (), format=formats.NEWEST)
        self._appender.append(Partition(self._cluster.assignments, 0), assignments.encode(record))
        self._submit(commands.encode(self.spec.as_plain()))

    def drain(self, plan: Plan) -> None:
        """Lets the job end once everything is delivered."""
        self._submit(commands.encode(commands.Command("drain", plan.job)))

    def _submit(self, record: bytes) -> None:
        self._appender.append(Partition(self._cluster.submit, 0), record)

    # -- actions of a machine ------------------------------------------------------------------------------------------

    def start_worker(self) -> None:
        """A new incarnation of the worker."""
        assert self.worker is None
        self._incarnations += 1
        self.worker = Worker(
            Identity("local", f"local-{self._incarnations:06d}", slots=1024),
            self.log,
            self._cluster,
            clock_ms=lambda: float(self._now_ms),
            time_ms=self._time_ms,
            image=lambda _: MemoryImage(),
            deliveries=Inline(),
            restores=Inline(),
            schemas=self._schemas,
        )

    def _start_driver(self, allow: list[str]) -> LocalDriver:
        from holdfast.services.spark.local.driver import LocalDriver

        return LocalDriver(self.log, self._cluster, lambda: float(self._now_ms), self._time_ms, allow=allow)

    def kill_worker(self) -> None:
        """Kills the worker like SIGKILL: it takes no further turn, and its parent notices that."""
        assert self.worker is not None
        identity, self.worker = self.worker.identity, None
        notice = Exit(identity.worker, identity.incarnation, self._time_ms(), KILLED)
        self._appender.append(Partition(self._cluster.heartbeats, 0), encode_beat(notice))

    # -- time ---------------------------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], T | None], processed: Callable[[int], None] = lambda _: None) -> T:
        """Takes turns until something is there.

        Args:
            processed: called from time to time with the number of records processed.

        Raises:
            LocalRunFailed: with the cause.
        """
        quiet = 0
        while (found := condition()) is None:
            quiet = 0 if self.turn() else quiet + 1
            if quiet > MAX_IDLE_TURNS:
                raise LocalRunFailed("the job makes no progress any more: please report this job file")
            if self._turns % BEAT_EVERY_TURNS == 0:
                self.check_copies()
                processed(0 if self.worker is None else self.worker.records)
        return found

    def turn(self, step_ms: int = 1) -> bool:
        """Everything takes a turn, after so much time; True if the worker did something."""
        self._turns += 1
        self._now_ms += step_ms
        if self._turns % BEAT_EVERY_TURNS == 1 or step_ms > 1:
            self._beat()
        self._controller.turn()
        if self._turns % RECOVER_EVERY_TURNS == 0 or step_ms > 1:
            self._recovery.turn()
        worked = self.worker is not None and self.worker.turn()
        return worked if self._driver is None else self._driver.turn(worked) or worked

    def _beat(self) -> None:
        if self._driver is not None:
            self._append_beat(self._driver.heartbeat(self._time_ms(), self._versions))
        if self.worker is None:
            return
        identity = self.worker.identity
        beat = Heartbeat(
            worker=identity.worker,
            incarnation=identity.incarnation,
            time_ms=self._time_ms(),
            slots=identity.slots,
            decided=self.worker.decided,
            versions=self._versions,
            copies=self.worker.copies(),
            reads=formats.NEWEST,
        )
        self._append_beat(beat)

    def _append_beat(self, beat: Heartbeat) -> None:
        self._appender.append(Partition(self._cluster.heartbeats, 0), encode_beat(beat))

    def _copies(self) -> tuple[CopyState, ...]:
        """Copies of the worker and the driver."""
        of_worker = () if self.worker is None else self.worker.copies()
        return of_worker if self._driver is None else (*of_worker, *self._driver.host.copies())

    def _time_ms(self) -> int:
        return self._started_ms + self._now_ms

    # -- results ------------------------------------------------------------------------------------------------------

    def check_copies(self) -> None:
        """Raises LocalRunFailed if a copy cannot continue."""
        for copy in self._copies():
            if copy.state in ("failed", FAULTED):
                raise LocalRunFailed(f"{copy.unit.split('/')[1]}: {copy.error}")

    def _decisions(self) -> Iterator[Decision]:
        return (plans.decode(m.value() or b"") for m in self.log.scan(Partition(self._cluster.plans, 0)))

    def plan(self) -> Plan | None:
        """The plan of the job; None until it is decided. Raises JobRejected."""
        for decision in self._decisions():
            if isinstance(decision, Rejection):
                raise JobRejected(decision.problems)
            if isinstance(decision, Plan):
                return decision
        return None

    def all_are(self, plan: Plan, *states: str) -> bool:
        """True if every unit is in one of these states."""
        generation = f"{job_key(plan.job, plan.generation)}/"
        copies = [copy for copy in self._copies() if copy.unit.startswith(generation)]
        return len(copies) == len(plan.units) and all(copy.state in states for copy in copies)

    def all_taken(self) -> bool:
        """True if a leader has processed every record in the topics of the sources."""
        taken: dict[Partition, int] = {}
        of_driver = [] if self._driver is None else self._driver.host.taken()
        for one in of_driver if self.worker is None else [*self.worker.taken(), *of_driver]:
            for index, position in one.positions.items():
                partition = Partition(one.topic, index)
                taken[partition] = min(position, taken.get(partition, position))
        topics = {source.topic for source in self.spec.sources.values() if source.topic is not None}
        counts = self.log.topics()
        read = [Partition(topic, index) for topic in topics for index in range(counts[topic])]
        return all(taken.get(one, 0) >= end for one, end in self.log.offsets(read, "end").items())

    def has_ended(self) -> bool:
        """True once the controller has ended the job."""
        return any(isinstance(decision, Ended) for decision in self._decisions())

    def topics_of(self, plan: Plan) -> JobTopics:
        """The job's own topics."""
        return self._cluster.job(plan.job, plan.generation)

    def delivered(self, query: str) -> dict[Partition, int]:
        """The ends of the partitions that a query writes to."""
        sink = self.spec.queries[query].sink
        assert sink is not None
        partitions = [Partition(sink.topic, index) for index in range(self.log.topics()[sink.topic])]
        return self.log.offsets(partitions, "end")

    def rows(self, plan: Plan, seen: Mapping[Partition, int] | None = None) -> dict[str, list[bytes]]:
        """Rows that every query has delivered, as JSON records, in the order of its topic; a record without a value is
        null.

        Args:
            seen: where to begin, by partition; others are read from their start.
        """
        found: dict[str, list[bytes]] = {}
        for operator in plan.operators:
            if operator.kind == "sink" and operator.sink.query in self.spec.queries:
                query, read = operator.sink.query, json_rows(operator)
                rows: Callable[[bytes | None], Sequence[bytes]] = lambda value, read=read: (  # type: ignore[misc]  # noqa: E731
                    [NO_ROW] if value is None else read(value)
                )
                kept = [self.log.scan(one, (seen or {}).get(one)) for one in self.delivered(query)]
                found[query] = [row for messages in kept for message in messages for row in rows(message.value())]
        return found


def _asking_here(allow: list[str]) -> Describe:
    """Describes Spark operators with the Spark session of this process."""
    from holdfast.services.controller.spark_analysis import Describer
    from holdfast.services.spark.local.driver import ask

    return Describer(allow, ask)

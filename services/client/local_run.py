"""Runs a job to its end in this process: the same cores as on a cluster, on a log in memory and a clock of its own.

One controller, one recovery replica and one worker take turns; nothing waits, nothing blocks, and the clock advances by
one millisecond a turn, so the same input always gives the same output. Source: JOBS `try`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.schemas import commands, plans
from holdfast.schemas.dead_letters import DeadLetter
from holdfast.schemas.dead_letters import decode as decode_dead
from holdfast.schemas.heartbeats import FAULTED, Heartbeat
from holdfast.schemas.heartbeats import encode as encode_beat
from holdfast.schemas.jobs import REGISTERED, JobSpec
from holdfast.schemas.plans import Decision, Ended, Plan, Rejection
from holdfast.schemas.progress import Progress
from holdfast.schemas.progress import decode as decode_progress
from holdfast.schemas.topics import ClusterTopics, Partition, TopicSpec
from holdfast.services.controller.conductor import Conductor
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.polling import Polling
from holdfast.services.hosting.blocking import Inline
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.dataflow.sink_records import json_rows
from holdfast.services.kernel.errors import HoldfastError, JobRejected
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.kernel.versions import versions
from holdfast.services.log.memory import MemoryLog
from holdfast.services.planning import spark_installation
from holdfast.services.recovery.polling import Polling as RecoveryPolling
from holdfast.services.worker.process.loop import Worker

BEAT_EVERY_TURNS = 20
RECOVER_EVERY_TURNS = 5
MAX_IDLE_TURNS = 100_000
_WORKER = Identity("local", "local-1", slots=1024)
T = TypeVar("T")


class LocalRunFailed(HoldfastError):
    """The job stopped with an error."""


@dataclass(slots=True)
class Finished:
    """Results of a run.

    rows: JSON records by query, in the order of its topic.
    progress: by unit, at the end.
    fed: records by source.
    """

    plan: Plan
    rows: dict[str, list[bytes]]
    dead: list[DeadLetter]
    progress: dict[str, Progress]
    fed: dict[str, int]


def complete(spec: JobSpec) -> JobSpec:
    """The job with a topic for every source and query: a job that reads and writes files needs none."""
    plain = spec.as_plain()
    for name, source in plain["sources"].items():
        source["topic"] = source["topic"] or f"source.{name}"
    for name, query in plain["queries"].items():
        query["sink"] = query["sink"] or {"topic": f"query.{name}"}
    return JobSpec.model_validate(plain)


def of_files(spec: JobSpec, of_bytes: Collection[str] = ()) -> JobSpec:
    """The job with rows of files where it reads records that name a schema of a registry: rows of a file name none.

    Args:
        of_bytes: sources that are given records as their topic holds them.
    """
    plain = spec.as_plain()
    for name, source in plain["sources"].items():
        if source["format"] in REGISTERED and name not in of_bytes:
            source |= {"format": "json", "subject": None}
    return JobSpec.model_validate(plain)


class LocalRun:
    """A run of one job, from its inputs to its last row.

    Args:
        spec: the job, complete.
        inputs: by source, its records in blocks.
        allow: modules that Python operators may come from.
        schemas: by which records were written that name theirs.
    """

    def __init__(
        self,
        spec: JobSpec,
        inputs: Mapping[str, Iterable[list[bytes]]],
        allow: list[str],
        schemas: Schemas = NO_SCHEMAS,
    ) -> None:
        if heavy := [name for name, operator in spec.operators.items() if operator.kind == "spark"]:
            hint = "`holdfast up`, then `holdfast submit`, runs the job; `holdfast check` looks at it"
            if absent := spark_installation.missing():
                hint += f". {absent}: {spark_installation.COMMAND}"
            raise LocalRunFailed(f"operator '{heavy[0]}' runs on Spark, which a run in memory does not start: {hint}")
        self._spec, self._inputs = spec, inputs
        self._versions = versions(tuple(allow))
        self._fed: dict[str, int] = {}
        self._turns = 0
        self._started_ms = int(time.time() * 1000)
        self._cluster = ClusterTopics("local")
        self._log = MemoryLog(self._time_ms)
        self._log.create(self._cluster.specs())
        self._appender = self._log.appender("local")
        conductor = Conductor(
            self._log,
            self._cluster,
            Controller("local"),
            self._time_ms,
            versions=self._versions,
            allow=allow,
        )
        self._controller = Polling(conductor, self._log, self._time_ms)
        self._recovery = RecoveryPolling(
            "local-recovery", self._log, self._cluster, BEAT_EVERY_TURNS, now_us=lambda: self._turns * 1000
        )
        self._worker = Worker(
            _WORKER,
            self._log,
            self._cluster,
            clock_ms=lambda: float(self._turns),
            time_ms=self._time_ms,
            image=lambda _: MemoryImage(),
            deliveries=Inline(),
            restores=Inline(),
            schemas=schemas,
        )

    def run(self, processed: Callable[[int], None] = lambda _: None) -> Finished:
        """Feeds everything, drains, and returns what was delivered.

        Args:
            processed: called from time to time with the number of records processed.

        Raises:
            JobRejected: with every problem. LocalRunFailed: with the cause.
        """
        self._feed()
        self._submit(commands.encode(self._spec.as_plain()))
        plan = self._until(self._plan, processed)
        self._until(lambda: self._running(plan) or None, processed)
        self._submit(commands.encode(commands.Command("drain", plan.job)))
        kept: dict[str, Any] = {}
        self._until(lambda: self._ended(plan, kept) or None, processed)
        return Finished(plan, self._rows(plan), kept["dead"], kept["progress"], self._fed)

    # -- what a user does ---------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Every source's records, in turns over its partitions: one a task. A table's stay in order, in one."""
        for name, source in self._spec.sources.items():
            assert source.topic is not None
            self._log.create([TopicSpec(source.topic, source.parallelism)])
            count = self._fed[name] = 0
            for block in self._inputs.get(name, ()):
                for record in block:
                    index = 0 if source.table else count % source.parallelism
                    self._appender.append(Partition(source.topic, index), record)
                    count += 1
            self._fed[name] = count
        for query in self._spec.queries.values():
            assert query.sink is not None
            self._log.create([TopicSpec(query.sink.topic, query.sink.partitions or 1)])

    def _submit(self, record: bytes) -> None:
        self._appender.append(Partition(self._cluster.submit, 0), record)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _until(self, condition: Callable[[], T | None], processed: Callable[[int], None]) -> T:
        quiet = 0
        while (found := condition()) is None:
            quiet = 0 if self._turn() else quiet + 1
            if quiet > MAX_IDLE_TURNS:
                raise LocalRunFailed("the job makes no progress any more: please report this job file")
            if self._turns % BEAT_EVERY_TURNS == 0:
                self._look(processed)
        return found

    def _turn(self) -> bool:
        self._turns += 1
        if self._turns % BEAT_EVERY_TURNS == 1:
            self._beat()
        self._controller.turn()
        if self._turns % RECOVER_EVERY_TURNS == 0:
            self._recovery.turn()
        return self._worker.turn()

    def _beat(self) -> None:
        beat = Heartbeat(
            worker=_WORKER.worker,
            incarnation=_WORKER.incarnation,
            time_ms=self._time_ms(),
            slots=_WORKER.slots,
            decided=self._worker.decided,
            versions=self._versions,
            copies=self._worker.copies(),
        )
        self._appender.append(Partition(self._cluster.heartbeats, 0), encode_beat(beat))

    def _look(self, processed: Callable[[int], None]) -> None:
        for copy in self._worker.copies():
            if copy.state in ("failed", FAULTED):
                raise LocalRunFailed(f"{copy.unit.split('/')[1]}: {copy.error}")
        processed(self._worker.records)

    def _decisions(self) -> Iterable[Decision]:
        return (plans.decode(m.value() or b"") for m in self._log.scan(Partition(self._cluster.plans, 0)))

    def _plan(self) -> Plan | None:
        for decision in self._decisions():
            if isinstance(decision, Rejection):
                raise JobRejected(decision.problems)
            if isinstance(decision, Plan):
                return decision
        return None

    def _running(self, plan: Plan) -> bool:
        copies = self._worker.copies()
        return len(copies) == len(plan.units) and all(copy.state in ("running", "ended") for copy in copies)

    def _ended(self, plan: Plan, kept: dict[str, Any]) -> bool:
        """Over; what lies in the job's own topics is kept while every unit has ended and they still exist."""
        copies = self._worker.copies()
        if len(copies) == len(plan.units) and all(copy.state == "ended" for copy in copies):
            topics = self._cluster.job(plan.job, plan.generation)
            letters = self._log.scan(Partition(topics.dead_letters, 0))
            kept["dead"] = [decode_dead(m.value() or b"") for m in letters]
            known = [decode_progress(m.value() or b"") for m in self._log.scan(Partition(topics.progress, 0))]
            kept["progress"] = {one.unit: one for one in known}
        return bool(kept) and any(isinstance(decision, Ended) for decision in self._decisions())

    def _rows(self, plan: Plan) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for operator in plan.operators:
            if operator.kind == "sink":
                topic = operator.params["topic"]
                partitions = [Partition(topic, index) for index in range(self._log.topics()[topic])]
                rows = json_rows(operator)
                values = [m.value() or b"" for partition in partitions for m in self._log.scan(partition)]
                found[operator.params["query"]] = [row for value in values for row in rows(value)]
        return found

    def _time_ms(self) -> int:
        return self._started_ms + self._turns

"""A job, followed by its published records: admission, status, progress, events."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.schemas import events, plans, progress
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Ended, Plan, Rejection, Status
from holdfast.schemas.progress import Progress
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.log.protocol import Log, Message, Reader

DEADLINE_S = 300.0


class MeasureFailed(Exception):
    """A measure cannot continue; the message names the cause."""


class Refused(MeasureFailed):
    """The job was not admitted."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Progress of the job at a time: source records read, once every unit with a source has reported."""

    time_ms: int
    records: int


@dataclass(frozen=True, slots=True)
class Step:
    """The longest checkpoint step of a unit, and the most CPU time of one, as published at a time."""

    time_ms: int
    unit: str
    took_ms: float
    cpu_ms: float


class Followed:
    """Reads on whenever it is asked to wait; raises MeasureFailed once the job has failed."""

    def __init__(self, log: Log, reader: Reader, topics: ClusterTopics, job: str) -> None:
        """Begins to follow; make this object before the job is submitted."""
        self._log = log
        self._topics = topics
        self._job = job
        self._reader = reader
        shared = [Partition(name, 0) for name in (topics.plans, topics.status, topics.events)]
        self._reader.assign(log.offsets(shared, "end"))
        self._plan: Plan | None = None
        self._refusal: Rejection | None = None
        self._failure = ""
        self._ended = False
        self._goal: int | None = None
        self.state = ""
        self.units: dict[str, Progress] = {}
        self.reached: list[Reached] = []
        self.steps: list[Step] = []
        self.events: list[Event] = []

    def close(self) -> None:
        self._reader.close()

    @property
    def plan(self) -> Plan:
        assert self._plan is not None
        return self._plan

    @property
    def records(self) -> int:
        return sum(unit.records for unit in self.units.values())

    def units_of(self, kind: str) -> list[str]:
        """Units with an operator of that kind."""
        names = {operator.name for operator in self.plan.operators if operator.kind == kind}
        return [unit.name for unit in self.plan.units if names & set(unit.operators)]

    def data_partitions(self) -> dict[str, list[Partition]]:
        """Data partitions of each operator that sends to other units, in the order of the plan."""
        topics = {edge.producer: edge.topic for edge in self.plan.edges if edge.topic is not None}
        present = self._log.topics()
        return {
            operator.name: [Partition(topic, index) for index in range(present[topic])]
            for operator in self.plan.operators
            if (topic := topics.get(operator.name)) is not None
        }

    # -- waiting ------------------------------------------------------------------------------------------------------

    def await_admission(self) -> None:
        self.until(lambda: self._plan is not None or self._refusal is not None, "no answer to the submission")
        if self._refusal is not None:
            raise Refused("; ".join(map(str, self._refusal.problems)))
        published = self._topics.job(self.plan.job, self.plan.generation).progress
        self.until(lambda: published in self._log.topics(), "no topics of the job")
        self._reader.assign({Partition(published, 0): 0})

    def await_running(self) -> None:
        self.until(lambda: self.state == "running", "the job does not run")

    def await_records(self, records: int) -> None:
        """Waits until this number of records is read, and the sinks have processed their batches."""
        self._goal = None
        self.until(lambda: self._done(records), f"{records:,} records are not through")

    def await_end(self) -> None:
        self.until(lambda: self._ended, "the job does not end")

    def until(
        self, reached: Callable[[], bool], otherwise: str | Callable[[], str], seconds: float = DEADLINE_S
    ) -> None:
        """Reads until it holds. Raises MeasureFailed, with `otherwise` as it is when the time is over."""
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                what = otherwise if isinstance(otherwise, str) else otherwise()
                raise MeasureFailed(f"{self._job}: {what} after {seconds:g} s")
            self.read(0.02)

    def watch(self, seconds: float) -> None:
        """Lets the time pass. Raises MeasureFailed."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.read(min(left, 0.1))

    def read(self, timeout_s: float) -> None:
        """Reads new records. Raises MeasureFailed."""
        for chunk in self._reader.poll(timeout_s):
            for message in chunk.messages:
                self._take(chunk.partition.topic, message)
        if self._failure:
            raise MeasureFailed(f"{self._job} failed: {self._failure}")

    # -- reading ------------------------------------------------------------------------------------------------------

    def _take(self, topic: str, message: Message) -> None:
        value = message.value() or b""
        if topic == self._topics.plans:
            self._decided(plans.decode_any(value))
        elif topic == self._topics.status:
            self._told(plans.decode_status(value))
        elif topic == self._topics.events:
            self.events.append(events.decode(value))
        else:
            self._progressed(progress.decode(value), message.timestamp()[1])

    def _decided(self, decision: plans.Record) -> None:
        """A controller writes snapshots and the like there, too."""
        if not isinstance(decision, Plan | Rejection | Ended) or decision.job != self._job:
            return
        if isinstance(decision, Plan) and self._plan is None:
            self._plan = decision
        elif isinstance(decision, Rejection) and self._plan is None:
            self._refusal = decision
        elif isinstance(decision, Ended) and self._plan is not None:
            self._ended = self._ended or decision.generation == self.plan.generation

    def _told(self, status: Status) -> None:
        if status.job == self._job and (self._plan is None or status.generation == self.plan.generation):
            self.state = status.state
            if status.state == "failed":
                self._failure = status.error or "no error is given"

    def _progressed(self, one: Progress, time_ms: int) -> None:
        self.units[one.unit] = one
        self.steps.append(Step(time_ms, one.unit, one.step_ms, one.step_cpu_ms))
        if self.units.keys() >= set(self.units_of("source")):
            self.reached.append(Reached(time_ms, self.records))

    def _done(self, records: int) -> bool:
        if self._goal is None and self.records >= records:
            self._goal = max(self.units[unit].processed for unit in self.units_of("source") if unit in self.units)
        if self._goal is None:
            return False
        goal = self._goal
        return all(unit in self.units and self.units[unit].processed >= goal for unit in self.units_of("sink"))

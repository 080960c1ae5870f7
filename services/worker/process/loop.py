"""The worker's only loop: decisions, data, checkpoint work.

Source: PROTOCOL 5. The loop never sleeps: it waits on the reader from which it expects the next event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import TYPE_CHECKING

from holdfast.schemas.costs import Costs
from holdfast.schemas.events import Event
from holdfast.schemas.heartbeats import CopyState
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.decided import Author
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.hosting.blocking_calls import Blocking, Inline
from holdfast.services.hosting.copies import Copies
from holdfast.services.hosting.decisions import Decisions
from holdfast.services.hosting.event_publisher import EventPublisher
from holdfast.services.hosting.identity import Identity
from holdfast.services.hosting.lags import Taken
from holdfast.services.hosting.present_work import PresentWork
from holdfast.services.kernel.codecs.registered import NO_SCHEMAS, Schemas
from holdfast.services.kernel.state.image import Image
from holdfast.services.log.protocol import Chunk, Log
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from holdfast.services.worker.core.cut_rhythm import REST_AFTER_MS
from holdfast.services.worker.core.lifecycle import State
from holdfast.services.worker.host.gathered import Gathered
from holdfast.services.worker.host.job import JobView
from holdfast.services.worker.host.presence import Presence
from holdfast.services.worker.host.surroundings import HostServices
from holdfast.services.worker.host.topic_watch import TopicWatch
from holdfast.services.worker.isolated.isolation import Isolation
from holdfast.services.worker.process.listeners import AssignmentSignal, DecisionReader, IgnoredEvents, ProgressReader
from holdfast.services.worker.process.paced import PacedReader
from holdfast.services.worker.process.subscriptions import SharedReader
from holdfast.services.worker.unit.copy import UnitCopy
from holdfast.services.worker.unit.facts.hosted_unit import HostedUnit
from holdfast.services.worker.unit.turns.running_copy import RunningCopy

if TYPE_CHECKING:
    from holdfast.services.worker.host.spans import Spans

MAX_WAIT_MS, REST_WAIT_MS = 100.0, 250.0
"""Longest waits of a turn for acknowledgements and answers, which no reader delivers. After REST_AFTER_MS without data
(core/cut_rhythm.py) there are few of them, and the second value applies."""
SOON_MS = 2.0
"""Wait for events on their way: a cut or marker to be read back, or the outcome of a call."""
_AWAITS_CONTROL = attrgetter("condition.awaits_control")
QUIET_MS, FIRST_MS = 100.0, 10.0
"""After the first time without data, new data may wait for the second time if a cut or a marker is awaited. A cut stays
due until it is read back; a worker that never waited would use a whole core until then."""


class Worker:
    """Hosts the copies that `assignments` names for this incarnation.

    Args:
        clock_ms: monotonic time. time_ms: time of day. cpu_ms: CPU time of the loop's thread.
        image: opens a new, empty image for a copy.
        doing: present work of the loop, for its parent.
        isolation: rules for code in processes of its own; None if all code runs here.
        spans: spans of batches; None without traces. left: called when a copy was closed, so that its objects are
            freed.
        watch: runs questions to Kafka about users' topics and ends of partitions; default: at once.
        schemas: the registry, for sources whose records name schemas.
        answers: runs calls that users' code awaits; default: at once.

    Raises Retriable, with nothing left open.
    """

    def __init__(
        self,
        identity: Identity,
        log: Log,
        cluster: ClusterTopics,
        *,
        clock_ms: Callable[[], float],
        time_ms: Callable[[], int],
        image: Callable[[str], Image],
        deliveries: Blocking,
        restores: Blocking,
        watch: Blocking | None = None,
        answers: Blocking | None = None,
        cpu_ms: Callable[[], float] | None = None,
        doing: PresentWork | None = None,
        isolation: Isolation | None = None,
        left: Callable[[], None] = lambda: None,
        spans: Spans | None = None,
        schemas: Schemas = NO_SCHEMAS,
    ) -> None:
        self.identity = identity
        self._topics = cluster
        self._clock_ms = clock_ms
        happened = log.offsets([Partition(cluster.events, 0)], "end")
        self._decisions = Decisions(identity, log, cluster, self._refuse)
        name, decided = f"worker-{identity.worker}", Partition(cluster.assignments, 0)
        self._appender = log.appender(name)
        self._paced = PacedReader.of(log, name, self._is_paced, clock_ms, [*happened, decided])
        self._data = SharedReader(self._paced)
        self._control = SharedReader(log.reader(f"{name}-control"))
        answers = answers or Inline()
        self._blocking = (deliveries, restores, answers)
        self._watch = TopicWatch(log, asks := watch or Inline())
        heartbeats = Partition(cluster.heartbeats, 0)
        self._presence = Presence(
            log, asks, self._control, heartbeats, assigned=self._decisions.assigned, time_ms=time_ms
        )
        self._progress = Gathered(self._appender)
        publish = EventPublisher(identity, self._appender, cluster)
        self.refusals = Refusals(publish, clock_ms, time_ms)
        self.doing = doing or PresentWork()
        self._spans = spans
        self._around = HostServices(
            log=log,
            doing=self.doing,
            appender=self._appender,
            deliveries=deliveries,
            restores=restores,
            asks=asks,
            answers=answers,
            checkpoints=Scheduler(),
            author=Author(identity.incarnation),
            clock_ms=clock_ms,
            cpu_ms=cpu_ms or clock_ms,
            time_ms=time_ms,
            image=image,
            data=self._data,
            control=self._control,
            topics=self._watch,
            presence=self._presence,
            read_decisions=self._read_decisions,
            happened=publish,
            refusals=self.refusals,
            isolation=isolation,
            progress=self._progress,
            left=left,
            schemas=schemas,
        )
        self._jobs: dict[str, JobView] = {}
        self._progress_readers: dict[str, ProgressReader] = {}
        self._copies = Copies(self._decisions, self._begin, self._skip)
        self._waiting_for_decisions: list[tuple[int, Callable[[], None]]] = []
        self._changed = False
        self.leaving = False
        """True once it was asked to stop; other workers then take over the units that it leads."""
        self.next_deadline = -math.inf
        """The time of the next turn without news, in milliseconds of the clock."""
        self._data_ms = clock_ms()
        self._control.add(DecisionReader(self._read_plans), self._decisions.positions)
        # Measured: a paused partition resumes in up to a second unless its consumer always has another to fetch.
        self._herald = AssignmentSignal()
        self._data.add(self._herald, {decided: self._decisions.positions[decided]})
        for reader in (self._data, self._control):
            reader.add(IgnoredEvents(), happened)

    # -- the turn -----------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Takes a turn of the loop, which waits at most REST_WAIT_MS. True if there was work. Raises WorkerUnfit."""
        came = self._read()
        if self._changed:
            self._changed = False
            self._reconcile()
        self._appender.poll()
        for blocking in self._blocking:
            came |= blocking.poll()
        now, due = self._clock_ms(), math.inf
        self._watch.turn(now)
        self._presence.turn(now)
        for key, copy in list(self._copies.here.items()):
            if copy.step(now):
                self.doing.warmed(key)
                came = True
            if (next_deadline := copy.next_deadline) < due:
                due = next_deadline
        self._progress.send()
        for view in self._jobs.values():
            if view.spacing.changes(now):
                self._data.reassign(view.reads)
        self.next_deadline = min(due, self._paced.wants(self._wanted_ms)) if self._paced.paces else due
        return came

    def copies(self) -> tuple[CopyState, ...]:
        """The states of the copies, for the heartbeat."""
        return tuple(copy.report() for copy in list(self._copies.here.values()))

    @property
    def caught_up(self) -> bool:
        """True if all decisions from before the start were read."""
        return self._decisions.caught_up

    @property
    def decided(self) -> int:
        """The offset of the last assignment that was read."""
        return self._decisions.decided

    def costs(self, units: Collection[str]) -> tuple[Costs, ...]:
        """The costs of the copies here of these units, for heartbeats and metrics."""
        return tuple(copy.costs() for key, copy in list(self._copies.here.items()) if key in units)

    def taken(self) -> list[Taken]:
        """The progress of the leaders here in the users' topics, for metrics; safe in any thread."""
        leaders = [(copy.key, copy.running) for copy in list(self._copies.here.values()) if copy.core.flags.commit]
        return [Taken(key, *one) for key, run in leaders if run is not None for one in run.cuts.taken()]

    @property
    def records(self) -> int:
        """The number of source records that the copies here have processed."""
        return sum(one.condition.counts["records"] for one in self._running())

    def _running(self) -> list[RunningCopy]:
        return [copy.running for copy in self._copies.here.values() if copy.running is not None]

    @property
    def leads(self) -> bool:
        """True if a copy here commits for its unit and has not ended, as far as the assignments were read."""
        copies = self._copies.here.values()
        return any(copy.core.flags.commit and copy.core.state is not State.ENDED for copy in copies)

    def stops(self, cause: str) -> None:
        """Publishes the reason why the worker can no longer hold copies, before it is closed."""
        self._around.happened(Event(time_ms=self._around.time_ms(), kind="worker-stops", detail=cause))

    def gives_up(self, cause: str) -> None:
        """Publishes that a call beside the loop hangs."""
        self._around.happened(Event(time_ms=self._around.time_ms(), kind="call-given-up", detail=cause))

    def close(self) -> None:
        """Closes the readers and leaves every copy as it is; a restart finds all state in the log."""
        self._watch.close()
        self._data.close()
        self._control.close()
        self._appender.close()

    def _read(self) -> bool:
        """Waits on the reader of the next event: the data reader if a copy processes. Assignments wake that reader,
        too, so suspended copies need no polls of their own."""
        running = self._running()
        now = self._clock_ms()
        quiet = now - self._data_ms >= QUIET_MS
        most = REST_WAIT_MS if now - self._data_ms >= REST_AFTER_MS else MAX_WAIT_MS
        wait = max(0.0, min(most, self.next_deadline - now))
        awaits_control = self._herald.newest > self._decisions.decided or any(map(_AWAITS_CONTROL, running))
        if awaits_control and wait > 0.0:
            wait = FIRST_MS if quiet else min(wait, FIRST_MS if self._paced.all_on_demand else SOON_MS)
        for blocking in self._blocking:
            wait = min(wait, blocking.look_ms())
        active = not awaits_control and any(one.condition.flags.process for one in running)
        return self._read_data(wait) if active else self._read_control(wait)

    def _read_control(self, wait_ms: float) -> bool:
        came = self._control.poll(wait_ms / 1000)
        return self._read_data(0, look=False) or came

    def _read_data(self, wait_ms: float, look: bool = True) -> bool:
        came = self._data.poll(wait_ms / 1000)
        if came:
            self._data_ms = self._clock_ms()
        return (look and self._control.poll(0)) or came

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _read_plans(self, chunk: Chunk) -> None:
        """Reads plans and assignments."""
        self._changed |= self._decisions.read(chunk)
        self._report_decisions()

    def _reconcile(self) -> None:
        """Makes the copies here equal to those that the assignments name."""
        self._copies.reconcile()
        self._forget_jobs()
        if any([view.led_elsewhere() for view in self._jobs.values()]):
            self._around.checkpoints.hold(self._clock_ms())
        for copy in self._copies.here.values():
            copy.follow(self._decisions.plan)
            if copy.running is not None:
                copy.running.turns.wake()  # the checkpoint policy of its job may be another one

    def _skip(self, generation: str, skipped: Skipped) -> None:
        """Restarts the copies of a job that a person has repaired, without the records to skip."""
        view = self._jobs[generation]
        if view.skipped == skipped:
            return
        view.skipped = skipped
        view.forget_progress()
        self._control.remove(self._progress_readers[generation])
        self._control.add(self._progress_readers[generation], {Partition(view.topics.progress, 0): 0})
        self._copies.drop(generation)

    def _begin(self, plan: Plan, unit: str) -> UnitCopy | None:
        view = self._job(plan)
        return UnitCopy(HostedUnit(view, view.layouts[unit], self._around)) if unit in view.layouts else None

    def _job(self, plan: Plan) -> JobView:
        if plan.generation not in self._jobs:
            job = self._jobs[plan.generation] = JobView.of(plan, self._topics, self._decisions.assigned)
            job.skipped, job.spans = self._decisions.skipped(plan.generation), self._spans
            job.read = lambda: self._decisions.decided
            reader = self._progress_readers[plan.generation] = ProgressReader(job, self.refusals)
            self._control.add(reader, {Partition(job.topics.progress, 0): 0})
        return self._jobs[plan.generation]

    def _forget_jobs(self) -> None:
        in_use = self._copies.generations
        for generation in [g for g in self._jobs if g not in in_use]:
            del self._jobs[generation]
            self._control.remove(self._progress_readers.pop(generation))

    def _is_paced(self, partition: Partition) -> bool:
        """True if every job here that reads this topic of a user allows batches far apart."""
        reading = [job for job in self._jobs.values() if job.reads(partition)]
        return bool(reading) and all(job.paced for job in reading)

    def _wanted_ms(self, looked_ms: float) -> float:
        """The time at which copies here need records of paced partitions, which were last read at `looked_ms`."""
        running = self._running()
        return min((one.intake.cutter.wanted_ms(one.condition.flags, looked_ms) for one in running), default=math.inf)

    def _read_decisions(self, done: Callable[[], None]) -> None:
        """Calls `done` when the loop has read `assignments` up to its present end."""
        partition = Partition(self._topics.assignments, 0)

        def wait(outcome: object) -> None:
            if isinstance(outcome, int):
                self._waiting_for_decisions.append((outcome, done))
                self._report_decisions()
            else:
                self._read_decisions(done)

        self._around.restores.run(lambda: self._around.log.offsets([partition], "end")[partition], wait, "decisions")

    def _report_decisions(self) -> None:
        due = [done for end, done in self._waiting_for_decisions if self.decided + 1 >= end]
        self._waiting_for_decisions = [w for w in self._waiting_for_decisions if self.decided + 1 < w[0]]
        if due:
            self._changed = False
            self._reconcile()
        for done in due:
            done()

    def _refuse(self, partition: Partition, offset: int, cause: object) -> None:
        self.refusals.refuse(partition, offset, cause)

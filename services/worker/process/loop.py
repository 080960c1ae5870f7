"""The worker's one loop: decisions, data, checkpoint work.

Source: PROTOCOL 5. Nothing in it sleeps: it waits on the reader from which the next thing is expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import structlog

from schemas import assignments
from schemas.assignments import Change, Flags, split_unit_key
from schemas.events import Event
from schemas.events import encode as encode_event
from schemas.heartbeats import CopyState
from schemas.plans import Plan
from schemas.topics import ClusterTopics, Partition
from services.kernel.logs.admitted import Admitted
from services.kernel.logs.admitted import decode as decode_decision
from services.kernel.logs.decided import Author
from services.kernel.logs.refusals import Refusals
from services.kernel.state.image import Image
from services.log.assignments import read_standings
from services.log.protocol import Chunk, Log
from services.worker.checkpoint.scheduler import Scheduler
from services.worker.core.lifecycle import State
from services.worker.host.blocking import Blocking, Inline
from services.worker.host.job import JobView
from services.worker.host.surroundings import Surroundings
from services.worker.host.topic_watch import TopicWatch
from services.worker.process.listeners import Herald, Ignored, ProgressReader
from services.worker.process.subscriptions import SharedReader
from services.worker.unit.copy import UnitCopy

MAX_WAIT_MS = 100.0
SOON_MS = 2.0
"""For what is on its way: a cut or marker to be read back, or the outcome of a call."""
ASLEEP_MS = 4.0
"""Copies that sleep wait for an assignment, which the other reader brings: to look there often is a short takeover."""
QUIET_MS, FIRST_MS = 100.0, 10.0
"""After so long without data it is assignments, cuts and markers that are waited for; data that come then may wait that
long. A cut stays due until it is read back: a worker that only looked, without waiting, span for as long as that took.
"""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Identity:
    """One incarnation of a worker."""

    worker: str
    incarnation: str
    zone: str = ""
    slots: int = 8
    hosts: str = ""


class Worker:
    """Hosts the copies that `assignments` names for this incarnation.

    Args:
        clock_ms: monotonic. time_ms: time of day. cpu_ms: CPU time of the thread that turns.
        versions: of the libraries that plans pin.
        image: opens a new, empty image for a copy.
        watch: for questions to Kafka, about the users' topics and the ends of partitions; default: at once.

    Raises Retriable, and has opened nothing then.
    """

    def __init__(
        self,
        identity: Identity,
        log: Log,
        cluster: ClusterTopics,
        *,
        clock_ms: Callable[[], float],
        time_ms: Callable[[], int],
        versions: Mapping[str, str],
        image: Callable[[str], Image],
        deliveries: Blocking,
        restores: Blocking,
        watch: Blocking | None = None,
        cpu_ms: Callable[[], float] | None = None,
    ) -> None:
        self.identity, self._topics, self._clock_ms = identity, cluster, clock_ms
        happened = log.offsets([Partition(cluster.events, 0)], "end")
        decided = Partition(cluster.assignments, 0)
        standings = read_standings(log, decided)
        self._appender = log.appender(f"worker-{identity.worker}")
        self._data = SharedReader(log.reader(f"worker-{identity.worker}-data"))
        self._control = SharedReader(log.reader(f"worker-{identity.worker}-control"))
        self._blocking = (deliveries, restores)
        self._watch = TopicWatch(log, asks := watch or Inline())
        self.refusals = Refusals(self._happened, clock_ms, time_ms)
        self._around = Surroundings(
            log=log,
            appender=self._appender,
            deliveries=deliveries,
            restores=restores,
            asks=asks,
            checkpoints=Scheduler(),
            author=Author(identity.incarnation),
            versions=versions,
            clock_ms=clock_ms,
            cpu_ms=cpu_ms or clock_ms,
            time_ms=time_ms,
            image=image,
            data=self._data,
            control=self._control,
            topics=self._watch,
            read_decisions=self._read_decisions,
            happened=self._happened,
            refusals=self.refusals,
        )
        self._admitted = Admitted()
        self._assigned = standings.assigned
        self._jobs: dict[str, JobView] = {}
        self._progress_readers: dict[str, ProgressReader] = {}
        self._copies: dict[str, UnitCopy] = {}
        self._waiting_for_decisions: list[tuple[int, Callable[[], None]]] = []
        self._changed = False
        self.leaving = False
        """It was asked to stop, and others are to take over what it commits for."""
        self.decided = standings.next - 1
        self.next_deadline = -math.inf
        """When time alone makes a turn due, in milliseconds of the clock: news may do so earlier."""
        self._data_ms = clock_ms()
        self._control.add(self, {Partition(cluster.plans, 0): 0, decided: standings.next})
        # Measured: a paused partition resumes in up to a second unless its consumer always has another to fetch.
        self._herald = Herald()
        self._data.add(self._herald, {decided: standings.next})
        for reader in (self._data, self._control):
            reader.add(Ignored(), happened)

    # -- the turn -----------------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """One turn of the loop, waiting at most MAX_WAIT_MS; True if something was done. Raises WorkerUnfit."""
        came = self._read()
        if self._changed:
            self._changed = False
            self._reconcile()
        self._appender.poll()
        for blocking in self._blocking:
            came |= blocking.poll()
        now, due = self._clock_ms(), math.inf
        self._watch.turn(now)
        for copy in list(self._copies.values()):
            came |= copy.step(now)
            due = min(due, copy.next_deadline)
        self.next_deadline = due
        return came

    def copies(self) -> tuple[CopyState, ...]:
        """For the heartbeat."""
        return tuple(copy.report() for copy in list(self._copies.values()))

    @property
    def records(self) -> int:
        """Source records processed by the copies here."""
        return sum(copy.running.counts["records"] for copy in self._copies.values() if copy.running is not None)

    @property
    def in_charge(self) -> bool:
        """A copy here commits for its unit, as far as the assignments were read, and has not ended."""
        return any(copy.core.flags.commit and copy.core.state is not State.ENDED for copy in self._copies.values())

    def stops(self, cause: str) -> None:
        """Tells why, before it is closed."""
        self._happened(Event(time_ms=self._around.time_ms(), kind="worker-stops", detail=cause))

    def close(self) -> None:
        """Leaves every copy as it is: a restart finds all in the log."""
        self._watch.close()
        self._data.close()
        self._control.close()
        self._appender.close()

    def _read(self) -> bool:
        """Waits where the next thing is expected: control or data."""
        running = [copy.running for copy in self._copies.values() if copy.running is not None]
        awake = [one for one in running if not one.suspended]
        now = self._clock_ms()
        quiet = now - self._data_ms >= QUIET_MS
        wait = max(0.0, min(MAX_WAIT_MS, self.next_deadline - now))
        awaits_control = self._herald.newest > self.decided or any(one.awaits_control for one in running)
        if awaits_control and wait > 0.0:
            wait = FIRST_MS if quiet else min(wait, SOON_MS)
        if any(blocking.under_way for blocking in self._blocking):
            wait = min(wait, SOON_MS)
        if awaits_control:
            return self._read_control(wait)
        if len(awake) == len(running) > 0:
            return self._read_data(wait)
        if not quiet:
            return self._read_data(min(wait, ASLEEP_MS))
        return self._read_control(min(wait, FIRST_MS) if awake else wait)

    def _read_control(self, wait_ms: float) -> bool:
        came = self._control.poll(wait_ms / 1000)
        return self._read_data(0, look=False) or came

    def _read_data(self, wait_ms: float, look: bool = True) -> bool:
        came = self._data.poll(wait_ms / 1000)
        if came:
            self._data_ms = self._clock_ms()
        return (look and self._control.poll(0)) or came

    # -- decisions ----------------------------------------------------------------------------------------------------

    def offer(self, chunk: Chunk) -> None:
        """Plans and assignments; a record that is none of ours is reported and skipped."""
        for message in chunk.messages:
            try:
                if chunk.partition.topic == self._topics.plans:
                    self._changed |= self._admitted.read(decode_decision(message.value() or b""))
                else:
                    self.decided = message.offset()
                    self._changed |= bool(self._assigned.read(assignments.decode(message.value() or b"")))
            except msgspec.DecodeError as error:
                self.refusals.refuse(chunk.partition, message.offset(), error)
        self._tell_decisions()

    def broken(self, cause: str, partition: Partition | None = None) -> None:
        raise RuntimeError(f"jobs.plans or assignments can no longer be read: {cause}")

    def _reconcile(self) -> None:
        """Makes the copies here those that the assignments name."""
        named = self._assigned.of_incarnation(self.identity.worker, self.identity.incarnation)
        wanted = {key: change for key, change in named.items() if not self._over(key)}
        for key, copy in list(self._copies.items()):
            if key not in wanted:
                copy.unplace()
                del self._copies[key]
        self._pass_over()
        for key, change in wanted.items():
            self._place(key, change)
        self._forget_jobs()

    def _pass_over(self) -> None:
        """Copies of a job that somebody has repaired begin anew, without the records that are to be skipped."""
        for generation, view in self._jobs.items():
            skipped = self._admitted.skipped(generation)
            if skipped == view.skipped:
                continue
            view.skipped = skipped
            view.progress.clear()
            self._control.remove(self._progress_readers[generation])
            self._control.add(self._progress_readers[generation], {Partition(view.topics.progress, 0): 0})
            for key in [key for key in self._copies if split_unit_key(key)[1] == generation]:
                self._copies.pop(key).unplace()

    def _over(self, key: str) -> bool:
        """Its job has ended, whatever `assignments` says."""
        return self._admitted.ended(split_unit_key(key)[1]) is not None

    def _place(self, key: str, change: Change) -> None:
        job, generation, unit = split_unit_key(key)
        plan = self._admitted.plan(generation)
        if plan is None or plan.job != job:
            return
        if key not in self._copies:
            view = self._job(plan)
            if unit not in view.layouts:
                return  # anybody may append anything
            self._copies[key] = UnitCopy(view, view.layouts[unit], self._around)
        if self._copies[key].core.epoch < change.epoch:
            self._copies[key].place(change.epoch, self._flags(change))

    def _flags(self, change: Change) -> Flags:
        mine = (self.identity.worker, self.identity.incarnation)
        return next(copy.flags for copy in change.copies if (copy.worker, copy.incarnation) == mine)

    def _job(self, plan: Plan) -> JobView:
        if plan.generation not in self._jobs:
            job = self._jobs[plan.generation] = JobView.of(plan, self._topics, self._assigned)
            job.skipped = self._admitted.skipped(plan.generation)
            reader = self._progress_readers[plan.generation] = ProgressReader(job, self.refusals)
            self._control.add(reader, {Partition(job.topics.progress, 0): 0})
        return self._jobs[plan.generation]

    def _forget_jobs(self) -> None:
        in_use = {split_unit_key(key)[1] for key in self._copies}
        for generation in [g for g in self._jobs if g not in in_use]:
            del self._jobs[generation]
            self._control.remove(self._progress_readers.pop(generation))

    def _read_decisions(self, done: Callable[[], None]) -> None:
        """Asks for the end of `assignments` as it is now; `done` runs once the loop has read up to it."""
        partition = Partition(self._topics.assignments, 0)

        def ask() -> int:
            return self._around.log.offsets([partition], "end")[partition]

        def wait(outcome: object) -> None:
            if isinstance(outcome, int):
                self._waiting_for_decisions.append((outcome, done))
                self._tell_decisions()
            else:
                self._read_decisions(done)

        self._around.restores.run(ask, wait, "decisions")

    def _tell_decisions(self) -> None:
        due = [done for end, done in self._waiting_for_decisions if self.decided + 1 >= end]
        self._waiting_for_decisions = [w for w in self._waiting_for_decisions if self.decided + 1 < w[0]]
        if due:
            self._changed = False
            self._reconcile()
        for done in due:
            done()

    def _happened(self, event: Event) -> None:
        event = msgspec.structs.replace(event, worker=self.identity.worker)
        _log.info(event.kind, job=event.job, unit=event.unit, epoch=event.epoch, detail=event.detail)
        self._appender.append(Partition(self._topics.events, 0), encode_event(event))

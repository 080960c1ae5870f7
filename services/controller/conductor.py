"""Carries out the core's actions on a Log, and reports their outcomes to the core.

Source: PROTOCOL 1, 3 and 9. `feed` and `tick` are for the thread that owns the core; `carry_out` blocks, and may run in
another thread, one call at a time. `run` does all of it at once: for logs in memory, where nothing blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum

import msgspec

from holdfast.schemas import assignments, formats, heartbeats, progress
from holdfast.schemas.events import Event
from holdfast.schemas.plans import Skip, Snapshot
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.controller.core import actions as do
from holdfast.services.controller.core import events as happened
from holdfast.services.controller.core.controller import Controller
from holdfast.services.controller.counts import published
from holdfast.services.controller.effects import Effects, Means
from holdfast.services.controller.plan_snapshots import PlanSnapshots
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.decisions.jobs import Jobs
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.decisions.standings import Standings
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import OtherFormat, Retriable
from holdfast.services.log.late.jobs import feed_kept
from holdfast.services.log.protocol import Log

_log = get_logger()

ROOT_MS = 500
"""Time between two checks if a snapshot or a trim is due."""
KEPT_LOOK_MS = 5 * 60_000
"""Time between two searches for dead letters whose time is over."""


class Kind(Enum):
    """The topics that the controller reads."""

    SUBMIT = "jobs.submit"
    PLANS = "jobs.plans"
    ASSIGNMENTS = "assignments"
    HEARTBEATS = "heartbeats"


class Conductor:
    """A replica of the controller on one log.

    Args:
        time_ms: time of day.
        rooting: keeps the logs of jobs short; None: the default.

    effects: carries out the core's decisions.
    """

    def __init__(
        self,
        log: Log,
        cluster: ClusterTopics,
        core: Controller,
        time_ms: Callable[[], int],
        means: Means,
        rooting: PlanSnapshots | None = None,
    ) -> None:
        self.core = core
        self.cluster = cluster
        self._log = log
        self._time_ms = time_ms
        assigned = lambda: core.goals.standings.assigned.format  # noqa: E731
        self.effects = Effects(log, cluster, core.name, time_ms, means=means, format=assigned)
        self._pending: list[do.Action] = []
        self._looked_ms = time_ms()
        self._rooted_ms = 0
        self.rooting = rooting or PlanSnapshots(core.name, cluster)
        self.refusals = Refusals(self._publish_event, lambda: float(time_ms()), time_ms)

    def topics(self) -> dict[Partition, Kind]:
        """Partitions that the conductor is fed from, and their kinds."""
        names = {
            self.cluster.submit: Kind.SUBMIT,
            self.cluster.plans: Kind.PLANS,
            self.cluster.assignments: Kind.ASSIGNMENTS,
            self.cluster.heartbeats: Kind.HEARTBEATS,
        }
        return {Partition(name, 0): kind for name, kind in names.items()}

    def progress_topics(self) -> dict[Partition, str]:
        """Progress partitions that the core is to be fed from, with their generations."""
        topics = self.cluster.job
        return {Partition(topics(plan.job, plan.generation).progress, 0): plan.generation for plan in self.core.watched}

    # -- records ------------------------------------------------------------------------------------------------------

    def begin(self, standings: Standings, jobs: Jobs) -> None:
        """Takes the standings of units and goals, and the valid records of jobs; all records fed later follow these."""
        self._handle(happened.AssignmentsBegun(standings), self._time_ms())
        self.rooting.begin(jobs)
        kinds = self.topics()
        feed_kept(self.cluster, jobs, lambda partition, *record: self._take(kinds[partition], *record))

    def feed(self, kind: Kind, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record of a cluster topic; a malformed one is counted, reported once, and skipped.

        Raises OtherFormat.
        """
        now_us = self._time_ms() * 1000
        try:
            if kind is Kind.PLANS and self.rooting.planned(offset, timestamp_ms, value or b"", now_us) is None:
                return
            self._take(kind, offset, timestamp_ms, value or b"")
        except msgspec.DecodeError as error:
            self._refuse(Partition(self._topic(kind), 0), offset, error)
        if why := formats.too_old(self.core.goals.standings.assigned.format):
            raise OtherFormat(why)
        if kind is Kind.SUBMIT:
            self.rooting.submitted(offset, timestamp_ms, value or b"", now_us)
        self._publish_differing()

    def _take(self, kind: Kind, offset: int, timestamp_ms: int, value: bytes) -> None:
        event = _event(kind, offset, timestamp_ms, value)
        if event is None:
            return
        now_ms = self._time_ms()
        self._handle(event, now_ms if self.core.acting else min(now_ms, timestamp_ms))

    def feed_progress(self, generation: str, offset: int, value: bytes | None) -> None:
        try:
            event = happened.ProgressRead(generation, progress.decode(value or b""))
        except msgspec.DecodeError as error:
            plan = self.core.jobs[generation].plan if generation in self.core.jobs else None
            if plan is not None:
                self._refuse(Partition(self.cluster.job(plan.job, generation).progress, 0), offset, error)
            return
        self._handle(event, self._time_ms())

    def caught_up(self) -> None:
        """Lets the core act: all records that the topics held at the start have been fed."""
        running = [job.label for job in self.core.jobs.values() if not job.over]
        with suppress(Retriable):  # without an answer, states and latencies count from now on
            self._handle(happened.Published(published(self._log, self.cluster, running)), self._time_ms())
        self._handle(happened.CaughtUp(), self._time_ms())

    def tick(self, now_ms: int) -> None:
        self._handle(happened.Ticked(), now_ms)
        if self.core.acting and now_ms - self._looked_ms >= KEPT_LOOK_MS:
            self._looked_ms = now_ms
            over = frozenset(job.generation for job in self.core.jobs.values() if job.over)
            retired = self.core.goals.standings.assigned.retired.joined(self.rooting.jobs.admitted.retired)
            named = frozenset(topic for job in self.core.jobs.values() if (topic := job.savepoint))
            self._pending.append(do.DeleteKept(over, retired, named))
        if self.core.acting and now_ms - self._rooted_ms >= ROOT_MS:
            self._rooted_ms = now_ms
            if (record := self.rooting.due(now_ms)) is not None:
                self._pending.append(do.AppendRoot(record))
            if (upto := self.rooting.trims.due(now_ms * 1000)) is not None:
                self._pending.append(do.TrimLogs(upto))

    def _publish_differing(self) -> None:
        """Publishes snapshots that differ from the logs, which is a bug or foul play."""
        for offset in self.rooting.differs:
            detail = f"the snapshot at {offset} of {self.cluster.plans} is not what the records below it say"
            self._publish_event(Event(self._time_ms(), "snapshot-differs", detail=detail))
        self.rooting.differs.clear()

    def settle(self, outcomes: Iterable[happened.Outcome]) -> None:
        """Takes the outcomes that `carry_out` has returned."""
        for outcome in outcomes:
            if isinstance(outcome, happened.Failed):
                action = outcome.action
                if isinstance(action, do.AppendRoot):
                    self.rooting.withdraw(action.record)
                elif isinstance(action, do.TrimLogs):
                    self.rooting.trims.withdraw()
                generation = do.generation_of(action)
                job = self.core.jobs[generation].name if generation in self.core.jobs else None
                _log.warning(
                    "action failed", action=type(action).__name__, job=job, generation=generation, cause=outcome.cause
                )
            self._handle(outcome, self._time_ms())

    def _handle(self, event: happened.Event, now_ms: int) -> None:
        self._pending += self.core.handle(event, now_ms)

    def _refuse(self, partition: Partition, offset: int, error: Exception) -> None:
        _log.debug("record refused", at=f"{partition} {offset}", error=str(error))
        self.refusals.refuse(partition, offset, error)

    def _topic(self, kind: Kind) -> str:
        return next(partition.topic for partition, found in self.topics().items() if found is kind)

    def _publish_event(self, event: Event) -> None:
        """Publishes an event.

        Events of records from before the start are dropped: another replica, or this one in its last life, published
        them.
        """
        if self.core.acting:
            _log.warning(event.kind, detail=event.detail)
            self._pending.append(do.PublishEvent(event))

    # -- actions ------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True if `carry_out` has work to do."""
        return bool(self._pending) or self.effects.unanswered

    def take(self) -> list[do.Action]:
        """Returns the actions to carry out, in order, and forgets them."""
        taken, self._pending = self._pending, []
        return taken

    def run(self) -> None:
        """Carries out the pending actions and those that follow from them."""
        if self.effects.unanswered:
            self.settle(self.carry_out(()))
        while self._pending:
            self.settle(self.carry_out(self.take()))

    def carry_out(self, taken: Sequence[do.Action]) -> list[happened.Outcome]:
        """Carries out actions; returns their outcomes. Blocks: see Effects."""
        return self.effects.carry_out(taken)


def _event(kind: Kind, offset: int, timestamp_ms: int, value: bytes) -> happened.Event | None:
    """Returns the event for a record; None if the record does not concern a controller.

    Raises msgspec.DecodeError on a malformed record, except on `jobs.submit`, where a user gets an answer instead.
    """
    match kind:
        case Kind.SUBMIT:
            return happened.Submitted(offset, timestamp_ms, value)
        case Kind.PLANS:
            decision = decode_decision(value)
            return None if isinstance(decision, Skip | Snapshot) else happened.DecisionRead(decision)
        case Kind.ASSIGNMENTS:
            return happened.AssignmentRead(assignments.decode(value), offset)
        case Kind.HEARTBEATS:
            record = heartbeats.decode(value)
            return None if isinstance(record, heartbeats.Echo) else happened.BeatRead(record)

"""A recovery replica: reads records, appends proposals. The core decides; this module reads and appends.

Source: PROTOCOL 0.1, 5 and 8. Events for people are in decision_events.py, snapshots in assignment_snapshots.py. No
call here blocks: appends are answered later, and proposals that were not appended are given back to the core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from holdfast.schemas import assignments, commands, formats, heartbeats, plans
from holdfast.schemas.assignments import Assignment, Change, job_key_of, unit_key
from holdfast.schemas.commands import Command
from holdfast.schemas.events import decode as decode_event
from holdfast.schemas.heartbeats import Echo
from holdfast.schemas.plans import Ended, Plan, Skip
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.decisions.refusals import Refusals
from holdfast.services.decisions.snapshots import Trims
from holdfast.services.decisions.standings import EVERY, Standings
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.kernel.errors import OtherFormat
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.protocol import Appender
from holdfast.services.recovery.assignment_snapshots import AssignmentSnapshots
from holdfast.services.recovery.core.observed import (
    AssignmentRead,
    BeatRead,
    Began,
    CaughtUp,
    DecisionRead,
    DrillAsked,
    EchoRead,
    Event,
    MoveAsked,
    PeerRead,
    PolicyAsked,
    Replanned,
    RollbackAsked,
    SchemeAsked,
    TakeoverJudged,
    VersionsAccepted,
    Withdrawn,
)
from holdfast.services.recovery.core.placement.reassignment import Reassignment
from holdfast.services.recovery.core.recovery import Recovery
from holdfast.services.recovery.core.replication.answering import Answer, answer
from holdfast.services.recovery.core.unit.facts.proving import BATCHES
from holdfast.services.recovery.decision_events import DecisionEvents

ECHO_MS = 50
"""Time between two heartbeats that a replica sends itself: a late one shows that the broker or this process is slow."""

if TYPE_CHECKING:
    from holdfast.services.recovery.meters import Meters

_log = get_logger()


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _now_ms() -> int:
    return int(time.time() * 1000)


class Replica:
    """The shell between the log and the core.

    Args:
        name: never used twice.
        begun: standings at the offset from which it reads `assignments`; None: it reads all of it.
        now_us: monotonic clock.
        calm_ms: time for which all must have been calm before a unit moves for balance; None: no such moves.
        snapshot_every: number of records of `assignments` between two snapshots.
        safe_s: age of a snapshot that the topic is trimmed to; None: never. The shell trims to `trims`.
        unsealed: records by topic that the log refuses because they lack the cluster's seal.
        reassignment: of standbys; None: the default.
        proof: number of equal batches after which a copy with other versions may lead.
        fixed_grace_us: grace of every heartbeat; None: it follows the heartbeats.
        aside: executor of the planner of replicas; None: a thread of its own, made at the first question.
    """

    def __init__(
        self,
        name: str,
        topics: ClusterTopics,
        appender: Appender,
        backlog: Backlog,
        beat_ms: int,
        now_us: Callable[[], int] = _now_us,
        calm_ms: float | None = None,
        begun: Standings | None = None,
        snapshot_every: int = EVERY,
        safe_s: float | None = None,
        unsealed: Callable[[], Mapping[str, int]] = dict,
        reassignment: Reassignment | None = None,
        proof: int = BATCHES,
        fixed_grace_us: int | None = None,
        aside: Executor | None = None,
    ) -> None:
        calm_us = None if calm_ms is None else round(calm_ms * 1000)
        self.core = Recovery(
            beat_ms * 1000, ECHO_MS * 1000, calm_us, reassignment, proof=proof, fixed_grace_us=fixed_grace_us
        )
        self.core.observe(Began(Standings() if begun is None else begun), now_us())
        self.trims = Trims(None if safe_s is None else round(safe_s * 1_000_000))
        self._name = name
        self._topics = topics
        self._appender = appender
        self._backlog = backlog
        self._now_us = now_us
        self._generations: dict[str, str] = {}
        self._echoed_us = now_us()
        self._aside = aside
        self._thinking = list[Future[Answer]]()
        self._format_asked = 0
        known, assigned = self.core.known, Partition(topics.assignments, 0)
        self._publishing = DecisionEvents(
            name, known, appender, Partition(topics.events, 0), now_us=now_us, now_ms=_now_ms
        )
        publish = self._publishing.event
        self._snapshotting = AssignmentSnapshots(
            name,
            known,
            appender,
            assigned,
            trims=self.trims,
            every=snapshot_every,
            publish=publish,
            now_us=now_us,
            now_ms=_now_ms,
        )
        self.refusals = Refusals(publish, lambda: now_us() / 1000, _now_ms)
        self._unsealed = unsealed
        self._meters: Meters | None = None
        self._readers: Mapping[Partition, Callable[[int, bytes], None]] = {
            Partition(topics.heartbeats, 0): self._beat,
            assigned: self._assignment,
            Partition(topics.plans, 0): self._decision,
            Partition(topics.submit, 0): self._command,
            Partition(topics.events, 0): self._happened,
        }

    def meters(self) -> Meters:
        """Returns the Prometheus metrics, which count from the first call on; only this call loads the client."""
        from holdfast.services.recovery.meters import Meters

        if self._meters is None:
            self._meters = Meters(self.core.known, _now_ms(), self.refusals.most, self._unsealed, name=self._name)
        return self._meters

    def feed(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record; an unreadable record is reported and skipped."""
        try:
            self._readers[partition](offset, value or b"")
        except msgspec.DecodeError as error:
            self.refusals.refuse(partition, offset, error)

    def read(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record; after the last record of the backlog, the replica begins to act."""
        self.feed(partition, offset, timestamp_ms, value)
        self._backlog.read(partition, offset)
        self._begin()
        self.turn()

    def passed(self, partition: Partition, offset: int) -> None:
        """Takes the offset of a record that does not count."""
        self._backlog.read(partition, offset)
        self._begin()

    def turn(self) -> None:
        """Does the work that time alone makes due."""
        self._appender.poll()
        now = self._now_us()
        if now >= self.core.next_deadline():
            self._append(self.core.tick(now))
            self._publishing.stable_again(self.core.stable_again)
            self._publishing.unserved()
            self._publishing.judged(now)
            self._raise_format()
            self._replan()

    def echo(self) -> int:
        """Sends a heartbeat to the replica itself, unless it has read or sent a heartbeat within ECHO_MS. Returns the
        microseconds until the next echo may be due.
        """
        now = self._now_us()
        if (left_us := self._echoed_us + ECHO_MS * 1000 - now) > 0:
            return left_us
        self._echoed_us = now
        echo = heartbeats.encode(Echo(self._name, formats.NEWEST))
        self._appender.append(Partition(self._topics.heartbeats, 0), echo)
        return ECHO_MS * 1000

    def trimmed(self, starts: Mapping[Partition, int]) -> None:
        """Takes the new start offsets of partitions: heartbeats of the backlog may have been deleted by age."""
        self._backlog.trimmed(starts)
        self._begin()

    @property
    def behind(self) -> list[Partition]:
        """Partitions that have not been read up to the end that they had at the start."""
        return self._backlog.left

    # -- records ------------------------------------------------------------------------------------------------------

    def _beat(self, offset: int, value: bytes) -> None:
        record = heartbeats.decode(value)
        self._echoed_us = self._now_us()
        if not isinstance(record, Echo):
            self._observe(BeatRead(record))
            self._publishing.heard(record)
        elif record.replica == self._name:
            self._observe(EchoRead())
        else:
            self._observe(PeerRead(record.replica, record.reads))

    def _assignment(self, offset: int, value: bytes) -> None:
        record = assignments.decode(value)
        before = {change.unit: self.core.known.assigned.of(change.unit) for change in record.changes}
        self._observe(AssignmentRead(record, offset))
        if why := formats.too_old(self.core.known.assigned.format):
            raise OtherFormat(why)
        self._publishing.decided(record, before)
        self._publishing.unexplained(self.core.reading.unexplained)
        self._publishing.incidents(record.author)
        self._publishing.outages(record.author)
        self._snapshotting.read(record, offset)

    def _decision(self, offset: int, value: bytes) -> None:
        decision = decode_decision(value)
        if isinstance(decision, Skip | plans.Snapshot):
            return  # concerns readers of the job's own topics, or readers that begin late
        if isinstance(decision, Plan):
            self._generations[decision.job] = decision.generation
        elif isinstance(decision, Ended) and self._generations.get(decision.job) == decision.generation:
            del self._generations[decision.job]  # another generation may have the name by now
        self._observe(DecisionRead(decision))

    def _command(self, offset: int, value: bytes) -> None:
        command = commands.decode(value)
        if not isinstance(command, Command) or command.job not in self._generations:
            return
        key = unit_key(command.job, self._generations[command.job], command.unit)
        if command.command == "scheme":
            self._observe(SchemeAsked(key, command.scheme, offset))
        elif command.command == "checkpoint":
            self._observe(PolicyAsked(job_key_of(key), offset))
        elif command.command == "accept":
            self._observe(VersionsAccepted(job_key_of(key), offset))
        elif command.command == "rollback":
            self._observe(RollbackAsked(job_key_of(key), key if command.unit else "", offset))
        elif command.command == "move":
            self._observe(MoveAsked(key, command.worker, offset))
        elif command.command == "drill":
            self._observe(DrillAsked(key, offset))

    def _happened(self, offset: int, value: bytes) -> None:
        event = decode_event(value)
        if self._meters is not None:
            self._meters.count(event)
        if event.job not in self._generations or not event.unit:
            return
        key = unit_key(event.job, self._generations[event.job], event.unit)
        if (needed := self._publishing.took_over(key, event)) is not None:
            self._observe(TakeoverJudged(key, needed))

    def _replan(self) -> None:
        """Hands questions to the planner of replicas, and takes finished answers; it waits for none."""
        done = [one for one in self._thinking if one.done()]
        self._thinking = [one for one in self._thinking if one not in done]
        for one in done:
            self._observe(Replanned(one.result()))
        questions = self.core.known.replication.questions
        if questions and self._aside is None:
            self._aside = ThreadPoolExecutor(1, "planner")
        while questions and self._aside is not None:
            self._thinking.append(self._aside.submit(answer, questions.pop(0)))

    def _raise_format(self) -> None:
        """Proposes the newer format once every live process reads it."""
        due = self.core.format_due
        if due <= self._format_asked:
            return
        self._format_asked = due
        _log.info("all processes read a newer format", format=due)

        def answered(error: Exception | None, _offset: int) -> None:
            if error is not None:
                self._format_asked = 0

        record = assignments.encode(Assignment(self._name, _now_ms(), (), format=due))
        self._appender.append(Partition(self._topics.assignments, 0), record, done=answered)

    # -- proposals ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self.core.known.acting and not self._backlog.left:
            _log.info("caught up", units=len(self.core.known.assigned.units()))
            self._observe(CaughtUp())

    def _observe(self, event: Event) -> None:
        self._append(self.core.observe(event, self._now_us()))

    def _append(self, changes: Iterable[Change]) -> None:
        proposed, incidents = tuple(changes), tuple(self.core.incident_records)
        self.core.incident_records.clear()
        known = self.core.known
        plans_of_replicas, outages = tuple(known.replication.records), tuple(known.outages.records)
        known.replication.records.clear()
        known.outages.records.clear()
        if not (proposed or incidents or plans_of_replicas or outages):
            return

        def answered(error: Exception | None, _offset: int) -> None:
            if error is not None:
                self._observe(Withdrawn(proposed, incidents, plans_of_replicas, outages))

        made = Assignment(
            self._name,
            _now_ms(),
            proposed,
            incidents=incidents,
            replications=plans_of_replicas,
            outages=outages,
        )
        record = assignments.encode(made)
        self._appender.append(Partition(self._topics.assignments, 0), record, done=answered)

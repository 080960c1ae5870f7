"""One recovery replica: records in, proposals out. The core decides; this reads, appends and publishes.

Source: PROTOCOL 0.1, 5 and 8. Nothing here waits: appends are answered later, and what was not answered is given back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from schemas import assignments, commands, formats, heartbeats, plans
from schemas.assignments import Assignment, Change, Snapshot, job_key_of, split_unit_key, unit_key
from schemas.commands import Command
from schemas.events import Event as Happened
from schemas.events import decode as decode_event
from schemas.events import encode as encode_event
from schemas.heartbeats import Echo
from schemas.plans import Ended, Plan, Skip
from schemas.topics import ClusterTopics, Partition
from services.kernel.errors import OtherFormat
from services.kernel.logs.admitted import decode as decode_decision
from services.kernel.logs.refusals import KIND as REFUSED
from services.kernel.logs.refusals import Refusals
from services.kernel.logs.snapshots import MAX_BYTES, Pace, Trims
from services.kernel.logs.standings import EVERY, MANY, Standings
from services.log.backlog import Backlog
from services.log.protocol import Appender
from services.recovery.core.adaptive.judging import Judgement, Judging, needed, rounded
from services.recovery.core.adaptive.wording import alternatives, lines
from services.recovery.core.job.incident import kind_of, story_line
from services.recovery.core.observed import (
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
    RollbackAsked,
    SchemeAsked,
    TakeoverJudged,
    VersionsAccepted,
    Withdrawn,
)
from services.recovery.core.placement.reassignment import Reassignment
from services.recovery.core.recovery import Recovery
from services.recovery.core.unit.proving import BATCHES
from services.recovery.core.unit.reasons import BEGINS, chosen_for_promise, follows_failure, move_kind
from services.recovery.core.unit.versions import found_out
from services.recovery.meters import INSTABILITY_PHASE, Meters

ECHO_MS = 50
"""Between two heartbeats that a replica sends itself: late ones say that the broker or this process is slow."""

_log = structlog.get_logger()


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _now_ms() -> int:
    return int(time.time() * 1000)


class Replica:
    """Between the log and the core.

    Args:
        name: never used twice.
        begun: how units stood where it begins to read `assignments`; None: it reads all of it.
        now_us: monotonic.
        calm_ms: all must have been calm for so long before a unit moves for balance; None: none does.
        snapshot_every: records of `assignments` between two snapshots. safe_s: age of a snapshot that the topic is
            trimmed to; None: it never is. trims: up to where; the shell asks, and trims.
        unsealed: records by topic that the log refuses, for want of the cluster's seal.
        reassignment: of standbys; None: as by default.
        proof: so many batches must be equal before a copy with other versions may lead.
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
    ) -> None:
        calm_us = None if calm_ms is None else round(calm_ms * 1000)
        self.core = Recovery(beat_ms * 1000, ECHO_MS * 1000, calm_us, reassignment, proof)
        self.core.observe(Began(Standings() if begun is None else begun), now_us())
        self._snapshots = Pace(name, snapshot_every, MANY)
        self.trims = Trims(None if safe_s is None else round(safe_s * 1_000_000))
        self._name, self._topics, self._appender, self._backlog, self._now_us = name, topics, appender, backlog, now_us
        self._generations: dict[str, str] = {}
        self._signs_ms: dict[str, int] = {}
        self._last_author = ""
        self._unserved: frozenset[str] = frozenset()
        self._moves_ms: dict[str, int] = {}
        """When the unit, or its standby, began to move."""
        self._format_asked = 0
        self.refusals = Refusals(self._publish_event, lambda: now_us() / 1000, _now_ms)
        self._judging = Judging()
        self.meters = Meters(self.core, _now_ms(), self.refusals.most, unsealed, name=name)
        self._readers: Mapping[Partition, Callable[[int, bytes], None]] = {
            Partition(topics.heartbeats, 0): self._beat,
            Partition(topics.assignments, 0): self._assignment,
            Partition(topics.plans, 0): self._decision,
            Partition(topics.submit, 0): self._command,
            Partition(topics.events, 0): self._happened,
        }

    @property
    def partitions(self) -> list[Partition]:
        return list(self._readers)

    def feed(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record; one that cannot be read is reported and skipped."""
        try:
            self._readers[partition](offset, value or b"")
        except msgspec.DecodeError as error:
            self.refusals.refuse(partition, offset, error)

    def read(self, partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
        """Takes a record, and begins to act behind the last one of the backlog."""
        self.feed(partition, offset, timestamp_ms, value)
        self._backlog.read(partition, offset)
        self._begin()
        self.turn()

    def passed(self, partition: Partition, offset: int) -> None:
        """A record that does not count."""
        self._backlog.read(partition, offset)
        self._begin()

    def turn(self) -> None:
        """What time alone makes due."""
        self._appender.poll()
        now = self._now_us()
        if now >= self.core.next_deadline():
            self._append(self.core.tick(now))
            self._publish_stable_again()
            self._publish_unserved()
            for unit, judgement in self._judging.due(now):
                self._publish_judgement(unit, judgement)
            self._raise_format()

    def echo(self) -> None:
        """Sends itself a heartbeat."""
        echo = heartbeats.encode(Echo(self._name, formats.NEWEST))
        self._appender.append(Partition(self._topics.heartbeats, 0), echo)

    def trimmed(self, starts: Mapping[Partition, int]) -> None:
        """Heartbeats of the backlog may have gone by age."""
        self._backlog.trimmed(starts)
        self._begin()

    @property
    def behind(self) -> list[Partition]:
        """What has not been read to its end as it was at the start."""
        return self._backlog.left

    # -- records ------------------------------------------------------------------------------------------------------

    def _beat(self, offset: int, value: bytes) -> None:
        record = heartbeats.decode(value)
        if not isinstance(record, Echo):
            self._observe(BeatRead(record))
            self._signs_ms[record.worker] = record.time_ms
            self._publish_clash(record.worker)
        elif record.replica == self._name:
            self._observe(EchoRead())
        else:
            self._observe(PeerRead(record.replica, record.reads))

    def _publish_clash(self, worker: str) -> None:
        """Two workers have one name, which retires the older one: their people must know."""
        clash = self.core.detector.clashes.pop(worker, None)
        if clash is None:
            return
        newer, older = (f"process {beat.pid} at {beat.address or 'an unknown address'}" for beat in clash)
        detail = f"{newer} has taken the place of {older}, which still runs: give each host its own HOLDFAST_HOST"
        _log.warning("two workers have one name", worker=worker, detail=detail)
        happened = Happened(_now_ms(), "name-clash", worker=worker, detail=detail)
        self._appender.append(Partition(self._topics.events, 0), encode_event(happened))

    def _assignment(self, offset: int, value: bytes) -> None:
        record = assignments.decode(value)
        before = {change.unit: self.core.assigned.of(change.unit) for change in record.changes}
        self._observe(AssignmentRead(record, offset))
        if why := formats.too_old(self.core.assigned.format):
            raise OtherFormat(why)
        for change in record.changes:
            if self.core.assigned.of(change.unit) is not change:
                continue
            self._last_author = record.author
            foreseen = self.core.adaptive.foreseen.pop(change.unit, None)
            detection_ms = self._detection_ms(before[change.unit], change)
            if record.author == self._name:
                self._decided(before[change.unit], change, detection_ms)
            if foreseen is not None:
                if detection_ms is None:  # of a drill, or nobody has heard the failed worker
                    detection_ms = foreseen.phases.detection
                mine = record.author == self._name
                self._judging.began(change.unit, foreseen, detection_ms, mine, self._now_us())
            elif change.committer is not None:
                self._judging.leads(change.unit, change.committer.worker, self._now_us())
            if change.arriving is not None or change.replacing is not None:
                self._moves_ms.setdefault(change.unit, record.time_ms)
            else:
                self._moves_ms.pop(change.unit, None)
        self._publish_unexplained()
        self._publish_incidents(record.author)
        if record.snapshot is not None:  # none follows from another: replicas would answer each other for ever
            self._check(record.snapshot, offset)
        elif self.core.acting and self._due(self.core.standings):
            self._write_snapshot()

    def _publish_incidents(self, author: str) -> None:
        """What was decided of incidents, by the replica that proposed it."""
        for incident in self.core.incidents.news if author == self._name and self.core.acting else ():
            detail = story_line(incident)
            _log.info("incident", job=incident.job, number=incident.number, detail=detail)
            self._publish_event(Happened(_now_ms(), kind_of(incident), incident.job, detail=detail))
        self.core.incidents.news.clear()

    def _publish_unexplained(self) -> None:
        """Records that no row of a unit's table makes are another version's, or somebody's mistake."""
        for change, why in self.core.unexplained:
            job, _, unit = split_unit_key(change.unit)
            _log.warning("unexplained", unit=change.unit, epoch=change.epoch, why=why, reason=change.reason)
            detail = f"{why} ({change.reason})" if change.reason else why
            self._publish_event(Happened(_now_ms(), "unexplained", job, unit, change.epoch, detail=detail))
        self.core.unexplained.clear()

    def _publish_stable_again(self) -> None:
        """Every replica measures the period; the one whose record was the last publishes it."""
        for period in self.core.stable_again:
            _log.info("protected-again", workers=period.workers, units=len(period.units), ms=period.lasted_us / 1000)
            if self._last_author == self._name:
                took = {INSTABILITY_PHASE: period.lasted_us / 1000}
                self._publish_event(
                    Happened(_now_ms(), "protected-again", worker=period.workers[0], detail=str(period), phases_ms=took)
                )
        self.core.stable_again.clear()

    def _publish_unserved(self) -> None:
        """Units without a place for their standbys, and those that have one again. By the same replica as above."""
        unserved = self.core.sharing.unserved
        changed = self._unserved.symmetric_difference(unserved)
        self._unserved = frozenset(unserved)
        for key in sorted(changed) if self._last_author == self._name else ():
            job, _, unit = split_unit_key(key)
            kind = "standby-has-no-place" if key in unserved else "standby-has-a-place"
            self._publish_event(Happened(_now_ms(), kind, job, unit, detail=unserved.get(key, "")))

    def _decision(self, offset: int, value: bytes) -> None:
        decision = decode_decision(value)
        if isinstance(decision, Skip | plans.Snapshot):
            return  # concerns those who read the job's own topics, or begin late
        if isinstance(decision, Plan):
            self._generations[decision.job] = decision.generation
        elif isinstance(decision, Ended):
            self._generations.pop(decision.job, None)
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
        self.meters.count(event)
        if event.job not in self._generations or not event.unit:
            return
        key = unit_key(event.job, self._generations[event.job], event.unit)
        if event.kind == "unit-active":
            self._judging.active(key, event.epoch, event.worker, event.phases_ms, self._now_us())
        elif event.predicted_ms:
            self._judging.published(key, event.epoch)
            self._observe(TakeoverJudged(key, needed(event.phases_ms, event.predicted_ms)))

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def _due(self, standings: Standings) -> bool:
        return self._snapshots.due(standings.next, standings.snapshotted, len(standings))

    def _check(self, snapshot: Snapshot, offset: int) -> None:
        """A snapshot that says something else than the log is nobody's to believe, and a bug or a stranger's doing."""
        agrees = self.core.standings.check(offset, snapshot)
        if agrees:
            self.trims.agreed({Partition(self._topics.assignments, 0): snapshot.upto}, self._now_us())
        elif agrees is False:
            detail = f"the snapshot at {offset} of {self._topics.assignments} is not what its first {snapshot.upto} say"
            _log.error("snapshot-differs", detail=detail)
            happened = Happened(_now_ms(), "snapshot-differs", detail=detail)
            self._appender.append(Partition(self._topics.events, 0), encode_event(happened))

    def _write_snapshot(self) -> None:
        record = assignments.encode(Assignment(self._name, _now_ms(), (), self.core.standings.snapshot()))
        if len(record) > MAX_BYTES:
            _log.warning("a snapshot of assignments would be too large", bytes=len(record), limit=MAX_BYTES)
            return

        def answered(error: Exception | None, _offset: int) -> None:
            if error is not None:
                self._snapshots.withdraw()

        self._appender.append(Partition(self._topics.assignments, 0), record, done=answered)

    def _raise_format(self) -> None:
        """Every process that lives reads a newer format than is written."""
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
        if not self.core.acting and not self._backlog.left:
            _log.info("caught up", units=len(self.core.assigned.units()))
            self._observe(CaughtUp())

    def _observe(self, event: Event) -> None:
        self._append(self.core.observe(event, self._now_us()))

    def _append(self, changes: Iterable[Change]) -> None:
        proposed, incidents = tuple(changes), tuple(self.core.incident_records)
        self.core.incident_records.clear()
        if not proposed and not incidents:
            return

        def answered(error: Exception | None, _offset: int) -> None:
            if error is not None:
                self._observe(Withdrawn(proposed, incidents))

        record = assignments.encode(Assignment(self._name, _now_ms(), proposed, incidents=incidents))
        self._appender.append(Partition(self._topics.assignments, 0), record, done=answered)

    def _detection_ms(self, before: Change | None, change: Change) -> float | None:
        """From the last sign of life of the leader that has failed; None: none has, or it was never heard."""
        failed = None if before is None or not follows_failure(change) else before.committer
        if failed is None or failed.worker not in self._signs_ms:
            return None
        return float(max(_now_ms() - self._signs_ms[failed.worker], 0))

    def _decided(self, before: Change | None, change: Change, detection_ms: float | None) -> None:
        """Our proposal counts: publishes events for people."""
        job, _, unit = split_unit_key(change.unit)
        copies = ", ".join(f"{copy.worker}{' commits' if copy.flags.commit else ''}" for copy in change.copies)
        detail = f"{change.scheme}: {change.reason} ({copies})"
        leader = "" if change.committer is None else change.committer.worker
        _log.info("decided", unit=change.unit, worker=leader, epoch=change.epoch, detail=detail)
        now_ms = _now_ms()
        phases = {} if detection_ms is None else {"detection": detection_ms}
        if change.deadly is not None and (before is None or before.deadly is None):
            self._publish_event(Happened(now_ms, "unit-quarantined", job, unit, change.epoch, detail=change.reason))
        elif not change.copies:
            self._publish_event(Happened(now_ms, "unplaced", job, unit, change.epoch, detail=change.reason))
        elif before is None or not before.copies:
            first = change.copies[0].worker
            self._publish_event(Happened(now_ms, "placed", job, unit, change.epoch, first, change.reason))
        else:
            self._publish_event(Happened(now_ms, "decided", job, unit, change.epoch, detail=detail, phases_ms=phases))
        for what, worker, batch, versions in found_out(before, change):
            event = Happened(now_ms, what, job, unit, change.epoch, worker, versions, batch=batch)
            self._publish_event(event)
        self._publish_choice(change)
        kind = move_kind(before, change)
        if kind is not None:
            since_ms = self._moves_ms.get(change.unit, now_ms)
            took = {} if kind in BEGINS else {"move": float(max(now_ms - since_ms, 0))}
            self._publish_event(Happened(now_ms, kind, job, unit, change.epoch, leader, change.reason, took))

    def _publish_choice(self, change: Change) -> None:
        """Why the unit has another scheme, which nobody asked for, and what every other one would take and cost."""
        verdict = self.core.adaptive.verdicts.pop(change.unit, None)
        if verdict is None or not chosen_for_promise(change) or verdict.chosen != change.scheme:
            return
        job, _, unit = split_unit_key(change.unit)
        _log.info("scheme-chosen", unit=change.unit, epoch=change.epoch, detail=verdict.summary)
        self._publish_event(
            Happened(
                _now_ms(), "scheme-chosen", job, unit, change.epoch,
                detail="; ".join(lines(verdict)), promise_ms=verdict.promise_ms, alternatives=alternatives(verdict),
            )
        )  # fmt: skip

    def _publish_judgement(self, key: str, judgement: Judgement) -> None:
        """What a takeover took beside what was predicted and promised."""
        job, _, unit = split_unit_key(key)
        foreseen = judgement.foreseen
        _log.info("takeover judged", unit=key, epoch=foreseen.epoch, kept=judgement.kept, detail=str(judgement))
        self._publish_event(
            Happened(
                _now_ms(), judgement.kind, job, unit, foreseen.epoch, foreseen.worker, str(judgement),
                rounded(judgement.actual), promise_ms=foreseen.promise_ms, predicted_ms=rounded(judgement.predicted),
            )
        )  # fmt: skip

    def _publish_event(self, event: Happened) -> None:
        """Of records met in the log before the start, another replica, or this one in its last life, has published."""
        if event.kind == REFUSED and not self.core.acting:
            return
        self._appender.append(Partition(self._topics.events, 0), encode_event(event))

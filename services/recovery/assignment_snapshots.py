"""Snapshots of `assignments`: the times at which this replica writes one, and a check of each against the log.

Source: PROTOCOL 1.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas import assignments
from holdfast.schemas.assignments import Assignment, Snapshot
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.snapshots import MAX_BYTES, Pace, Trims
from holdfast.services.decisions.standings import MANY
from holdfast.services.diagnostics.logger import get_logger
from holdfast.services.log.protocol import Appender
from holdfast.services.recovery.core.known import ReplicaView

_log = get_logger()


class AssignmentSnapshots:
    """The snapshots of one replica.

    Args:
        name: of the replica.
        partition: of `assignments`.
        trims: offsets to which the partition is trimmed once snapshots agree.
        every: number of records between two snapshots.
        publish: publishes an event for people.
        now_us: monotonic clock.
        now_ms: time of day.
    """

    def __init__(
        self,
        name: str,
        known: ReplicaView,
        appender: Appender,
        partition: Partition,
        trims: Trims,
        every: int,
        publish: Callable[[Event], None],
        now_us: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self._name = name
        self._known = known
        self._appender = appender
        self._partition = partition
        self._trims = trims
        self._publish = publish
        self._now_us = now_us
        self._now_ms = now_ms
        self._pace = Pace(name, every, MANY)

    def read(self, record: Assignment, offset: int) -> None:
        """Takes a record of `assignments`; checks its snapshot, or writes a snapshot if one is due."""
        if record.snapshot is not None:  # never answered by another snapshot: replicas would answer each other for ever
            self._check(record.snapshot, offset)
        elif self._known.acting and self._due():
            self._write()

    def _due(self) -> bool:
        standings = self._known.standings
        return self._pace.due(standings.next, standings.snapshotted, len(standings))

    def _check(self, snapshot: Snapshot, offset: int) -> None:
        """Trims to a snapshot that agrees with the log; reports one that differs, which is a bug or foul play."""
        agrees = self._known.standings.check(offset, snapshot)
        if agrees:
            self._trims.agreed({self._partition: snapshot.upto}, self._now_us())
        elif agrees is False:
            topic = self._partition.topic
            detail = f"the snapshot at {offset} of {topic} is not what its first {snapshot.upto} say"
            _log.error("snapshot-differs", detail=detail)
            self._publish(Event(self._now_ms(), "snapshot-differs", detail=detail))

    def _write(self) -> None:
        snapshot = self._known.standings.snapshot()
        record = assignments.encode(Assignment(self._name, self._now_ms(), (), snapshot))
        if len(record) > MAX_BYTES:
            _log.warning("a snapshot of assignments would be too large", bytes=len(record), limit=MAX_BYTES)
            return

        def answered(error: Exception | None, _offset: int) -> None:
            if error is not None:
                self._pace.withdraw()

        self._appender.append(self._partition, record, done=answered)

"""Keeps `jobs.plans` and `jobs.submit` short: snapshots, retirements, and the offsets to which both are trimmed.

Source: PROTOCOL 1; docs/decisions/0056-snapshots-of-jobs.md. Every replica writes snapshots; the first one counts. The
topics are trimmed to a snapshot once it was read back and agrees with both logs.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.schemas import plans
from holdfast.schemas.plans import Record, Retirement, Snapshot
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.jobs import EVERY, MANY, Jobs, Submissions
from holdfast.services.decisions.snapshots import MAX_BYTES, Pace, Trims
from holdfast.services.diagnostics.logger import get_logger

_log = get_logger()


class PlanSnapshots:
    """Snapshots by one replica.

    Args:
        every: number of records of both logs between two snapshots.
        safe_s: age of a snapshot from which the topics are trimmed to it; None: never.
        kept: number of jobs that are over and kept; None: KEPT_OVER.

    differs: offsets of snapshots that differ from the logs, until they are published.
    """

    def __init__(
        self,
        name: str,
        topics: ClusterTopics,
        every: int = EVERY,
        safe_s: float | None = None,
        kept: int | None = None,
    ) -> None:
        self._name = name
        self._topics = topics
        self._kept = kept
        self._pace = Pace(name, every, MANY)
        self.trims = Trims(None if safe_s is None else round(safe_s * 1_000_000))
        self.jobs = Jobs()
        self.submissions = Submissions()
        self.differs: list[int] = []
        self._later: tuple[int, Snapshot] | None = None
        self._retiring = False

    def begin(self, jobs: Jobs) -> None:
        """Takes the state of a snapshot, with which reading begins."""
        self.jobs = jobs
        self.submissions = Submissions(jobs.base)

    # -- records ------------------------------------------------------------------------------------------------------

    def planned(self, offset: int, time_ms: int, value: bytes, now_us: int) -> Record | None:
        """Takes a record of `jobs.plans`; returns it, or None if it was read before. Raises msgspec.DecodeError."""
        record = self.jobs.read(offset, time_ms, value)
        if isinstance(record, Retirement):
            self._retiring = False
        if isinstance(record, Snapshot):
            self._check(offset, record, now_us)
        return record

    def submitted(self, offset: int, time_ms: int, value: bytes, now_us: int) -> None:
        """Takes a record of `jobs.submit`."""
        self.submissions.read(offset, time_ms, value)
        if self._later is not None and self.submissions.next >= self._later[1].submit:
            (offset, snapshot), self._later = self._later, None
            self._check(offset, snapshot, now_us)

    def _check(self, offset: int, snapshot: Snapshot, now_us: int) -> None:
        agrees = self.jobs.check(offset, snapshot)
        if agrees:
            if self.submissions.next < snapshot.submit:
                self._later = offset, snapshot
                return
            agrees = self.submissions.check(snapshot, *self.jobs.known_then(snapshot.upto))
        if agrees:
            self.submissions.agreed(snapshot)
            self.jobs.snapshotted = max(self.jobs.snapshotted, snapshot.upto + snapshot.submit)
            self.trims.agreed(self._upto(snapshot), now_us)
        elif agrees is False:
            self.differs.append(offset)

    def _upto(self, snapshot: Snapshot) -> Mapping[Partition, int]:
        return {Partition(self._topics.plans, 0): snapshot.upto, Partition(self._topics.submit, 0): snapshot.submit}

    # -- records due --------------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> Snapshot | Retirement | None:
        """Returns the record to append to `jobs.plans` now; None if no record is due."""
        known, read = self.jobs.known(), self.jobs.next + self.submissions.next
        submit = self.submissions.decided(known, self.jobs.admitted.retired)
        if not self._retiring and (retired := self.jobs.to_retire(submit, self._kept)) is not None:
            self._retiring = True
            return Retirement(retired, self._name, now_ms)
        if not self._pace.due(read, self.jobs.snapshotted, len(self.jobs)):
            return None
        made = self.jobs.snapshot(submit, self.submissions.kept(submit, known), self._name, now_ms)
        if (size := len(plans.encode(made))) > MAX_BYTES:
            _log.warning("a snapshot of jobs would be too large", bytes=size, limit=MAX_BYTES)
            return None
        return made

    def withdraw(self, record: Record) -> None:
        """Takes back a record that was, as far as is known, not appended: it is due again."""
        if isinstance(record, Retirement):
            self._retiring = False
        else:
            self._pace.withdraw()

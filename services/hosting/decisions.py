"""Reads the decisions for one incarnation: `jobs.plans` and `assignments`, in offset order.

Source: PROTOCOL 1, 5 and 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from holdfast.schemas import assignments, formats
from holdfast.schemas.assignments import Flags, split_unit_key
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.admitted import Skipped
from holdfast.services.decisions.admitted import decode as decode_decision
from holdfast.services.hosting.identity import Identity
from holdfast.services.kernel.errors import WorkerUnfit
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.log.late.jobs import read_jobs
from holdfast.services.log.protocol import Chunk, Log

Refuse = Callable[[Partition, int, object], None]
"""A function that is called with a record that cannot be decoded: partition, offset and error."""


@dataclass(frozen=True, slots=True)
class Named:
    """A copy that an assignment places on this host."""

    plan: Plan
    unit: str
    epoch: int
    flags: Flags
    line: int


class Decisions:
    """The copies that the decisions place on this host, as far as they were read. The constructor raises Retriable.

    Attributes:
        positions: offsets at which a reader begins.
        decided: offset of the last assignment that was read.
        caught_up: True if each log was read to an end.
    """

    def __init__(self, identity: Identity, log: Log, topics: ClusterTopics, refuse: Refuse) -> None:
        self._identity = identity
        self._topics = topics
        self._refuse = refuse
        partition = Partition(topics.assignments, 0)
        standings = read_standings(log, partition)
        jobs = read_jobs(log, topics)
        self.positions = {Partition(topics.plans, 0): jobs.next, partition: standings.next}
        self.decided = standings.next - 1
        self.assigned = standings.assigned
        self._admitted = jobs.admitted
        self._unread = set(self.positions)

    def read(self, chunk: Chunk) -> bool:
        """Applies records. True if they changed anything. A record that cannot be decoded is refused and skipped.

        Raises:
            WorkerUnfit: the cluster writes in a format that this release cannot read.
        """
        if chunk.end is not None:
            self._unread.discard(chunk.partition)
        changed = False
        for message in chunk.messages:
            try:
                if chunk.partition.topic == self._topics.plans:
                    changed |= self._admitted.read(decode_decision(message.value() or b""))
                else:
                    self.decided = message.offset()
                    record = assignments.decode(message.value() or b"")
                    said = record.policies or record.checkpoints or record.outages
                    changed |= bool(self.assigned.read(record) or said)
            except msgspec.DecodeError as error:
                self._refuse(chunk.partition, message.offset(), error)
        if why := formats.too_old(self.assigned.format):
            raise WorkerUnfit(why)
        return changed

    @property
    def caught_up(self) -> bool:
        return not self._unread

    def skipped(self, generation: str) -> Skipped:
        """The records of a job's own topics that a person has skipped."""
        return self._admitted.skipped(generation)

    def plan(self, generation: str) -> Plan | None:
        """The newest plan of a generation; None if unknown. A standby generation changes when it begins or is given
        up.
        """
        return self._admitted.plan(generation)

    def over(self, generation: str) -> bool:
        """True if the generation's job has ended, as far as the decisions were read."""
        ended = self._admitted.ended(generation) is not None
        return ended or (self.caught_up and self._admitted.retired.has(generation))

    def named(self) -> dict[str, Named]:
        """The copies that belong on this host, by unit. Their plans are known, and their jobs have not ended."""
        mine = (self._identity.worker, self._identity.incarnation)
        found: dict[str, Named] = {}
        for key, change in self.assigned.of_incarnation(*mine).items():
            job, generation, unit = split_unit_key(key)
            plan = self._admitted.plan(generation)
            if plan is None or plan.job != job or self._admitted.ended(generation) is not None:
                continue
            flags = next(copy.flags for copy in change.copies if (copy.worker, copy.incarnation) == mine)
            found[key] = Named(plan, unit, change.epoch, flags, line=change.line)
        return found

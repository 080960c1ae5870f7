"""Follows a cluster as a recovery replica would, without decisions: the leaders of units, and missing protection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from bench.rig.following import Following
from holdfast.schemas import assignments, heartbeats, plans
from holdfast.schemas.assignments import Change, ReplicationPlan, split_unit_key
from holdfast.schemas.heartbeats import Echo
from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.log.protocol import Log, Message
from holdfast.services.recovery.core.observed import AssignmentRead, BeatRead, DecisionRead
from holdfast.services.recovery.core.recovery import Recovery

POLL_S = 0.05
ECHOED_S = 1.0


class Observer(Following):
    """Reads in a thread of its own, from entering to leaving.

    assigned: gets how units stand after each record of `assignments`, in that thread.
    """

    def __init__(self, log: Log, topics: ClusterTopics, assigned: Callable[[Assigned], None] | None = None) -> None:
        names = (topics.heartbeats, topics.assignments, topics.plans)
        super().__init__(log, "observer", [Partition(name, 0) for name in names])
        self._topics = topics
        self._assigned = assigned
        self._core = Recovery()
        self._echoes: dict[str, float] = {}
        self._incarnations: dict[str, str] = {}
        self._lock = threading.Lock()

    def leader_of(self, job: str, unit: str) -> str:
        """The worker that leads the unit of the newest job of that name."""
        committers = [change.committer for change in self._changes(job, unit)]
        return next(committer.worker for committer in reversed(committers) if committer is not None)

    def copies(self, job: str, unit: str) -> list[str]:
        """The workers with a copy of the unit of the newest job of that name, the leader first."""
        first = self.leader_of(job, unit)
        placed = [change for change in self._changes(job, unit) if change.copies]
        return [first, *(copy.worker for copy in placed[-1].copies if copy.worker != first)]

    def change(self, job: str, unit: str) -> Change:
        """The newest change of the unit of the newest job of that name."""
        return self._changes(job, unit)[-1]

    def replication(self, job_key: str) -> ReplicationPlan | None:
        """The plan in force."""
        with self._lock:
            return self._core.known.assigned.replication(job_key)

    def _changes(self, job: str, unit: str) -> list[Change]:
        """The newest of each job of the name, in the order of the jobs."""
        with self._lock:
            units = self._core.known.assigned.units()
        return [change for key, change in units.items() if split_unit_key(key)[::2] == (job, unit)]

    def protected(self) -> bool:
        """True if every unit has its copies as its scheme requires, and they answer."""
        with self._lock:
            self._core.tick(time.monotonic_ns() // 1000)
            placed = [change for change in self._core.known.assigned.units().values() if change.copies]
            return bool(placed) and not self._core.known.unprotected()

    def unprotected(self) -> list[str]:
        with self._lock:
            return self._core.known.unprotected()

    def workers(self) -> int:
        """Number of workers that answer."""
        with self._lock:
            self._core.tick(time.monotonic_ns() // 1000)
            return sum(1 for _ in self._core.known.detector.alive())

    def incarnation(self, worker: str) -> str:
        """The newest incarnation in the heartbeats, or an empty string."""
        with self._lock:
            return self._incarnations.get(worker, "")

    def replicas(self) -> int:
        """Number of recovery replicas with a recent echo."""
        since_s = time.monotonic() - ECHOED_S
        with self._lock:
            return sum(1 for at_s in self._echoes.values() if at_s > since_s)

    def _turn(self) -> None:
        for chunk in self._reader.poll(POLL_S):
            with self._lock:
                for message in chunk.messages:
                    self._take(chunk.partition.topic, message)

    def _take(self, topic: str, message: Message) -> None:
        now_us, value = time.monotonic_ns() // 1000, message.value() or b""
        try:
            if topic == self._topics.assignments:
                self._core.observe(AssignmentRead(assignments.decode(value), message.offset()), now_us)
                if self._assigned is not None:
                    self._assigned(self._core.known.assigned)
            elif topic == self._topics.plans:
                self._core.observe(DecisionRead(plans.decode(value)), now_us)
            elif isinstance(record := heartbeats.decode(value), Echo):
                self._echoes[record.replica] = now_us / 1e6
            else:
                self._core.observe(BeatRead(record), now_us)
                self._incarnations[record.worker] = max(record.incarnation, self._incarnations.get(record.worker, ""))
        except msgspec.DecodeError:
            return  # the replicas report it

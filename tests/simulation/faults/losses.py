"""Retention deletes records that the job has not read yet: it is paused, no worker runs, the log's start moves up.

Later it moves back, as it may when a broker crashes (PROTOCOL 1): what was cut as lost can be read again, and must
bring nothing. Nobody dies with records in memory that the log no longer has: of these nothing could be computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.schemas.topics import Partition
from tests.simulation.faults.renewals import Reading
from tests.simulation.processes.feeds import draw_growth
from tests.simulation.processes.jobs import NAME

if TYPE_CHECKING:
    from tests.simulation.faults.fault import Fault
    from tests.simulation.processes.cluster import Cluster

LOOK_US = 20_000
RESTARTED_WITHIN_MS = 400


def retention(cluster: Cluster, fault: Fault) -> None:
    """detail: a user's topic of which records are deleted; ms: how long all workers are away."""
    if not cluster.held:
        _Loss(cluster, fault.detail, min(fault.ms, RESTARTED_WITHIN_MS)).begin()


class _Loss:
    """Loss, step by step. `cluster.held` names the topic meanwhile: its records come later."""

    def __init__(self, cluster: Cluster, topic: str, away_ms: int) -> None:
        self._cluster, self._topic, self._away_ms = cluster, topic, away_ms
        self._random = Random(f"{cluster.seed}/loss/{cluster.timeline.now_us}")
        self._reading = Reading(cluster.broker)
        self._deleted: dict[Partition, tuple[int, int, list[Any]]] = {}

    def begin(self) -> None:
        self._cluster.held[self._topic] = []
        self._cluster.submit({"command": "pause", "job": NAME})
        self._when(self._safe, self._delete)

    def _when(self, reached: Callable[[], bool], then: Callable[[], None]) -> None:
        if reached():
            then()
        else:
            self._cluster.timeline.after(LOOK_US, lambda: self._when(reached, then))

    def _safe(self) -> bool:
        """The job is paused, and whatever it has cut is in a checkpoint."""
        log, workers = self._reading.look(), self._cluster.workers()
        if log is None or not log.paused or self._cluster.broker.away or self._reading.plan is None:
            return False
        reports = [copy for worker in workers if worker.alive and worker.worker for copy in worker.worker.copies()]
        for unit in self._reading.plan.units:
            own = {f"{name}-{unit.index}" for name in unit.operators}
            busy = max((batch for task, batch in self._reading.busy.items() if task in own), default=0)
            if busy > max((one.durable for one in reports if one.unit.endswith(f"/{unit.name}")), default=0):
                return False
        return True

    def _delete(self) -> None:
        cluster, broker, log = self._cluster, self._cluster.broker, self._reading.log
        assert log is not None
        stops = {r.partition: r.stop for task in self._reading.tasks(self._topic) for r in log.task(task).ranges}
        for worker in cluster.workers():
            cluster.crash(worker.name, self._away_ms, notice=True)
        for index, stop in stops.items():
            (few,) = draw_growth(self._random, self._topic, [index], cluster.timeline.now_ms, cluster.timeline.now_ms)[
                :1
            ]
            cluster.feed(few, freely=True)
            partition = Partition(self._topic, index)
            stored, upto = broker.stored(partition), self._random.randint(stop, broker.stored(partition).end)
            self._deleted[partition] = (upto, stored.start, list(stored.messages))
            broker.trim({partition: upto})
            cluster.story.tell(f"retention deletes {partition} up to {upto}, cut up to {stop}")
        cluster.submit({"command": "resume", "job": NAME})
        self._when(self._cut_beyond, self._bring_back)

    def _cut_beyond(self) -> bool:
        """All that is gone is cut."""
        log = self._reading.look()
        own = () if log is None else (log.task(task) for task in self._reading.tasks(self._topic))
        stops = {r.partition: r.stop for cuts in own for r in cuts.ranges}
        return all(stops.get(partition.index, 0) >= upto for partition, (upto, _, _) in self._deleted.items())

    def _bring_back(self) -> None:
        for partition, (_, start, messages) in self._deleted.items():
            stored = self._cluster.broker.stored(partition)
            stored.messages[:0] = messages[: stored.start - start]
            stored.start = start
        for one in self._cluster.held.pop(self._topic):
            self._cluster.feed(one)

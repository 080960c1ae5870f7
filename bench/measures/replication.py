"""A replication budget of half the units on a job whose sources merge 16-8-4-2-1, on workers that are struck.

The worker that leads each planned unit is killed in turn: the unit's replica must take over. Then other sources become
the busy ones: the plan must change once. Then workers are killed and frozen at random. Every row is checked at the end.
Source: MECHANISMS P10 and P14, docs/decisions/0146.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence

from bench.failover.observer import Observer
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed
from bench.rig.scale import Scale
from holdfast.schemas.assignments import Change, ReplicationPlan, job_key, unit_key
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.audit.replay import replay
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.recovery.core.replication.replanning import COOL_DOWN_US, REPLICA, holders

WORKERS, SOURCES = 5, 16
RATE_PER_S, KEYS, INTERVAL_MS = 32, 20, 500
"""Little, so that two slow cores carry 46 copies."""
BUSY = 9
"""Records of a busy source as a multiple of another source's."""
STRIKES_PER_KILL = 7
"""Strikes in all, for each kill of the scale: 105 by default."""
STALL_S = 3.0
STALLS = 0.25
"""Share of the strikes at random."""
PATIENCE_S, LOOK_S = 300.0, 0.2


def replication(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Numbers of planned units, of those whose replica took over, of plans and strikes, and of rows that were not
    exact.
    """
    cluster.start(WORKERS)
    topic, chance = f"bench-{name}", random.Random(1)
    cluster.create(topic, partitions=SOURCES)
    with cluster.running(jobs.merging(SOURCES), topic, name=name, interval_ms=INTERVAL_MS) as job:
        job.await_running()
        holding = Holding(job.plan)
        with Observer(cluster.log, cluster.topics, holding.read) as observer:
            made = Budgeted(cluster, job, observer, holding, chance)
            with fed(cluster, topic, range(SOURCES), 1) as even:
                figures = made.planned_units()
            with fed(cluster, topic, made.unplanned_sources(), BUSY) as uneven:
                figures |= made.moved_rates()
                figures |= made.strikes(max(0, STRIKES_PER_KILL * scale.kills - int(figures["planned"])))
            made.settle()
        sent = len(even.sent_ms) + len(uneven.sent_ms)
        job.await_records(sent)
        job.watch(0.5)  # the last rows
        rows = replay(cluster.log, cluster.topics, job.plan.job).rows
    figures |= {"most_replicas": holding.most, "records": sent, "rows": rows.results}
    return figures | {"lost": rows.lost, "duplicated": rows.duplicated, "wrong": rows.wrong}


def fed(cluster: BenchCluster, topic: str, busy: Sequence[int], times: int) -> Feeder:
    """Feeder of the sources.

    busy: partitions that get `times` as many records as each other one.
    """
    turns = [Partition(topic, one) for one in busy for _ in range(times - 1)]
    turns += [Partition(topic, one) for one in range(SOURCES)]
    random.Random(0).shuffle(turns)
    return Feeder(cluster.users_appender("feeder"), turns, RATE_PER_S, record)


def record(index: int) -> bytes:
    return jobs.record(index, KEYS, int(now_ms()))


class Holding:
    """Follows every record of `assignments`.

    most: units of the job that had a replica that processes at once.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.most = 0
        self._placed: dict[str, list[Change]] = {}

    def read(self, assigned: Assigned) -> None:
        self.most = max(self.most, sum(holders(self._plan, assigned).values()))
        for unit in self._plan.units:
            change = assigned.of(unit_key(self._plan.job, self._plan.generation, unit.name))
            placed = self._placed.setdefault(unit.name, [])
            if change is not None and change.copies and placed[-1:] != [change]:
                placed.append(change)

    def successor(self, unit: str, since: Change) -> Change | None:
        """The change by which another copy leads the unit; None while there is none."""
        later = (one for one in self._placed.get(unit, []) if one.epoch > since.epoch)
        return next((one for one in later if one.committer != since.committer), None)


class Budgeted:
    """A job with a replication budget that runs, and what is done to its workers. Everything raises MeasureFailed."""

    def __init__(
        self, cluster: BenchCluster, job: Followed, observer: Observer, holding: Holding, chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._observer = observer
        self._changes = holding
        self._chance = chance
        self._until(lambda: self._current() is not None, "there is no replication plan")

    def planned_units(self) -> Figures:
        """The worker that leads each planned unit is killed, one after the other."""
        taken, planned_ms, others_ms = 0, list[float](), list[float]()
        plan = self._plan()
        for unit in plan.units:
            self.settle()
            before = self._observer.change(plan.job, unit)
            leader, replica = before.copies[0], before.copies[1]
            beside = [one.name for one in self._job.plan.units if self._leads(one.name, leader.worker)]
            since_ms = self._kill(leader.worker)
            now = self._successor(unit, before)
            by = now.committer
            exact = (by is not None and (by.worker, by.incarnation)) == (replica.worker, replica.incarnation)
            taken += exact and before.scheme == now.scheme == REPLICA
            self.settle()
            for one in beside:
                if (took_ms := self._took_ms(one, since_ms)) is not None:
                    (planned_ms if one in plan.units else others_ms).append(took_ms)
            what = "its replica leads" if exact else f"its replica was on {replica.worker}, {now.reason}"
            self._cluster.say(f"  {unit}: {leader.worker} killed, {by and by.worker} leads, {what}")
        return {
            "planned": len(plan.units),
            "of_units": len(self._job.plan.units),
            "taken_over_by_replica": taken,
            "planned_recovered_p50_ms": round(statistics.median(planned_ms), 1),
            "others_recovered_p50_ms": round(statistics.median(others_ms), 1),
        }

    def moved_rates(self) -> Figures:
        """Seconds from the change of the sources' rates until the plan, and then the units, have changed."""
        before, began_s = self._plan(), time.monotonic()
        self._until(lambda: self._plan().number > before.number, "the plan does not change")
        planned_s = time.monotonic() - began_s
        self._until(lambda: set(self._plan().units) == self._holding(), "the units do not follow the plan")
        self.settle()
        followed_s = time.monotonic() - began_s
        self._job.watch(COOL_DOWN_US / 1e6 + 30)  # a plan that changes again would do so within this time
        return {
            "replanned_after_s": round(planned_s, 1),
            "followed_after_s": round(followed_s, 1),
            "plans_after_the_move": self._plan().number - before.number,
            "fidelity_of_the_former": self._plan().before,
            "fidelity_of_the_new": self._plan().fidelity,
        }

    def strikes(self, count: int) -> Figures:
        """Workers are killed or frozen at random, once all is protected again."""
        for number in range(count):
            self.settle()
            self._job.watch(self._chance.uniform(0, 1))
            worker = self._chance.choice(sorted(self._cluster.workers()))
            if self._chance.random() < STALLS:
                self._freeze(worker)
            else:
                self._kill(worker)
            self._cluster.say(f"  strike {number + 1} of {count}: {worker}")
        return {"strikes": count + len(self._plan().units)}

    def settle(self) -> None:
        """Waits until all workers answer and every unit is protected."""
        ready = lambda: self._observer.workers() == WORKERS and self._observer.protected()  # noqa: E731
        self._until(ready, lambda: f"not protected again: {self._observer.unprotected()}")

    def unplanned_sources(self) -> list[int]:
        planned = set(self._plan().units)
        return [task for task in range(SOURCES) if f"events-{task}" not in planned]

    # -- what is seen -------------------------------------------------------------------------------------------------

    def _current(self) -> ReplicationPlan | None:
        plan = self._job.plan
        return self._observer.replication(job_key(plan.job, plan.generation))

    def _plan(self) -> ReplicationPlan:
        found = self._current()
        assert found is not None
        return found

    def _holding(self) -> set[str]:
        names = [unit.name for unit in self._job.plan.units]
        return {name for name in names if self._observer.change(self._job.plan.job, name).scheme == REPLICA}

    def _leads(self, unit: str, worker: str) -> bool:
        return self._observer.leader_of(self._job.plan.job, unit) == worker

    def _successor(self, unit: str, since: Change) -> Change:
        self._until(lambda: self._changes.successor(unit, since) is not None, f"{unit} is not taken over")
        found = self._changes.successor(unit, since)
        assert found is not None
        return found

    def _took_ms(self, unit: str, since_ms: float) -> float | None:
        """Milliseconds from the loss of the worker until the unit has sent all replayed output; None: not known."""
        found: dict[str, float] = {}
        for event in self._job.events:
            if event.time_ms >= since_ms and (event.job, event.unit) == (self._job.plan.job, unit):
                found = event.phases_ms | found
        return found.get("detection", 0.0) + found["recovered"] if "recovered" in found else None

    # -- what is done -------------------------------------------------------------------------------------------------

    def _kill(self, worker: str) -> float:
        """Returns the time of the kill. The worker is back once it answers as another incarnation."""
        incarnation, at_ms = self._observer.incarnation(worker), now_ms()
        os.kill(self._cluster.workers()[worker], signal.SIGKILL)
        self._until(lambda: self._observer.incarnation(worker) > incarnation, f"{worker} does not come back")
        return at_ms

    def _freeze(self, worker: str) -> None:
        pid = self._cluster.workers()[worker]
        os.kill(pid, signal.SIGSTOP)
        try:
            self._job.watch(STALL_S)
        finally:
            os.kill(pid, signal.SIGCONT)

    def _until(self, reached: Callable[[], bool], otherwise: str | Callable[[], str]) -> None:
        """Checks a few times a second: a check of 31 units takes milliseconds of a processor."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > deadline_s:
                raise MeasureFailed(
                    f"{otherwise if isinstance(otherwise, str) else otherwise()} after {PATIENCE_S:g} s"
                )
            self._job.watch(LOOK_S)

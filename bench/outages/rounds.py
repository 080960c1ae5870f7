"""A round: a cluster and a job with tentative results, whose workers are struck again and again, every row checked.

Slots are so tight that the units of a worker have no other place: they are out until it is back.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from bench.failover.observer import Observer
from bench.outages.rows import Rows
from bench.outages.strikes import BROKER, FORK, FREEZE, UNIT, Outcome, Strike
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import Followed, MeasureFailed
from holdfast.schemas import formats
from holdfast.schemas.assignments import job_key
from holdfast.services.audit.replay import replay
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.dataflow.sink_records import CLOSING, TENTATIVE, RowsOf
from holdfast.services.kernel.errors import Retriable
from holdfast.services.kernel.plans.layout import below, unit_layouts

WORKERS, SLOTS, SOURCES = 3, 2, 3
"""Number of sources: with no more slots than units, three sources, two units that count, one with the sink."""
RATE_PER_S, KEYS, INTERVAL_MS = 150, 20, 100
FREEZE_S = 3.0
CALM_S = 1.0
PATIENCE_S = 120.0
FIRST_S = 4.0
"""Seconds that a second strike waits for a tentative row before it is made without one."""


def run_round(
    cluster: BenchCluster, name: str, some: Sequence[Strike], chance: random.Random, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Makes the strikes of one round. Raises MeasureFailed if units are not protected again, or tentative rows stay
    open.
    """
    cluster.start(WORKERS, {"HOLDFAST_SLOTS": str(SLOTS)})
    topic = f"bench-{name}"
    cluster.create(topic, partitions=SOURCES)
    settings = {"name": name, "tasks": SOURCES, "interval_ms": INTERVAL_MS}
    outcomes: list[Outcome] = []
    with cluster.running(jobs.OUTAGES, topic, **settings) as job:
        job.await_running()
        out = Out(job_key(job.plan.job, job.plan.generation))
        rows = Rows(cluster.log, f"{topic}-out", RowsOf(job.plan.job, job.plan.generation, "all"), SOURCES)
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record, SOURCES)
        with Observer(cluster.log, cluster.topics, out.read) as observer, rows, feeder:
            struck = Struck(cluster, job, observer, (out, rows), chance)
            struck.until(lambda: out.format >= formats.TENTATIVE, "frames may not be tentative")
            for number, strike in enumerate(some):
                outcomes.append(struck.strike(strike))
                cluster.say(f"  {number + 1} of {len(some)}: {_words(outcomes[-1])}")
                done(outcomes[-1])
            struck.settle()
        job.await_records(len(feeder.sent_ms))
        job.watch(0.5)  # the last rows
        found = replay(cluster.log, cluster.topics, job.plan.job).rows
    outcomes[-1] = msgspec.structs.replace(
        outcomes[-1],
        rows=found.results,
        lost=found.lost,
        duplicated=found.duplicated,
        wrong=found.wrong,
        open=rows.open,
        untrue=rows.untrue(),
    )
    return outcomes


def record(index: int) -> bytes:
    return jobs.record(index, KEYS, int(now_ms()))


def _words(one: Outcome) -> str:
    times = f"noted {one.noted_ms:.0f}, first row {one.first_ms:.0f}, over {one.over_ms:.0f} ms"
    what = f"{one.kind}, {one.fault} of {' '.join(one.struck)}"
    return f"{what}: {times}; {one.tentative} tentative, {one.closing} withdrawn, fidelity {one.fidelity:.2f}"


class Out:
    """Units that are out, by `assignments`; read in the observer's thread.

    format: format in which the cluster writes.
    fidelity: lowest fidelity since the last `begin`.
    """

    def __init__(self, job_key: str) -> None:
        self._key = job_key
        self._lock = threading.Lock()
        self._names: frozenset[str] = frozenset()
        self._since_ms: float | None = None
        self._noted_ms: float | None = None
        self._over_ms: float | None = None
        self.format = 0
        self.fidelity = 1.0

    def begin(self, at_ms: float) -> None:
        """A strike is made now."""
        with self._lock:
            self._since_ms = at_ms
            self._noted_ms = None
            self._over_ms = None
            self.fidelity = 1.0

    def read(self, assigned: Assigned) -> None:
        names = frozenset(assigned.out(self._key))
        with self._lock:
            self.format = assigned.format
            if names and self._noted_ms is None:
                self._noted_ms = now_ms()
            if self._names and not names:
                self._over_ms = now_ms()
            self._names = names
            self.fidelity = min(self.fidelity, *assigned.fidelity(self._key).values(), 1.0)

    @property
    def names(self) -> frozenset[str]:
        with self._lock:
            return self._names

    @property
    def noted(self) -> bool:
        with self._lock:
            return self._noted_ms is not None

    def after_ms(self) -> tuple[float, float]:
        """Time from the strike until it was noted, and until all was over; -1: never."""
        with self._lock:
            since = self._since_ms or 0.0
            return _after(since, self._noted_ms), _after(since, self._over_ms)


def _after(since_ms: float, at_ms: float | None) -> float:
    return -1.0 if at_ms is None else round(at_ms - since_ms, 1)


class Struck:
    """Makes outages and measures their effects. Every method raises MeasureFailed."""

    def __init__(
        self, cluster: BenchCluster, job: Followed, observer: Observer, seen: tuple[Out, Rows], chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._observer = observer
        self._chance = chance
        self._out, self._rows = seen
        self._below = below(unit_layouts(job.plan, cluster.topics.job(job.plan.job, job.plan.generation)))

    def strike(self, strike: Strike) -> Outcome:
        """A worker of units that others read; for a second strike once tentative rows come."""
        self.settle()
        self._job.watch(self._chance.uniform(CALM_S, 2 * CALM_S))
        self.settle()
        leads = self._leads()
        victim = self._victim(leads)
        before = self._rows.counts
        since_ms = now_ms()
        self._out.begin(since_ms)
        with self._struck(victim, strike.fault):
            self.until(lambda: self._out.noted, "no outage is noted")
            if strike.kind != UNIT:
                self._await_row(since_ms)
                self._second(strike.kind, victim, leads)
        self.settle()
        noted_ms, over_ms = self._out.after_ms()
        counted = {name: count - before.get(name, 0) for name, count in self._rows.counts.items()}
        return Outcome(
            strike.kind,
            strike.fault,
            tuple(leads[victim]),
            self._out.fidelity,
            noted_ms,
            _after(since_ms, self._rows.first_after(since_ms)),
            over_ms,
            round(now_ms() - since_ms, 1),
            counted.get(TENTATIVE, 0),
            counted.get(CLOSING, 0),
        )

    def settle(self) -> None:
        """Waits until all workers answer, every unit is protected, no unit is out, and no tentative row is open."""

        def settled() -> bool:
            still = not self._out.names and not self._rows.open
            return still and self._observer.workers() == WORKERS and self._observer.protected()

        def otherwise() -> str:
            return f"not settled: out {sorted(self._out.names)}, {self._rows.open} rows open, " + "; ".join(
                self._observer.unprotected()
            )

        self.until(settled, otherwise)

    def until(self, reached: Callable[[], bool], otherwise: str | Callable[[], str]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > deadline_s:
                what = otherwise if isinstance(otherwise, str) else otherwise()
                raise MeasureFailed(f"{what} after {PATIENCE_S:g} s")
            self._watch(0.05)

    def _watch(self, seconds: float) -> None:
        try:
            self._job.watch(seconds)
        except Retriable:  # Kafka is killed now and then
            time.sleep(seconds)

    def _leads(self) -> dict[str, list[str]]:
        """Units that a worker leads, by worker."""
        found: dict[str, list[str]] = {}
        for unit in self._job.plan.units:
            found.setdefault(self._observer.leader_of(self._job.plan.job, unit.name), []).append(unit.name)
        return found

    def _victim(self, leads: Mapping[str, Sequence[str]]) -> str:
        """A worker all of whose units have units below them: an outage of a last unit makes no tentative rows."""
        able = [worker for worker, units in sorted(leads.items()) if all(self._below[unit] for unit in units)]
        return self._chance.choice(able or sorted(leads))

    @contextmanager
    def _struck(self, worker: str, fault: str) -> Iterator[None]:
        pid, incarnation = self._cluster.workers()[worker], self._observer.incarnation(worker)
        os.kill(pid, signal.SIGSTOP if fault == FREEZE else signal.SIGKILL)
        began_s = time.monotonic()
        try:
            yield
            self._watch(max(0.0, FREEZE_S - (time.monotonic() - began_s)) if fault == FREEZE else 0.0)
        finally:
            if fault == FREEZE:
                os.kill(pid, signal.SIGCONT)
        if fault != FREEZE:
            self.until(lambda: self._observer.incarnation(worker) > incarnation, f"{worker} does not come back")

    def _await_row(self, since_ms: float) -> None:
        """Waits for a tentative row, at most FIRST_S, and then for a random moment, so that strikes meet any state."""
        deadline_s = time.monotonic() + FIRST_S
        while self._rows.first_after(since_ms) is None and time.monotonic() < deadline_s:
            self._watch(0.02)
        self._watch(self._chance.uniform(0, 0.5))

    def _second(self, kind: str, victim: str, leads: Mapping[str, Sequence[str]]) -> None:
        """The worker of a fork, or Kafka."""
        if kind == FORK:
            under = {unit for struck in leads[victim] for unit in self._below[struck]}
            others = [worker for worker in sorted(leads) if worker != victim and under & set(leads[worker])]
            os.kill(self._cluster.workers()[self._chance.choice(others)], signal.SIGKILL)
        elif kind == BROKER:
            cluster = self._cluster.files.cluster()
            if cluster is None or cluster.kafka_pid is None:
                raise MeasureFailed("Kafka does not run")
            os.kill(cluster.kafka_pid, signal.SIGKILL)

"""A round: a cluster and a job with one scheme, struck again and again under load, every row checked at the end."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.strikes import FLAP, FROZEN, KILL_UNNOTICED, OPERATORS, Outcome, Strike, victim
from bench.failover.viewing import Viewing
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import Followed
from holdfast.services.audit.replay import Report, replay

WORKERS = 4
RATE_PER_S = 2_000
KEYS = 10_000
STALL_S = 5.0
FLAP_S = 0.3
"""Between two signals to a worker that flaps."""
WARM_UP_S = 6.0
"""Every key was there once."""
ACTIVE = "unit-active"
"""The event of a copy that has begun to lead."""
LOOK_S = 2.0
"""Silences are looked for so long before a signal and, when it is over, after it."""


def run_round(
    cluster: BenchCluster, name: str, some: Sequence[Strike], chance: random.Random, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Makes the strikes of one round, in one cluster. Raises MeasureFailed if a cluster does not become protected
    again.
    """
    scheme = some[0].scheme
    quiet = {"HOLDFAST_EXIT_NOTICES": "false"} if some[0].fault == KILL_UNNOTICED else {}
    cluster.start(WORKERS, quiet)
    topic = f"bench-{name}"
    cluster.create(topic)
    outcomes: list[Outcome] = []
    with cluster.running(jobs.FAILOVER, topic, name=name, scheme=scheme) as job:
        job.await_running()
        observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record)
        with observer, arrivals, feeder, Viewing(cluster.folder, cluster.bootstrap_servers, job) as viewing:
            struck = Struck(cluster, job, observer, arrivals, chance)
            job.watch(WARM_UP_S)
            for number, strike in enumerate(some):
                viewing.look(strike.viewed)
                outcomes.append(struck.strike(strike, list(OPERATORS)[number % len(OPERATORS)]))
                viewing.confirm()
                done(outcomes[-1])
            struck.settle()
        job.await_records(len(feeder.sent_ms))
        job.watch(0.5)  # the last rows
        outcomes[-1] = _checked(outcomes[-1], replay(cluster.log, cluster.topics, job.plan.job))
    return outcomes


def record(index: int) -> bytes:
    at = int(now_ms())
    return b'{"user":"user-%d","amount":%d,"at":%d}' % (index % KEYS, at, at)


def _checked(last: Outcome, found: Report) -> Outcome:
    rows = found.rows
    return msgspec.structs.replace(
        last, rows=rows.results, lost=rows.lost, duplicated=rows.duplicated, wrong=rows.wrong
    )


@dataclass(frozen=True, slots=True)
class Away:
    """A worker that was frozen, by the clock in ms: since when, the first new result, its return, when it led again.

    detection_ms: from its last sign of life until it was known to be silent.
    """

    signal_ms: float
    first_ms: float
    returned_ms: float
    again_ms: float
    detection_ms: float = 0.0


class Struck:
    """Makes strikes and measures their effects."""

    def __init__(
        self,
        cluster: BenchCluster,
        job: Followed,
        observer: Observer,
        arrivals: Arrivals,
        chance: random.Random,
        patience_s: float = 60.0,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._observer = observer
        self._arrivals = arrivals
        self._chance = chance
        self._patience_s = patience_s

    def strike(self, strike: Strike, operator: str) -> Outcome:
        """A worker of the operator's unit. Raises MeasureFailed."""
        self._await_moment()
        unit, charges = self._unit(operator), self._charges()
        worker = victim(strike.scheme, operator, self._observer.copies(self._job.plan.job, unit), charges)
        pid, incarnation = self._cluster.workers()[worker], self._observer.incarnation(worker)
        signal_ms = now_ms()
        before_ms = self._arrivals.silence(signal_ms - 1000 * LOOK_S, signal_ms)
        if strike.fault == FLAP:
            self._flap(pid)
        elif strike.fault in FROZEN:
            self._stall(pid, STALL_S)
        else:
            os.kill(pid, signal.SIGKILL)
        over_ms = now_ms()
        first_ms = self.first_after(signal_ms)
        if strike.fault not in FROZEN:  # until its silence is noticed, the state shows no failure
            self._until(lambda: self._observer.incarnation(worker) > incarnation, f"{worker} does not come back")
        self.settle()
        back_ms = now_ms()
        return Outcome(
            strike.scheme,
            strike.fault,
            operator,
            takeover_ms=round(first_ms - signal_ms, 1),
            silence_ms=round(self._arrivals.silence(signal_ms, min(over_ms + 1000 * LOOK_S, back_ms)), 1),
            before_ms=round(before_ms, 1),
            back_ms=round(back_ms - signal_ms),
            charged=tuple(charges[worker]),
            phases_ms=self._phases(unit, signal_ms),
            viewed=strike.viewed,
        )

    def takeover_ms(self, operator: str, *others: int) -> float:
        """Milliseconds from killing the worker that leads the operator's unit, and the other processes, to the first
        new result.
        """
        self._await_moment()
        pids = [self.pid(operator), *others]
        signal_ms = now_ms()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return self.first_after(signal_ms) - signal_ms

    def away(self, operator: str, seconds: float) -> Away:
        """Freezes the worker of the primary of the operator's unit for a time. Raises MeasureFailed."""
        unit, job = self._unit(operator), self._job.plan.job
        self._await_moment()
        self._until(lambda: not self._observer.change(job, unit).switched, f"the primary does not lead {unit}")
        worker = self._observer.leader_of(job, unit)
        signal_ms = now_ms()
        self._stall(self._cluster.workers()[worker], seconds)
        returned_ms = now_ms()

        def again_ms() -> float | None:
            active = (e.time_ms for e in self._job.events if (e.kind, e.unit, e.worker) == (ACTIVE, unit, worker))
            return next((at for at in active if at >= returned_ms), None)

        self._until(lambda: again_ms() is not None, f"{worker} does not lead {unit} again")
        detection_ms = self._phases(unit, signal_ms).get("detection", 0.0)
        return Away(signal_ms, self.first_after(signal_ms), returned_ms, again_ms() or returned_ms, detection_ms)

    def first_after(self, signal_ms: float) -> float:
        """Time at which the first result of a record sent after the signal comes. Raises MeasureFailed."""
        self._until(lambda: self._arrivals.first_after(signal_ms) is not None, "no result comes")
        first_ms = self._arrivals.first_after(signal_ms)
        assert first_ms is not None
        return first_ms

    def pid(self, operator: str) -> int:
        """Id of the worker that leads the operator's unit."""
        return self._cluster.workers()[self._observer.leader_of(self._job.plan.job, self._unit(operator))]

    def _charges(self) -> dict[str, list[str]]:
        """Operators whose unit a worker leads, by worker."""
        found: dict[str, list[str]] = {worker: [] for worker in self._cluster.workers()}
        for operator in OPERATORS:
            found[self._observer.leader_of(self._job.plan.job, self._unit(operator))].append(operator)
        return found

    def _await_moment(self) -> None:
        """Waits until all units are protected, and then for a random time between two checkpoints."""
        self.settle()
        self._job.watch(LOOK_S + self._chance.uniform(0, 0.5))

    def settle(self) -> None:
        """Waits until all workers answer and all units are protected."""
        self._until(lambda: self._observer.workers() == WORKERS and self._observer.protected(), "not protected again")

    def _unit(self, operator: str) -> str:
        """The unit of an operator, given by its name or kind."""
        kinds = {one.name: one.kind for one in self._job.plan.operators}
        found = (u.name for u in self._job.plan.units for o in u.operators if operator in (o, kinds[o]))
        return next(found)

    def _phases(self, unit: str, signal_ms: float) -> dict[str, float]:
        """Phases of its first takeover after the signal."""
        found: dict[str, float] = {}
        for event in self._job.events:
            if event.time_ms >= signal_ms and (event.job, event.unit) == (self._job.plan.job, unit):
                found = event.phases_ms | found
        return found

    def _stall(self, pid: int, seconds: float) -> None:
        os.kill(pid, signal.SIGSTOP)
        try:
            self._job.watch(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def _flap(self, pid: int) -> None:
        for _ in range(round(STALL_S / (2 * FLAP_S))):
            self._stall(pid, FLAP_S)
            self._job.watch(FLAP_S)

    def _until(self, reached: Callable[[], bool], otherwise: str) -> None:
        self._job.until(reached, otherwise, self._patience_s)

"""A round: a cluster and a job with one adaptive unit, taken over again and again under load, every row checked."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence

import msgspec

from bench import jobs
from bench.cluster import BenchCluster, now_ms
from bench.failover.observer import Observer
from bench.feeder import Feeder
from bench.followed import Followed
from bench.promises.trials import DRILL, UNNOTICED, Outcome, Trial
from schemas import commands
from schemas.events import Event
from schemas.topics import Partition
from services.audit.replaying import replay

WORKERS = 3
RATE_PER_S, KEYS = 2_000, 10_000
WARM_UP_S = 6.0
"""Every key was there once."""
COOL_DOWN_S = 2
CALM_S = 1.0
"""Between two takeovers, and up to twice as much more: any time between two checkpoints, and two choices."""
PATIENCE_S = 60.0
JUDGED = ("promise-kept", "promise-broken")


def run_round(
    cluster: BenchCluster, name: str, some: Sequence[Trial], chance: random.Random, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Raises MeasureFailed if a takeover is not judged, or the unit does not become protected again."""
    quiet = {"HOLDFAST_EXIT_NOTICES": "false"} if some[0].kind == UNNOTICED else {}
    cluster.start(WORKERS, quiet)
    topic = f"bench-{name}"
    cluster.create(topic)
    outcomes: list[Outcome] = []
    settings = {"promise_ms": some[0].promise_ms, "cool_down_s": COOL_DOWN_S}
    with cluster.running(jobs.PROMISED, topic, name=name, **settings) as job:
        job.await_running()
        feeder = Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record)
        with Observer(cluster.log, cluster.topics) as observer, feeder:
            made = Made(cluster, job, observer, chance)
            job.watch(WARM_UP_S)
            for trial in some:
                outcomes.append(made.take_over(trial))
                done(outcomes[-1])
            made.settle()
        job.await_records(len(feeder.sent_ms))
        rows = replay(cluster.log, cluster.topics, job.plan.job).rows
        outcomes[-1] = msgspec.structs.replace(
            outcomes[-1], rows=rows.results, lost=rows.lost, duplicated=rows.duplicated, wrong=rows.wrong
        )
    return outcomes


def record(index: int) -> bytes:
    return b'{"user":"user-%d","amount":%d,"at":%d}' % (index % KEYS, index % 100, int(now_ms()))


class Made:
    """Makes takeovers of the job's unit, and reads how recovery has judged them."""

    def __init__(self, cluster: BenchCluster, job: Followed, observer: Observer, chance: random.Random) -> None:
        self._cluster, self._job, self._observer, self._chance = cluster, job, observer, chance
        (self._unit,) = [unit.name for unit in job.plan.units]

    def take_over(self, trial: Trial) -> Outcome:
        """Once the unit is protected. Raises MeasureFailed."""
        self.settle()
        self._job.watch(CALM_S * (1 + 2 * self._chance.random()))
        self.settle()
        seen, change = len(self._job.events), self._observer.change(self._job.plan.job, self._unit)
        if trial.kind == DRILL:
            drill = commands.Command("drill", self._job.plan.job, self._unit)
            self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), commands.encode(drill))
        else:
            leader = self._observer.leader_of(self._job.plan.job, self._unit)
            os.kill(self._cluster.workers()[leader], signal.SIGKILL)
        judged = self._judged(seen, change.epoch)
        return Outcome(
            trial.promise_ms,
            trial.kind,
            change.scheme,
            judged.phases_ms["total"],
            judged.predicted_ms.get("total", 0.0),
            judged.phases_ms,
        )

    def settle(self) -> None:
        """Until all workers answer and the unit is protected."""
        ready = lambda: self._observer.workers() == WORKERS and self._observer.protected()  # noqa: E731
        self._job.until(ready, "not protected again", PATIENCE_S)

    def _judged(self, seen: int, epoch: int) -> Event:
        """The first judgement of a takeover behind this epoch, among events from this place on."""

        def found() -> list[Event]:
            new = self._job.events[seen:]
            return [one for one in new if one.kind in JUDGED and one.unit == self._unit and one.epoch > epoch]

        self._job.until(lambda: bool(found()), "no judgement of the takeover", PATIENCE_S)
        return found()[0]

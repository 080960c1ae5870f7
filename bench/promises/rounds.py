"""A round: a cluster and a job with one adaptive unit, taken over again and again under load, every row checked."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from bench import jobs
from bench.cluster import BenchCluster, now_ms
from bench.failover.observer import Observer
from bench.feeder import Feeder
from bench.followed import Followed, MeasureFailed
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
REFUSED, ACTIVE = "drill-refused", "unit-active"
UNJUDGED_S = 10.0
"""A judgement follows the report of the copy that took over, unless recovery knew too little, or the unit went back."""
MOST_UNJUDGED = 8


def run_round(
    cluster: BenchCluster, name: str, some: Sequence[Trial], chance: random.Random, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Raises MeasureFailed if no takeover is judged, or the unit does not become protected again."""
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
        """Once the unit is protected; again as long as nobody judges it. Raises MeasureFailed."""
        for unjudged in range(MOST_UNJUDGED):
            self.settle()
            self._job.watch(CALM_S * (1 + 2 * self._chance.random()))
            self.settle()
            change = self._observer.change(self._job.plan.job, self._unit)
            judged = self._strike(trial, change.epoch)
            if judged is not None:
                total = judged.predicted_ms.get("total", 0.0)
                took_ms = judged.phases_ms["total"]
                return Outcome(
                    trial.promise_ms, trial.kind, change.scheme, took_ms, total, judged.phases_ms, unjudged=unjudged
                )
        raise MeasureFailed(f"{MOST_UNJUDGED} takeovers one after the other were refused, or not judged")

    def _strike(self, trial: Trial, epoch: int) -> Event | None:
        """How recovery has judged it; None: the drill was refused, or nobody judged."""
        seen = len(self._job.events)
        if trial.kind == DRILL:
            drill = commands.Command("drill", self._job.plan.job, self._unit)
            self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), commands.encode(drill))
            self._cluster.appender.flush(PATIENCE_S)
        else:
            leader = self._observer.leader_of(self._job.plan.job, self._unit)
            os.kill(self._cluster.workers()[leader], signal.SIGKILL)
        return self._judged(seen, epoch)

    def settle(self) -> None:
        """Until all workers answer and the unit is protected."""
        ready = lambda: self._observer.workers() == WORKERS and self._observer.protected()  # noqa: E731
        self._job.until(ready, "not protected again", PATIENCE_S)

    def _judged(self, seen: int, epoch: int) -> Event | None:
        """The first judgement of a takeover behind this epoch, among events from this place on; None: none comes."""
        active_s = math.inf

        def found(*kinds: str) -> list[Event]:
            new = self._job.events[seen:]
            return [one for one in new if one.kind in kinds and one.unit == self._unit and one.epoch > epoch]

        def over() -> bool:
            nonlocal active_s
            if active_s == math.inf and found(ACTIVE):
                active_s = time.monotonic()
            refused = any(one.kind == REFUSED and one.unit == self._unit for one in self._job.events[seen:])
            return bool(found(*JUDGED)) or refused or time.monotonic() > active_s + UNJUDGED_S

        self._job.until(over, "nobody took over", PATIENCE_S)
        return next(iter(found(*JUDGED)), None)

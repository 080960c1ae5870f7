"""A round: a cluster and a job for each of some promises, taken over again and again under load, every row checked.

Each job has one adaptive unit. A drill is made of all units at once; a kill takes over what its worker led.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from bench.failover.observer import Observer
from bench.promises.trials import DRILL, KILL, UNNOTICED, Outcome, Trial
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import Followed, MeasureFailed
from holdfast.schemas import commands
from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.audit.replay import replay

WORKERS = 3
RATE_PER_S, KEYS = 2_000, 10_000
INTERVAL_MS = 50
"""Between batches: of four jobs at once (--together 4), shorter ones would fill two cores before anything failed."""
COOL_DOWN_S = 2
WARM_UP_S = 6.0 + 2 * COOL_DOWN_S
"""Seconds within which every key occurs, and a cheaper scheme suits for two cool-downs: takeovers follow each other
faster.
"""
CALM_S = 0.5
"""Between two takeovers, and up to four times as much more: any time between two checkpoints, and two choices."""
PATIENCE_S = 60.0
JUDGED = ("promise-kept", "promise-broken")
REFUSED, ACTIVE = "drill-refused", "unit-active"
UNJUDGED_S = 10.0
"""A judgement follows the report of the copy that took over, unless recovery knew too little, or the unit went back."""
MOST_UNJUDGED = 8


@dataclass(slots=True)
class Promised:
    """The unit under one promise.

    left: number of takeovers that are still to be made, by kind.
    epoch: epoch before the present takeover.
    """

    promise_ms: int
    job: Followed
    left: Counter[str]
    outcomes: list[Outcome] = field(default_factory=list)
    unjudged: int = 0
    epoch: int = -1
    scheme: str = ""
    active_s: float = math.inf

    @property
    def name(self) -> str:
        return self.job.plan.job

    @property
    def unit(self) -> str:
        return self.job.plan.units[0].name

    def begins(self, epoch: int, scheme: str) -> None:
        """Notes that a takeover of the unit is made now."""
        self.epoch = epoch
        self.scheme = scheme
        self.active_s = math.inf

    def found(self, *kinds: str) -> list[Event]:
        """Events of its present takeover."""
        mine = [one for one in self.job.events if (one.job, one.unit) == (self.name, self.unit)]
        return [one for one in mine if one.kind in kinds and one.epoch > self.epoch]

    def refused(self, seen: int) -> bool:
        """True if its drill was refused, among events from this place on."""
        new = self.job.events[seen:]
        return any(one.kind == REFUSED and (one.job, one.unit) == (self.name, self.unit) for one in new)

    def over(self, seen: int) -> bool:
        """True if the takeover was judged, or will not be."""
        if self.active_s == math.inf and self.found(ACTIVE):
            self.active_s = time.monotonic()
        return bool(self.found(*JUDGED)) or self.refused(seen) or time.monotonic() > self.active_s + UNJUDGED_S

    def take(self, kind: str) -> Outcome | None:
        """Judgement of its present takeover; None if there is none."""
        judged = next(iter(self.found(*JUDGED)), None)
        if judged is None:
            self.unjudged += 1
            return None
        total, took_ms = judged.predicted_ms.get("total", 0.0), judged.phases_ms["total"]
        phases = judged.phases_ms
        made = Outcome(self.promise_ms, kind, self.scheme, took_ms, total, phases, unjudged=self.unjudged)
        self.outcomes.append(made)
        self.left[kind] -= 1
        self.unjudged = 0
        return made

    def chosen_ms(self) -> list[int]:
        """Times at which recovery has chosen another scheme."""
        return [one.time_ms for one in self.job.events if one.job == self.name and one.alternatives]

    def ends(self, rows: int, lost: int, duplicated: int, wrong: int) -> None:
        """Every row of its job was checked."""
        if not self.outcomes:
            return
        times = self.chosen_ms()
        hasty = sum(after - before < COOL_DOWN_S * 1000 for before, after in pairwise(times))
        self.outcomes[-1] = msgspec.structs.replace(
            self.outcomes[-1], rows=rows, lost=lost, duplicated=duplicated, wrong=wrong, changes=len(times), hasty=hasty
        )


def run_round(
    cluster: BenchCluster, name: str, some: Sequence[Trial], chance: random.Random, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Makes the takeovers of one round. Raises MeasureFailed if none is judged, or a unit does not become protected
    again.
    """
    quiet = {"HOLDFAST_EXIT_NOTICES": "false"} if some[0].kind == UNNOTICED else {}
    cluster.start(WORKERS, quiet)
    with _promised(cluster, f"bench-{name}", some) as units:
        feeder = Feeder(cluster.users_appender("feeder"), f"bench-{name}", RATE_PER_S, record)
        with Observer(cluster.log, cluster.topics) as observer, feeder:
            made = Made(cluster, units, observer, chance, done)
            made.watch(WARM_UP_S)
            made.all()
            made.settle()
        for one in units:
            one.job.await_records(len(feeder.sent_ms))
        for one in units:
            rows = replay(cluster.log, cluster.topics, one.name).rows
            one.ends(rows.results, rows.lost, rows.duplicated, rows.wrong)
    return [outcome for one in units for outcome in one.outcomes]


@contextmanager
def _promised(cluster: BenchCluster, topic: str, some: Sequence[Trial]) -> Iterator[list[Promised]]:
    """The running jobs of the units, which all read one topic; cancelled at the end of the context."""
    promises_ms = sorted({trial.promise_ms for trial in some})
    cluster.create(topic)
    cluster.log.create([TopicSpec(f"{topic}-out-{promise_ms}", 1) for promise_ms in promises_ms])
    settings = {"cool_down_s": COOL_DOWN_S, "interval_ms": INTERVAL_MS}
    with ExitStack() as stack:
        units = []
        for promise_ms in promises_ms:
            named = {"name": f"promise-{promise_ms}", "promise_ms": promise_ms}
            job = stack.enter_context(cluster.running(jobs.PROMISED, topic, **named, **settings))
            left = Counter(trial.kind for trial in some if trial.promise_ms == promise_ms)
            units.append(Promised(promise_ms, job, left))
        for one in units:
            one.job.await_running()
        yield units


def record(index: int) -> bytes:
    return b'{"user":"user-%d","amount":%d,"at":%d}' % (index % KEYS, index % 100, int(now_ms()))


class Made:
    """Makes takeovers of the units, and reads how recovery has judged them."""

    def __init__(
        self,
        cluster: BenchCluster,
        units: Sequence[Promised],
        observer: Observer,
        chance: random.Random,
        done: Callable[[Outcome], None],
    ) -> None:
        self._cluster = cluster
        self._units = units
        self._observer = observer
        self._chance = chance
        self._done = done

    def all(self) -> None:
        """Makes drills and kills in turns, until each unit has had its takeovers. Raises MeasureFailed."""
        fruitless = 0
        while kinds := [kind for kind in (DRILL, KILL, UNNOTICED) if self._wanting(kind)]:
            for kind in kinds:
                made = self._take_over(kind)
                fruitless = 0 if made else fruitless + 1
                if fruitless == MOST_UNJUDGED:
                    raise MeasureFailed(f"{MOST_UNJUDGED} takeovers one after the other were refused, or not judged")

    def watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._until(lambda: time.monotonic() > deadline, "", seconds + PATIENCE_S)

    def settle(self) -> None:
        """Waits until all workers answer and every unit is protected."""
        ready = lambda: self._observer.workers() == WORKERS and self._observer.protected()  # noqa: E731
        self._until(ready, "not protected again", PATIENCE_S)

    def _wanting(self, kind: str) -> list[Promised]:
        return [one for one in self._units if one.left[kind] > 0]

    def _take_over(self, kind: str) -> int:
        """Once all units are protected; how many takeovers were judged."""
        self.settle()
        self.watch(CALM_S * (1 + 4 * self._chance.random()))
        self.settle()
        wanting = self._wanting(kind)
        leaders = {id(one): self._observer.leader_of(one.name, one.unit) for one in self._units}
        victim, _ = Counter(leaders[id(one)] for one in wanting).most_common(1)[0]
        struck = wanting if kind == DRILL else [one for one in self._units if leaders[id(one)] == victim]
        seen = {id(one): len(one.job.events) for one in struck}
        for one in struck:
            change = self._observer.change(one.name, one.unit)
            one.begins(change.epoch, change.scheme)
        if kind == DRILL:
            self._drill(struck)
        else:
            os.kill(self._cluster.workers()[victim], signal.SIGKILL)
        self._until(lambda: all(one.over(seen[id(one)]) for one in struck), "nobody took over", PATIENCE_S)
        outcomes = [made for one in struck if (made := one.take(kind)) is not None]
        for made in outcomes:
            self._done(made)
        return len(outcomes)

    def _drill(self, units: Sequence[Promised]) -> None:
        for one in units:
            drill = commands.Command("drill", one.name, one.unit)
            self._cluster.appender.append(Partition(self._cluster.topics.submit, 0), commands.encode(drill))
        self._cluster.appender.flush(PATIENCE_S)

    def _until(self, reached: Callable[[], bool], otherwise: str, seconds: float) -> None:
        """Reads the records of all jobs until the condition holds. Raises MeasureFailed."""
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                raise MeasureFailed(f"{otherwise} after {seconds:g} s")
            for one in self._units:
                one.job.read(0.02 / len(self._units))

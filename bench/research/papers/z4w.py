"""Z4 on real workers: how late results are while the worker of one unit in a chain is loaded now and then, by scheme.

Each worker has a share of a CPU. A transient load is processes that take from the share of one worker.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import WARM_UP_S, WORKERS, record
from bench.failover.strikes import BETWEEN, OPERATORS
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, folder_of_its_own, now_ms
from bench.rig.feeder import Feeder
from bench.rig.followed import Followed, MeasureFailed
from bench.rig.quota import Quotas
from bench.rig.saying import say
from holdfast.services.audit.replay import replay
from holdfast.services.node.machine.processes import Child

NONE, PASSIVE, HYBRID, ACTIVE = "none", "passive", "hybrid", "active standby"
SCHEMES: Mapping[str, str] = {
    NONE: "none",
    PASSIVE: "passive-cold",
    HYBRID: "hybrid",
    ACTIVE: "active-replication",
}
TIMES, SECONDS = 2, 120.0
LOAD_S, PAUSE_S = 8.0, 8.0
"""Mean durations in seconds; each is drawn evenly between half and one and a half of its mean."""
SHARE, BURNERS = 0.3, 6
"""Share of a CPU for each worker; number of processes of a load, which leave the worker about a seventh of it."""
RATE_PER_S = 500
GRACE = "fixed:30"
TARGET = next(name for name, place in OPERATORS.items() if place == BETWEEN)
PROTECTED_S = 180.0
BURN = "while True: pass"
Spell = tuple[float, float]


def _key(line: str, number: int) -> str:
    return f"{line}, {number}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    """Measures a job for each point. Schemes take turns, so that a slow hour affects all of them."""
    with folder_of_its_own(say) as cluster:
        cluster.start(WORKERS, {"HOLDFAST_GRACE": GRACE, "HOLDFAST_BALANCE_CALM_S": "0"})
        for key in sorted(keys, key=lambda one: one.partition(", ")[2]):
            line, _, number = key.partition(", ")
            keep(key, _loaded(cluster, line, int(number)))


def _loaded(cluster: BenchCluster, line: str, number: int) -> Values:
    """Mean delay in all, and of records that come during a load. Raises MeasureFailed if a row is wrong."""
    name = f"loaded-{number}-{line.replace(' ', '-')}"
    topic = f"bench-{name}"
    cluster.create(topic)
    with ExitStack() as stack:
        job = stack.enter_context(cluster.running(jobs.FAILOVER, topic, name=name, scheme=SCHEMES[line]))
        job.await_running()
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        arrivals = stack.enter_context(Arrivals(cluster.log, f"{topic}-out"))
        feeder = stack.enter_context(Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record))
        job.watch(WARM_UP_S)
        job.until(observer.protected, "not protected", PROTECTED_S)
        worker = observer.leader_of(job.plan.job, _unit(job))
        quotas = stack.enter_context(Quotas(cluster.workers, SHARE))
        job.watch(WARM_UP_S)
        began_ms = now_ms()
        loads = _transient(job, quotas, worker, random.Random(number), cluster.folder)
        ended_ms = now_ms()
        job.until(lambda: bool(arrivals.seen) and arrivals.seen[-1][1] > ended_ms, "no result comes", PROTECTED_S)
        seen = list(arrivals.seen)
        feeder.stop()
        job.await_records(len(feeder.sent_ms))
        rows = replay(cluster.log, cluster.topics, job.plan.job).rows
        if inexact := rows.lost + rows.duplicated + rows.wrong:
            raise MeasureFailed(f"{inexact} rows lost, duplicated or wrong")
        switches = sum(e.kind == "decided" and began_ms <= e.time_ms < ended_ms for e in job.events)
    return {
        "delay_ms": mean_delay_ms(seen, [(began_ms, ended_ms)]),
        "loaded_ms": mean_delay_ms(seen, loads),
        "decisions": float(switches),
    }


def _unit(job: Followed) -> str:
    kinds = {one.name: one.kind for one in job.plan.operators}
    return next(u.name for u in job.plan.units for o in u.operators if TARGET in (o, kinds[o]))


def _transient(job: Followed, quotas: Quotas, worker: str, chance: random.Random, folder: Path) -> list[Spell]:
    """Loads come and go for SECONDS; from when to when each was there, ms."""
    found, until = list[Spell](), time.monotonic() + SECONDS
    while time.monotonic() < until:
        job.watch(PAUSE_S * chance.uniform(0.5, 1.5))
        began_ms = now_ms()
        with _burning(quotas, worker, folder):
            job.watch(LOAD_S * chance.uniform(0.5, 1.5))
        found.append((began_ms, now_ms()))
    return found


@contextmanager
def _burning(quotas: Quotas, worker: str, folder: Path) -> Iterator[None]:
    burners = [Child([sys.executable, "-c", BURN], log=folder / "burners.log") for _ in range(BURNERS)]
    try:
        for burner in burners:
            quotas.join(worker, burner.pid)
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def mean_delay_ms(seen: Sequence[tuple[float, float]], spans: Sequence[Spell]) -> float:
    """Mean delay of records that were sent within these spans, at a steady rate.

    Args:
        seen: (when rows arrived, when the newest record behind them was sent), in order. Records sent since the arrival
            before came with these rows.
    """
    weight, total = 0.0, 0.0
    for (_, before), (arrived_ms, newest) in pairwise(seen):
        for first, last in spans:
            low, high = max(before, first), min(newest, last)
            if low < high:
                weight += high - low
                total += (high - low) * (arrived_ms - (low + high) / 2)
    return total / weight if weight else 0.0


def _mean(data: Data, line: str, figure: str) -> float:
    return fmean(data[_key(line, number)][figure] for number in range(TIMES))


def _plots(data: Data) -> list[Plot]:
    series = tuple(
        Series(title, tuple((float(at), _mean(data, line, figure)) for at, line in enumerate(SCHEMES)))
        for title, figure in (("all records", "delay_ms"), ("records that come during a load", "loaded_ms"))
    )
    return [Plot("the worker of one unit is loaded now and then", "scheme", "mean delay, ms", series, tuple(SCHEMES))]


def _checks(data: Data) -> list[Check]:
    loaded = {line: _mean(data, line, "loaded_ms") for line in SCHEMES}
    return [
        at_most("under a load: hybrid over none", loaded[HYBRID] / loaded[NONE], 0.5, shape=True),
        at_most("under a load: active standby over hybrid", loaded[ACTIVE] / loaded[HYBRID], 1.1, shape=True),
        at_most("under a load: hybrid over passive", loaded[HYBRID] / loaded[PASSIVE], 1.0, shape=True),
        at_least("under a load: passive over none", loaded[PASSIVE] / loaded[NONE], 1.0),
        at_most("under a load: hybrid over active standby", loaded[HYBRID] / loaded[ACTIVE], 1.6),
    ]


Z4W = Figure(
    tag="Z4W",
    title="delay under transient loads, by scheme, on workers",
    paper="Zhang et al. 2010, figure 4",
    expected="active standby lowest; hybrid slightly above; none far above, passive worst.",
    setup=f"a chain of four units on {WORKERS} workers, {RATE_PER_S} records/s. Each worker has {SHARE:g} of a CPU. "
    f"{BURNERS} processes take from the share of the worker that led the unit between others, for {LOAD_S:g} s on "
    f"average, with {PAUSE_S:g} s between; {SECONDS:g} s each, {TIMES} times a scheme, schemes in turns. Recovery has "
    f"the paper's fixed grace, HOLDFAST_GRACE={GRACE}. Every row is checked at the end.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(line, number) for line in SCHEMES for number in range(TIMES)),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=1800,
    differs="Passive moves the unit off the loaded worker at the first load, and no load follows it; it would be worst "
    "if the other workers had loads of their own, as in Z4. Hybrid and active standby both have two copies at "
    "work under a load, and two runs of one scheme may differ as much as these two schemes do (data/Z4W.json "
    "has each run).",
)

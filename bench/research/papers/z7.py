"""Z7 and Z8 on real workers: the parts of a recovery by heartbeat and by checkpoint interval, hybrid and passive.

A worker is killed without an exit notice, so that only missing heartbeats show it, as in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from string import Template

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import RATE_PER_S, WARM_UP_S, WORKERS, Struck, record
from bench.failover.strikes import BETWEEN, KILL_UNNOTICED, OPERATORS, Outcome, Strike
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_most, below, linear, rises, within
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, folder_of_its_own
from bench.rig.feeder import Feeder
from bench.rig.followed import DEADLINE_S, Followed
from bench.rig.saying import say
from holdfast.schemas import commands
from holdfast.schemas.commands import Command
from holdfast.schemas.topics import Partition

HYBRID, PASSIVE = "hybrid", "passive"
SCHEMES = (HYBRID, PASSIVE)
KILLS, FEWER_KILLS = 4, 3
HEARTBEATS_MS, CHECKPOINTS_MS = (100, 200, 300, 400, 500), (100, 300, 500, 700, 900)
HEARTBEAT_MS, CHECKPOINT_MS = 100, 500
JOB = Template(jobs.FAILOVER.template.replace("{default", "{checkpoint: {interval_ms: $interval_ms}, default"))
UNNOTICED = {"HOLDFAST_EXIT_NOTICES": "false", "HOLDFAST_FORK_SERVER": "false"}
"""A fork of a loaded process would report itself before three long heartbeats are missed, and so report the death."""
TARGETS = [name for name, place in OPERATORS.items() if place == BETWEEN]
"""Units between others: the paper's have no source and no sink either."""


@dataclass(frozen=True, slots=True)
class Point:
    """A setting."""

    scheme: str
    heartbeat_ms: int
    checkpoint_ms: int

    @property
    def key(self) -> str:
        return f"{self.scheme} {self.heartbeat_ms} {self.checkpoint_ms}"


def _point(key: str) -> Point:
    scheme, heartbeat, checkpoint = key.split()
    return Point(scheme, int(heartbeat), int(checkpoint))


def _measure(keys: Sequence[str], keep: Keep) -> None:
    """A cluster for each point: workers are started with their heartbeat interval."""
    for point in map(_point, keys):
        with _chain(point) as chain:
            keep(point.key, _values(chain.killed(point.key, KILLS)))


def _measure_checkpoint(keys: Sequence[str], keep: Keep) -> None:
    """A cluster for each scheme, and one job on it, which takes a new interval while it runs."""
    for scheme in SCHEMES:
        points = [point for point in map(_point, keys) if point.scheme == scheme]
        if points:
            with _chain(points[0]) as chain:
                for point in points:
                    chain.checkpoint(point.checkpoint_ms)
                    keep(point.key, _values(chain.killed(point.key, FEWER_KILLS)))


@dataclass(frozen=True, slots=True)
class _Chain:
    """The job, fed."""

    cluster: BenchCluster
    job: Followed
    observer: Observer
    arrivals: Arrivals
    scheme: str

    def checkpoint(self, interval_ms: int) -> None:
        command = Command("checkpoint", self.job.plan.job, policy="sweep", interval_ms=interval_ms)
        self.cluster.appender.append(Partition(self.cluster.topics.submit, 0), commands.encode(command))
        self.cluster.appender.flush(DEADLINE_S)

    def killed(self, seed: str, kills: int) -> list[Outcome]:
        struck = Struck(self.cluster, self.job, self.observer, self.arrivals, random.Random(seed), 120.0)
        self.job.watch(WARM_UP_S)
        strike = Strike(self.scheme, KILL_UNNOTICED)
        return [struck.strike(strike, TARGETS[number % len(TARGETS)]) for number in range(kills)]


@contextmanager
def _chain(point: Point) -> Iterator[_Chain]:
    """A chain in a cluster of its own."""
    name = f"recovery-{point.key.replace(' ', '-')}"
    with folder_of_its_own(say) as cluster:
        cluster.start(WORKERS, {**UNNOTICED, "HOLDFAST_HEARTBEAT_INTERVAL_MS": str(point.heartbeat_ms)})
        topic = f"bench-{name}"
        cluster.create(topic)
        settings = {"name": name, "scheme": point.scheme, "interval_ms": point.checkpoint_ms}
        with cluster.running(JOB, topic, **settings) as job:
            job.await_running()
            observer, arrivals = Observer(cluster.log, cluster.topics), Arrivals(cluster.log, f"{topic}-out")
            with observer, arrivals, Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S / 4, record):
                yield _Chain(cluster, job, observer, arrivals, point.scheme)


def _values(outcomes: Sequence[Outcome]) -> Values:
    """Medians.

    rest: remaining time to the first result: fencing, delivery, the units behind.
    """
    found = {
        f"{part}_ms": median(one.phases_ms.get(part, 0.0) for one in outcomes)
        for part in ("detection", "activation", "replay")
    }
    total = median(one.takeover_ms for one in outcomes)
    return {**found, "rest_ms": max(0.0, total - sum(found.values())), "total_ms": total}


def _line(data: Data, scheme: str, part: str, points: Sequence[Point]) -> Series:
    varied = len({point.heartbeat_ms for point in points}) > 1
    xs = [float(point.heartbeat_ms if varied else point.checkpoint_ms) for point in points]
    return Series(f"{scheme}, {part}", tuple((x, data[p.key][f"{part}_ms"]) for x, p in zip(xs, points, strict=True)))


def _of(scheme: str, *, by_heartbeat: bool) -> list[Point]:
    if by_heartbeat:
        return [Point(scheme, ms, CHECKPOINT_MS) for ms in HEARTBEATS_MS]
    return [Point(scheme, HEARTBEAT_MS, ms) for ms in CHECKPOINTS_MS]


def _plots(data: Data, *, by_heartbeat: bool) -> list[Plot]:
    x = "heartbeat interval, ms" if by_heartbeat else "checkpoint interval, ms"
    found = []
    for scheme in SCHEMES:
        points = _of(scheme, by_heartbeat=by_heartbeat)
        lines = tuple(_line(data, scheme, part, points) for part in ("detection", "activation", "replay", "total"))
        found.append(Plot(f"{scheme}: parts of a recovery", x, "median of the kills, ms", lines))
    return found


def _checks_heartbeat(data: Data) -> list[Check]:
    lines = {
        (scheme, part): _line(data, scheme, part, _of(scheme, by_heartbeat=True))
        for scheme in SCHEMES
        for part in ("detection", "activation", "replay", "total")
    }

    def over(part: str) -> float:
        return fmean(y for _, y in lines[HYBRID, part].points) / fmean(y for _, y in lines[PASSIVE, part].points)

    return [
        rises(lines[HYBRID, "detection"], 2.0),
        rises(lines[PASSIVE, "detection"], 2.0),
        linear(lines[HYBRID, "detection"]),
        linear(lines[PASSIVE, "detection"]),
        below(lines[HYBRID, "activation"], lines[PASSIVE, "activation"], 1.0),
        below(lines[HYBRID, "total"], lines[PASSIVE, "total"], 1.0),
        within("detection: hybrid over passive (the paper: a third)", over("detection"), 0.2, 0.5),
        at_most("activation: hybrid over passive (the paper: .24)", over("activation"), 0.3),
        at_most("total: hybrid over passive (the paper: about a third)", over("total"), 0.5),
    ]


def _checks_checkpoint(data: Data) -> list[Check]:
    found = []
    for scheme in SCHEMES:
        points = _of(scheme, by_heartbeat=False)
        total = _line(data, scheme, "total", points)
        ratio = max(y for _, y in total.points) / min(y for _, y in total.points)
        found.append(at_most(f"{scheme}: largest total over smallest", ratio, 1.6, shape=True))
    replay = _line(data, PASSIVE, "replay", _of(PASSIVE, by_heartbeat=False))
    found.append(rises(replay, 1.0))
    return found


def _setup(kills: int) -> str:
    return (
        f"a chain of four units on {WORKERS} workers, {RATE_PER_S / 4:g} records/s; the worker of a unit between "
        f"others is killed without a notice, {kills} times at each point; medians. A process that is loaded afresh "
        "takes its place (HOLDFAST_FORK_SERVER=false), since a fork of a loaded one is back before three long "
        "heartbeats are missed, and reports it."
    )


Z7 = Figure(
    tag="Z7",
    title="parts of a recovery by heartbeat interval",
    paper="Zhang et al. 2010, figure 7",
    expected="detection grows linearly with the interval, hybrid's is about a third of passive's; resuming (112.82 ms) "
    "against redeploying (464.61 ms) does not depend on it; hybrid's total is about a third of passive's.",
    setup=f"{_setup(KILLS)} Checkpoints every {CHECKPOINT_MS} ms. Activation is resuming under hybrid, redeploying "
    "under passive.",
    ground=Ground.CLUSTER,
    keys=tuple(point.key for scheme in SCHEMES for point in _of(scheme, by_heartbeat=True)),
    measure=_measure,
    plots=lambda data: _plots(data, by_heartbeat=True),
    checks=_checks_heartbeat,
    seconds=900,
    differs="A total is counted from the kill, detection from the last sign of life before it.",
)

Z8 = Figure(
    tag="Z8",
    title="parts of a recovery by checkpoint interval",
    paper="Zhang et al. 2010, figure 8",
    expected="the time to replay grows slightly with the interval, the total is nearly flat.",
    setup=f"{_setup(FEWER_KILLS)} Heartbeats every {HEARTBEAT_MS} ms. One job a scheme, whose interval changes "
    "while it runs.",
    ground=Ground.CLUSTER,
    keys=tuple(point.key for scheme in SCHEMES for point in _of(scheme, by_heartbeat=False)),
    measure=_measure_checkpoint,
    plots=lambda data: _plots(data, by_heartbeat=False),
    checks=_checks_checkpoint,
    seconds=480,
    differs="Under `hybrid` the standby is refreshed about every 100 ms whatever the interval is, so that there is "
    "little to replay: the medians are 0.",
)

"""A cluster with a hybrid job on a machine that is loaded more and more, recorded for all detectors at once."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import Template

import msgspec

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import WORKERS, record
from bench.research.detectors.elements import FIRST, LOAD
from bench.research.detectors.evaluation import (
    Adaptive,
    Fixed,
    Judgement,
    idle_us,
    judged,
    standstills,
    watch,
    watch_elements,
)
from bench.research.detectors.machine_load import LoadMeter, burners
from bench.research.detectors.recorder import monotonic_us
from bench.research.detectors.recording import timings, turns
from bench.rig import jobs
from bench.rig.cluster import BenchCluster
from bench.rig.feeder import Feeder
from bench.rig.followed import Followed
from holdfast.services.audit.replay import replay
from holdfast.services.node.machine.processes import Child
from holdfast.services.recovery.core.recovery import BEAT_US
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.recovery.replica import ECHO_MS

RATE_PER_S = 200
JOB = Template(f"batch_interval_ms: 200\n{jobs.FAILOVER.template}")
"""A job with few batches, so that the cluster leaves most of the machine to the loads: only
heartbeats are evaluated.
"""
LEVELS: Mapping[str, float] = {"50%": 0.5, "80%": 0.8, "95%": 0.95, "overfull": 2.0}
"""Shares of busy cores; overfull: two processes a core that never rest, in addition to the cluster's own."""

HEARTBEAT, FIXED, BENCHMARK = "heartbeat", "fixed", "benchmark"
DETECTORS = {
    HEARTBEAT: "missed heartbeats; the grace follows each worker, and nothing counts while the observer is late (ours)",
    FIXED: "missed heartbeats with a fixed grace of 30 ms (the paper's)",
    BENCHMARK: f"20 elements that take half as long again as when idle, run above {LOAD:.0%} load (the paper's other)",
}
MISSES = (1, 2, 3)
QUIET_S = 15.0
"""Seconds before the first load, in which new processes settle, and the benchmark is calibrated."""
SETTLING_S = 3.0
PROTECTED_S = 120.0
BEFORE_MS, AFTER_MS = 500, 2_000
"""A silence of results that lies so far around a switch is counted as its doing."""


class Judged(msgspec.Struct, frozen=True):
    """Judgement of one detector; misses 0: it counts none."""

    detector: str
    misses: int
    found: Judgement


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of one load for some time.

    load: found, 0 to 1.
    workers: each is suspected or not by itself.
    stood_still: times that a worker was not heard for five intervals.
    switches: that the cluster itself made.
    longest_gap_ms: without a result; at_switches: around them.
    inexact: rows lost, duplicated or wrong in the whole run.
    """

    level: str
    seconds: float
    load: float
    workers: int
    stood_still: int
    switches: int
    longest_gap_ms: float
    longest_gap_at_switches_ms: float
    inexact: int
    judged: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A running job; its cluster's data for detectors are recorded.

    files: turns, timings.
    log: output of the processes beside it.
    """

    cluster: BenchCluster
    job: Followed
    arrivals: Arrivals
    observer: Observer
    files: tuple[Path, Path]
    log: Path

    @contextmanager
    def loaded(self, share: float, *words: str) -> Iterator[None]:
        """Loads the machine to this share in its context.

        words: further arguments of each process that makes the load.
        """
        with ExitStack() as load:
            for _ in range(burners(share)):
                load.enter_context(_running(self.log, "machine_load", str(share), *words))
            self.job.watch(SETTLING_S)
            yield

    def protected(self) -> None:
        self.job.until(lambda: self.observer.protected(), "not protected", PROTECTED_S)

    def inexact(self) -> int:
        """Rows lost, duplicated or wrong so far."""
        rows = replay(self.cluster.log, self.cluster.topics, self.job.plan.job).rows
        return rows.lost + rows.duplicated + rows.wrong


@contextmanager
def recorded(cluster: BenchCluster, name: str, template: Template = JOB) -> Iterator[Recorded]:
    """A cluster that is up, with a hybrid job, fed. Raises MeasureFailed."""
    cluster.start(WORKERS)
    topic = f"bench-{name}"
    cluster.create(topic)
    files = cluster.folder / "turns.jsonl", cluster.folder / "timings.jsonl"
    with ExitStack() as stack:
        job = stack.enter_context(cluster.running(template, topic, name=name, scheme="hybrid"))
        job.await_running()
        arrivals = stack.enter_context(Arrivals(cluster.log, f"{topic}-out"))
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        stack.enter_context(Feeder(cluster.users_appender("feeder"), topic, RATE_PER_S, record))
        found = Recorded(cluster, job, arrivals, observer, files, cluster.folder / "study.log")
        found.protected()
        stack.enter_context(_running(found.log, "recorder", cluster.bootstrap_servers, str(files[0])))
        stack.enter_context(_running(found.log, "elements", str(files[1])))
        job.watch(QUIET_S)
        yield found


def study(cluster: BenchCluster, name: str, levels: Sequence[str], seconds: float) -> Iterator[Outcome]:
    """Outcomes, one for each level, as each is over. Raises MeasureFailed."""
    with recorded(cluster, name) as made:
        for level in levels:
            cluster.say(f"  {level} load for {seconds:g} s ...")
            with made.loaded(LEVELS[level]):
                part = _part(made.job, made.arrivals, seconds)
            made.protected()
            yield part(level, made.files, made.inexact())


@contextmanager
def _running(log: Path, module: str, *words: str) -> Iterator[None]:
    child = Child([sys.executable, "-m", f"bench.research.detectors.{module}", *words], log=log)
    try:
        yield
    finally:
        child.send(signal.SIGKILL)
        child.wait()


def _part(job: Followed, arrivals: Arrivals, seconds: float) -> Callable[[str, tuple[Path, Path], int], Outcome]:
    """Waits under load; the part is evaluated later, without load."""
    meter, start_us, start_ms = LoadMeter(), monotonic_us(), time.time() * 1000
    job.watch(seconds)
    load, end_us, end_ms = meter.share(), monotonic_us(), time.time() * 1000

    def outcome(level: str, files: tuple[Path, Path], inexact: int) -> Outcome:
        silent = (one for one in job.events if one.kind == "decided" and one.job == job.plan.job)
        at_ms = [e.time_ms for e in silent if start_ms <= e.time_ms < end_ms and Sign.PRIMARY_SILENT.value in e.detail]
        near, far = windows([float(at) for at in at_ms], start_ms, end_ms)
        at_switches, elsewhere = (max((arrivals.silence(*w) for w in some), default=0.0) for some in (near, far))
        stood_still, found = evaluate(files, (start_us, end_us))
        return Outcome(
            level=level,
            seconds=round((end_us - start_us) / 1e6, 1),
            load=round(load, 3),
            workers=WORKERS,
            stood_still=stood_still,
            switches=len(at_ms),
            longest_gap_ms=round(max(at_switches, elsewhere), 1),
            longest_gap_at_switches_ms=round(at_switches, 1),
            inexact=inexact,
            judged=found,
        )

    return outcome


Window = tuple[float, float]


def windows(switches_ms: Sequence[float], start_ms: float, end_ms: float) -> tuple[list[Window], list[Window]]:
    """Around switches, joined where they overlap, and the time between them."""
    near: list[Window] = []
    for at in sorted(switches_ms):
        begin, end = max(at - BEFORE_MS, start_ms), min(at + AFTER_MS, end_ms)
        if near and begin <= near[-1][1]:
            near[-1] = near[-1][0], end
        else:
            near.append((begin, end))
    edges = [start_ms, *(edge for window in near for edge in window), end_ms]
    between = [window for number, window in enumerate(pairwise(edges)) if number % 2 == 0 and window[0] < window[1]]
    return near, between


def evaluate(files: tuple[Path, Path], between_us: tuple[int, int]) -> tuple[int, tuple[Judged, ...]]:
    """Number of standstills of workers, and the judgement of every detector. All of the recording is shown to them."""
    seen, timed = turns(files[0]), timings(files[1])
    still = standstills(seen, BEAT_US)
    found = []
    for misses in MISSES:
        for name, watcher in ((HEARTBEAT, Adaptive(BEAT_US, ECHO_MS * 1000)), (FIXED, Fixed(BEAT_US))):
            suspected = watch(seen, watcher, misses, BEAT_US)
            found.append(Judged(name, misses, judged(suspected, between_us, still, BEAT_US)))
    suspected = watch_elements(timed, seen, idle_us(timed, FIRST), LOAD)
    found.append(Judged(BENCHMARK, 0, judged(suspected, between_us, still, BEAT_US)))
    return sum(1 for begin, _ in still if between_us[0] <= begin < between_us[1]), tuple(found)

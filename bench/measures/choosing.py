"""Effect of choosing schemes on the data's speed: count-1k while its scheme is recovery's to choose, and while it is
fixed.

Both sides are the same copies of one job that works through a backlog: a command `scheme` takes the choice away and
gives it back, by turns of some seconds. A job in which the scheme or a copy changed does not count.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.failover.observer import Observer
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, now_ms
from bench.rig.figures import Figures
from bench.rig.followed import Followed, MeasureFailed, Reached
from bench.rig.scale import Scale
from bench.rig.spent import Spent
from holdfast.schemas import commands
from holdfast.schemas.assignments import Change, Copy
from holdfast.schemas.topics import Partition

FIXED, ADAPTIVE = "passive", "adaptive"
"""A unit that becomes adaptive keeps its scheme for its cool-down, which is an hour: only the choosing differs. Under
this one no second copy processes: two of them and Kafka fill two cores, where neighbouring turns differ by up to 80 %.
"""
COPIES = 1
SURE = 1.645
"""Standard errors to each side that hold the true mean with 90 %."""
KEYS = 1_000
SETTLING_S, TURN_S = 0.5, 2.5
"""Seconds after a command, and seconds measured then: five reviews of the schemes, and some 25 progress reports."""
WAITS_S = 30.0
BACKLOG, LEAST_RECORDS = 4, 6_000_000
"""Backlog as a multiple of other measures' records, and its least size; a smaller one ends before both sides had a
turn.
"""
LEFT = 0.05
"""Share of the backlog: a turn that ends with less is not counted, the source was about to run dry."""


class Unlike(Exception):
    """Two sides did not run alike; the message has both states."""


@dataclass(frozen=True, slots=True)
class Stood:
    """Scheme and copies, which must be equal on both sides."""

    scheme: str
    copies: tuple[Copy, ...]

    @classmethod
    def of(cls, change: Change) -> Stood:
        return cls(change.scheme, change.copies)

    def __str__(self) -> str:
        return f"{self.scheme} on {', '.join(copy.worker for copy in self.copies)}"


@dataclass(frozen=True, slots=True)
class Turn:
    """The measurement of a side, and its conditions.

    side: FIXED or ADAPTIVE.
    services: cores used by recovery, controller and supervisor.
    stood: the unit's scheme and copies at its begin and at its end.
    """

    side: str
    records_per_s: float
    services: float
    stood: tuple[Stood, Stood]


def choosing(cluster: BenchCluster, name: str, scale: Scale) -> Figures:
    """Pairs of turns, each side first as often as last, in two jobs a round that read the same records."""
    topic = f"bench-{name}"
    cluster.create(topic)
    records = max(BACKLOG * scale.records, LEAST_RECORDS)
    start = int(now_ms()) - records
    cluster.preload(topic, records, KEYS, lambda index: start + index)
    pairs: list[tuple[Turn, Turn]] = []
    left_out = 0
    for number in range(2 * scale.rounds):
        first, second = (FIXED, ADAPTIVE) if number % 2 == 0 else (ADAPTIVE, FIXED)
        found = _one(cluster, topic, f"{name}-{number}", (first, second), records)
        cluster.say(f"  job {number + 1}: " + ", ".join(f"{one.side} {one.records_per_s:,.0f}/s" for one in found))
        try:
            pairs += paired(found)
        except Unlike as error:
            cluster.say(f"  it does not count: {error}")
            left_out += 1
    return figures(pairs) | {"jobs_left_out": left_out}


def figures(pairs: Sequence[tuple[Turn, Turn]]) -> Figures:
    """Figures of pairs of the fixed and the adaptive side. Raises MeasureFailed for fewer than two pairs.

    low, high: bounds with 90 %.

    They use the mean of the logarithms, not the median: neighbouring turns differ by 10 % under any choice.
    """
    if len(pairs) < 2:
        raise MeasureFailed("the backlog was gone before both sides had their turns: more --records are needed")
    logs = [math.log(adaptive.records_per_s / fixed.records_per_s) for fixed, adaptive in pairs]
    mean, wide = statistics.fmean(logs), SURE * statistics.stdev(logs) / math.sqrt(len(logs))
    found: Figures = {"adaptive_over_fixed": mean, "low": mean - wide, "high": mean + wide}
    ratios = {name: round(math.exp(value), 3) for name, value in found.items()}
    fixed, adaptive = ([pair[at] for pair in pairs] for at in (0, 1))
    return {
        "fixed_records_per_s": round(statistics.fmean(one.records_per_s for one in fixed)),
        "adaptive_records_per_s": round(statistics.fmean(one.records_per_s for one in adaptive)),
        **ratios,
        "differs_by": round(abs(ratios["adaptive_over_fixed"] - 1), 3),
        "fixed_services_cores": round(statistics.fmean(one.services for one in fixed), 4),
        "adaptive_services_cores": round(statistics.fmean(one.services for one in adaptive), 4),
        "pairs": len(pairs),
    }


def paired(turns: Sequence[Turn]) -> list[tuple[Turn, Turn]]:
    """Neighbours, the fixed one first. Raises Unlike if scheme or copies changed."""
    stood = {end for turn in turns for end in turn.stood}
    if len(stood) > 1:
        raise Unlike(f"the two sides did not run the same: {'; '.join(sorted(map(str, stood)))}")
    both = zip(turns[::2], turns[1::2], strict=False)
    return [(one, other) if one.side == FIXED else (other, one) for one, other in both]


def order(first: str, second: str) -> Iterator[str]:
    """A B B A A B B A ...: of each two neighbours one is of each side, and each is first as often as last."""
    while True:
        yield from (first, second, second, first)


def _one(cluster: BenchCluster, topic: str, name: str, sides: tuple[str, str], records: int) -> list[Turn]:
    """The turns within one job's backlog."""
    turns: list[Turn] = []
    with cluster.running(jobs.under(jobs.COUNT, ADAPTIVE), topic, name=name) as job:
        unit = job.plan.units[0].name
        with Observer(cluster.log, cluster.topics) as observer:
            job.await_running()
            job.until(observer.protected, "nobody has placed it", WAITS_S)
            _ask(cluster, job, observer, unit, FIXED)
            job.until(lambda: observer.protected() and job.records > 0, "not protected", WAITS_S)
            for side in order(*sides):
                _ask(cluster, job, observer, unit, side)
                begun = Stood.of(observer.change(job.plan.job, unit))
                if begun.scheme != FIXED or len(begun.copies) != COPIES:
                    raise MeasureFailed(f"{unit} is not under {FIXED}, with as many copies: {begun}")
                since_ms, began_s, before = now_ms(), time.monotonic(), Spent.of(cluster)
                job.watch(TURN_S)
                services = (Spent.of(cluster).services - before.services) / (time.monotonic() - began_s)
                ended = Stood.of(observer.change(job.plan.job, unit))
                if job.records > (1 - LEFT) * records:
                    break
                turns.append(Turn(side, speed(job.reached, since_ms), services, (begun, ended)))
        job.await_records(records)
    return turns


def _ask(cluster: BenchCluster, job: Followed, observer: Observer, unit: str, side: str) -> None:
    """Returns once a record of recovery confirms who chooses the scheme, and the copies have settled."""
    asked = commands.Command("scheme", job.plan.job, unit, side)
    cluster.appender.append(Partition(cluster.topics.submit, 0), commands.encode(asked))
    cluster.appender.flush(WAITS_S)
    wanted = side == ADAPTIVE
    job.until(lambda: observer.change(job.plan.job, unit).adaptive is wanted, f"not under {side}", WAITS_S)
    job.watch(SETTLING_S)


def speed(reached: Sequence[Reached], since_ms: float) -> float:
    """Records a second since then. Raises MeasureFailed."""
    some = reached[bisect_left([one.time_ms for one in reached], since_ms) :]
    if len(some) < 2 or some[-1].time_ms <= some[0].time_ms:
        raise MeasureFailed("the job has not reported its progress")
    return (some[-1].records - some[0].records) / (some[-1].time_ms - some[0].time_ms) * 1000

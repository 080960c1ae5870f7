"""Z9 (and 10) on real workers: a hybrid unit whose worker is absent for a while, by rate and by duration.

One run measures both: the times of the failover and the switch back, and the traffic to the absent worker meanwhile.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from operator import itemgetter
from statistics import fmean, median

from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import WARM_UP_S, WORKERS, Away, Struck, record
from bench.failover.strikes import BETWEEN, OPERATORS
from bench.measures.overhead import codecs, entries, payloads
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import linear, within
from bench.rig import jobs
from bench.rig.cluster import BenchCluster, folder_of_its_own
from bench.rig.feeder import Feeder
from bench.rig.figures import middle_slope
from bench.rig.followed import Followed
from bench.rig.machine import machine_cpu_s
from bench.rig.saying import say
from bench.rig.tap import Kept, PromptReader, Tap
from holdfast.schemas.topics import Partition

RATES_PER_S, AWAY_S, TIMES = (1_000, 4_000, 7_000), (5, 10), 9
TARGET = next(name for name, place in OPERATORS.items() if place == BETWEEN)
SWITCH_OVER, SWITCH_BACK, DETECTION, ROWS, ENTRIES, BUSY = (
    "switch_over_ms",
    "switch_back_ms",
    "detection_ms",
    "rows",
    "entries",
    "busy",
)


def _key(rate_per_s: int, away_s: int, number: int) -> str:
    return f"{rate_per_s} {away_s} {number}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    """Measures one job. Points come in random order, so that neither the job's youth nor a slow hour affects a single
    rate.
    """
    ordered = list(keys)
    random.Random(len(ordered)).shuffle(ordered)
    with folder_of_its_own(say) as cluster, ExitStack() as stack:
        cluster.start(WORKERS)
        topic = "bench-away"
        cluster.create(topic)
        job = stack.enter_context(cluster.running(jobs.FAILOVER, topic, name="away", scheme="hybrid"))
        job.await_running()
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        arrivals = stack.enter_context(Arrivals(cluster.log, f"{topic}-out"))
        struck = Struck(cluster, job, observer, arrivals, random.Random(1), 120.0)
        for key in ordered:
            rate, length, _ = map(int, key.split())
            with Feeder(cluster.users_appender("feeder"), topic, rate, record):
                job.watch(WARM_UP_S)
                keep(key, _away(cluster, job, struck, length))


def _away(cluster: BenchCluster, job: Followed, struck: Struck, seconds: int) -> Values:
    """Values of one absence of the unit's worker.

    busy: share of the machine's processors that work until it leads again.
    rows: rows of the frames sent to the unit meanwhile.
    entries: entries of its checkpoints meanwhile.
    """
    topics = cluster.topics.job(job.plan.job, job.plan.generation)
    unit = next(u for u in job.plan.units for o in u.operators if o == TARGET)
    inputs = codecs(job, topics, unit.name)
    own = Partition(topics.checkpoints, unit.partition)
    with Tap(PromptReader(cluster.bootstrap_servers, cluster.log.offsets([*inputs, own], "end"))) as tap:
        began_s, worked_s = time.monotonic(), machine_cpu_s()[0]
        away = struck.away(TARGET, seconds)
        busy = (machine_cpu_s()[0] - worked_s) / (time.monotonic() - began_s) / (os.cpu_count() or 1)
    rows = sum(codec.decode(payloads(_while(away, tap.kept.get(each, [])))).height for each, codec in inputs.items())
    return {
        SWITCH_OVER: away.first_ms - away.signal_ms,
        SWITCH_BACK: away.again_ms - away.returned_ms,
        DETECTION: away.detection_ms,
        ROWS: rows,
        ENTRIES: sum(map(entries, _while(away, tap.kept.get(own, [])))),
        BUSY: busy,
    }


def _while(away: Away, kept: Sequence[Kept]) -> list[bytes]:
    """Written from the signal until the worker led again, by the clock of this machine."""
    return [one.message.value() or b"" for one in kept if away.signal_ms <= one.message.timestamp()[1] <= away.again_ms]


def _each(data: Data, away_s: int, value: Callable[[Values], float]) -> list[tuple[float, float]]:
    """Every repetition: (rate, value)."""
    return [(float(rate), value(data[_key(rate, away_s, n)])) for rate in RATES_PER_S for n in range(TIMES)]


def _line(data: Data, away_s: int, name: str, value: Callable[[Values], float]) -> Series:
    found = _each(data, away_s, value)
    points = tuple((float(rate), median(y for x, y in found if x == rate)) for rate in RATES_PER_S)
    return Series(f"{name}, away {away_s} s", points)


TIMES_OF: dict[str, Callable[[Values], float]] = {
    "detection": lambda one: one[DETECTION],
    "switching over after detection": lambda one: one[SWITCH_OVER] - one[DETECTION],
    "switching back": lambda one: one[SWITCH_BACK],
}


def _plots_times(data: Data) -> list[Plot]:
    lines = tuple(_line(data, length, title, value) for title, value in TIMES_OF.items() for length in AWAY_S)
    busy = tuple(_line(data, length, "busy", itemgetter(BUSY)) for length in AWAY_S)
    return [
        Plot("a worker is away", "rate of the source, records/s", "median, ms", lines),
        Plot("the machine meanwhile", "rate of the source, records/s", "share of its processors, median", busy),
    ]


def rise(points: Sequence[tuple[float, float]], mean: float) -> float:
    """Rise over the rates, from the lowest to the highest, as a share of a mean. The slope is the middle one of those
    between two repetitions: one that was struck during another takeover does not decide.
    """
    return middle_slope(points) * (RATES_PER_S[-1] - RATES_PER_S[0]) / mean


def _mean(data: Data, away_s: int, value: Callable[[Values], float]) -> float:
    return fmean(y for _, y in _each(data, away_s, value))


def _checks_times(data: Data) -> list[Check]:
    found = []
    for title, whole, (low, high, shape) in (
        ("switching over after detection", SWITCH_OVER, (-0.5, 0.5, True)),
        ("switching back", SWITCH_BACK, (-0.1, 1.0, False)),
    ):
        for length in AWAY_S:
            mean = _mean(data, length, itemgetter(whole))
            share = rise(_each(data, length, TIMES_OF[title]), mean)
            what = f"{title}, away {length} s: rise over the rates, by the slope, over the mean from its begin"
            found.append(within(what, share, low, high, shape=shape))
    return found


def _elements(one: Values) -> float:
    return (one[ROWS] + one[ENTRIES]) / 1000


def _sent(data: Data) -> list[Series]:
    return [_line(data, length, "elements", _elements) for length in AWAY_S]


def _plots_sent(data: Data) -> list[Plot]:
    return [Plot("what the switches cost", "rate of the source, records/s", "elements, 1,000", tuple(_sent(data)))]


def _checks_sent(data: Data) -> list[Check]:
    sent = _sent(data)
    means = [fmean(y for _, y in line.points) for line in sent]
    longer = AWAY_S[-1] / AWAY_S[0]
    return [
        *(linear(line, 0.95) for line in sent),
        within(
            f"away {longer:g} times as long: elements", means[-1] / means[0], 0.75 * longer, 1.25 * longer, shape=True
        ),
    ]


_SETUP = (
    f"a chain of four units under hybrid on {WORKERS} workers; the worker of the first unit with state is frozen for "
    f"{' and '.join(map(str, AWAY_S))} s, {TIMES} times at each point, in random order; medians. "
    "Rules go by all repetitions, and by the middle one of the slopes between two."
)

Z9 = Figure(
    tag="Z9",
    title="switching over and back, and what it costs, by rate",
    paper="Zhang et al. 2010, figures 9 and 10",
    expected="the time to switch over is stable over rates and outages, the time to roll back grows a little with the "
    "rate; the message overhead is about the rate times the length of the outage.",
    setup=f"{_SETUP} Switching over: from the freeze to the first new result, less detection; back: from its end until "
    "the worker leads the unit again. Elements, from the freeze until then: rows in the logs that the unit reads, and "
    "entries of checkpoints that its stand-in writes.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(rate, length, n) for rate in RATES_PER_S for length in AWAY_S for n in range(TIMES)),
    measure=_measure,
    plots=lambda data: [*_plots_times(data), *_plots_sent(data)],
    checks=lambda data: [*_checks_times(data), *_checks_sent(data)],
    seconds=2000,
)

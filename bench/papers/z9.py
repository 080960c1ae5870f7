"""Z9 (and 10) on real workers: a hybrid unit whose worker is away for a while, by rate and by how long.

One run is behind both: the times of switching over and back, and what the worker that was away is sent meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import fmean, median

from bench import jobs
from bench.cluster import BenchCluster, folder_of_its_own
from bench.failover.arrivals import Arrivals
from bench.failover.observer import Observer
from bench.failover.rounds import WARM_UP_S, WORKERS, Away, Struck, record
from bench.failover.strikes import BETWEEN, OPERATORS
from bench.feeder import Feeder
from bench.followed import Followed
from bench.overhead import codecs, entries, payloads
from bench.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.papers.rules import at_most, linear, within
from bench.saying import say
from bench.tap import Kept, PromptReader, Tap
from schemas.topics import Partition

RATES_PER_S, AWAY_S, TIMES = (1_000, 4_000, 7_000), (5, 10), 2
TARGET = next(name for name, place in OPERATORS.items() if place == BETWEEN)
SWITCH_OVER, SWITCH_BACK, ROWS, ENTRIES = "switch_over_ms", "switch_back_ms", "rows", "entries"


def _key(rate_per_s: int, away_s: int) -> str:
    return f"{rate_per_s} {away_s}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    """A job for each rate."""
    wanted = {rate: [s for s in AWAY_S if _key(rate, s) in keys] for rate in RATES_PER_S}
    with folder_of_its_own(say) as cluster:
        cluster.start(WORKERS)
        for rate, lengths in wanted.items():
            if lengths:
                _at(cluster, rate, lengths, keep)


def _at(cluster: BenchCluster, rate: int, lengths: Sequence[int], keep: Keep) -> None:
    name = f"away-{rate}"
    topic = f"bench-{name}"
    cluster.create(topic)
    with ExitStack() as stack:
        job = stack.enter_context(cluster.running(jobs.FAILOVER, topic, name=name, scheme="hybrid"))
        job.await_running()
        observer = stack.enter_context(Observer(cluster.log, cluster.topics))
        arrivals = stack.enter_context(Arrivals(cluster.log, f"{topic}-out"))
        stack.enter_context(Feeder(cluster.users_appender("feeder"), topic, rate, record))
        struck = Struck(cluster, job, observer, arrivals, random.Random(rate), 120.0)
        job.watch(WARM_UP_S)
        for length in lengths:
            keep(_key(rate, length), _values([_away(cluster, job, struck, length) for _ in range(TIMES)]))


def _away(cluster: BenchCluster, job: Followed, struck: Struck, seconds: int) -> Values:
    """Once. rows: of frames that the unit was sent; entries: of checkpoints of it. Both while its worker was away."""
    topics = cluster.topics.job(job.plan.job, job.plan.generation)
    unit = next(u for u in job.plan.units for o in u.operators if o == TARGET)
    inputs = codecs(job, topics, unit.name)
    own = Partition(topics.checkpoints, unit.partition)
    with Tap(PromptReader(cluster.bootstrap_servers, cluster.log.offsets([*inputs, own], "end"))) as tap:
        away = struck.away(TARGET, seconds)
    rows = sum(codec.decode(payloads(_while(away, tap.kept.get(each, [])))).height for each, codec in inputs.items())
    return {
        SWITCH_OVER: away.first_ms - away.signal_ms,
        SWITCH_BACK: away.again_ms - away.returned_ms,
        ROWS: rows,
        ENTRIES: sum(map(entries, _while(away, tap.kept.get(own, [])))),
    }


def _while(away: Away, kept: Sequence[Kept]) -> list[bytes]:
    """Written from the signal until the worker led again, by the clock of this machine."""
    return [one.message.value() or b"" for one in kept if away.signal_ms <= one.message.timestamp()[1] <= away.again_ms]


def _values(found: Sequence[Values]) -> Values:
    return {name: median(one[name] for one in found) for name in found[0]}


def _line(data: Data, away_s: int, name: str, value: Callable[[Values], float]) -> Series:
    points = tuple((float(rate), value(data[_key(rate, away_s)])) for rate in RATES_PER_S)
    return Series(f"{name}, away {away_s} s", points)


def _times(data: Data, what: str) -> list[Series]:
    title = {SWITCH_OVER: "switching over", SWITCH_BACK: "switching back"}[what]
    return [_line(data, length, title, lambda one: one[what]) for length in AWAY_S]


def _plots_times(data: Data) -> list[Plot]:
    lines = (*_times(data, SWITCH_OVER), *_times(data, SWITCH_BACK))
    return [Plot("a worker is away", "rate of the source, records/s", "median, ms", lines)]


def _checks_times(data: Data) -> list[Check]:
    found = []
    for line in _times(data, SWITCH_OVER):
        ratio = max(y for _, y in line.points) / min(y for _, y in line.points)
        found.append(at_most(f"{line.name}: largest over smallest", ratio, 1.6, shape=True))
    for line in _times(data, SWITCH_BACK):
        ratio = line.points[-1][1] / line.points[0][1]
        found.append(within(f"{line.name}: last over first", ratio, 1.0, 3.0))
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
    f"{' and '.join(map(str, AWAY_S))} s, {TIMES} times at each point; medians."
)

Z9 = Figure(
    tag="Z9",
    title="switching over and back, and what it costs, by rate",
    paper="Zhang et al. 2010, figures 9 and 10",
    expected="the time to switch over is stable over rates and outages, the time to roll back grows a little with the "
    "rate; the message overhead is about the rate times the length of the outage.",
    setup=f"{_SETUP} Switching over: from the freeze to the first new result; back: from its end until the worker "
    "leads the unit again. Elements, from the freeze until then: rows in the logs that the unit reads, and entries of "
    "checkpoints that its stand-in writes.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(rate, length) for rate in RATES_PER_S for length in AWAY_S),
    measure=_measure,
    plots=lambda data: [*_plots_times(data), *_plots_sent(data)],
    checks=lambda data: [*_checks_times(data), *_checks_sent(data)],
    seconds=300,
)

"""C6 and C3 on real workers: expected recovery under min-max and round-robin with the paper's three units, and how long
results wait for captures of units and of whole workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from bench.research.papers.crowd import Crowd, Piece, Setting, crowd
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_most, below
from bench.research.papers.spending import Dear, Heavy, Light, Part
from bench.rig.cluster import now_ms
from bench.rig.figures import percentile
from bench.rig.saying import say

SHARE, BATCH_MS = 0.58, 800
WARM_UP_S, SECONDS = 6.0, 30.0
SAMPLE_MS = 100.0
MINMAX, ROBIN, WHOLE = "idle-minmax", "idle-roundrobin", "whole-worker"
ROUNDS = 3

# -- C6 ---------------------------------------------------------------------------------------------------------------

THREE = (Piece(200, 50, Light.__name__), Piece(200, 50, Heavy.__name__), Piece(200, 50, Dear.__name__))
"""u1, u3 and u2 of the paper: about three quarters of the load in one unit, as there; the third costs twice as much to
capture as each of the others. The first and the third get one worker as their backup, the second another."""


LEAST_MS, MOST_MS = 100, 10_000
"""Shortest and longest time between two captures of a unit, in milliseconds; the longest is a job's default."""


def _setting(policy: str) -> Setting:
    checkpoint = {"policy": policy, "min_interval_ms": LEAST_MS, "max_interval_ms": MOST_MS}
    return Setting(THREE, 3, SHARE, checkpoint, BATCH_MS)


def _key(policy: str, number: int) -> str:
    return f"{policy} {number}"


def _measure_recovery(keys: Sequence[str], keep: Keep) -> None:
    """Measures the policies in turn, on one job."""
    with crowd(_setting(MINMAX), "three", say) as made:
        for key in sorted(keys, key=lambda one: int(one.split()[1])):
            made.policy(key.split()[0], "min_interval_ms", LEAST_MS)
            made.watch(WARM_UP_S)
            keep(key, _expected(made))


def _expected(made: Crowd) -> Values:
    sampled: list[tuple[float, float]] = []

    def look() -> None:
        if not sampled or now_ms() - sampled[-1][0] >= SAMPLE_MS:
            sampled.append((now_ms(), made.expected_ms()))

    made.watch(SECONDS, look)
    loads = {f"load_{one.unit}": one.load or 0.0 for one in made.costs().copies if one.role == "primary"}
    captures = {f"capture_{one.unit}_ms": one.capture_ms or 0.0 for one in made.costs().copies if one.role == "primary"}
    values = [ms for _, ms in sampled]
    return {"mean_ms": fmean(values), "p95_ms": percentile(values, 0.95), **loads, **captures}


def _means(data: Data, policy: str, figure: str = "mean_ms") -> Series:
    return Series(policy, tuple((float(number), data[_key(policy, number)][figure]) for number in range(ROUNDS)))


def _plots_recovery(data: Data) -> list[Plot]:
    rounds = tuple(f"round {number + 1}" for number in range(ROUNDS))
    lines = tuple(_means(data, policy) for policy in (ROBIN, MINMAX))
    return [Plot("the paper's three units", "", "mean expected recovery of the worker, ms", lines, bars=rounds)]


def _checks_recovery(data: Data) -> list[Check]:
    minmax, robin = _means(data, MINMAX), _means(data, ROBIN)
    ratio = median(y for _, y in minmax.points) / median(y for _, y in robin.points)
    return [below(minmax, robin, 1.0), at_most("median of the rounds: min-max over round-robin", ratio, 0.75)]


C6 = Figure(
    tag="C6",
    title="min-max and round-robin with the paper's three units",
    paper="Hwang et al. 2007, figures 2 and 3",
    expected="three units with loads .11, .10 and .665, the first two backed up on one peer, the third on another: the "
    "mean expected recovery of the worker is 1.470 s under round-robin and 1.025 s under min-max, .697 of it.",
    setup=f"three units whose loads and capture costs stand to each other about as in the paper (each batch changes "
    f"{Light.entries:,} entries of state, of the third unit {Dear.entries:,}), on a worker with "
    f"{SHARE:g} of a CPU; their standbys on two peers with as much. What the copies report of R is sampled for "
    f"{SECONDS:g} s; {ROUNDS} rounds, in each of which both policies have their turn.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(policy, number) for policy in (MINMAX, ROBIN) for number in range(ROUNDS)),
    measure=_measure_recovery,
    plots=_plots_recovery,
    checks=_checks_recovery,
    seconds=600,
    differs="The two units with little load have 0.11 and 0.16 of all load here, in the paper 0.13 and 0.11: a unit "
    "whose capture costs twice as much changes twice as much in a batch.",
)

# -- C3 ---------------------------------------------------------------------------------------------------------------

FOUR = (Piece(200, 50, Part.__name__),) * 4
FOURS_SHARE, FOURS_BATCH_MS = 0.6, 400
TICK_MS = 8_000
FOURS_WARM_UP_S, FOURS_SECONDS = 8.0, 32.0
FOURS_ROUNDS = 2


def _measure_waits(keys: Sequence[str], keep: Keep) -> None:
    """Measures one job, whose policy changes while it runs."""
    setting = Setting(FOUR, 3, FOURS_SHARE, {"policy": WHOLE, "interval_ms": TICK_MS}, FOURS_BATCH_MS)
    with crowd(setting, "four", say) as made:
        for key in sorted(keys, key=lambda one: int(one.split()[1])):
            policy = key.split()[0]
            made.policy(policy, "interval_ms" if policy == WHOLE else "min_interval_ms", TICK_MS)
            made.watch(FOURS_WARM_UP_S)
            since_ms = now_ms()
            made.watch(FOURS_SECONDS)
            keep(key, _waits(made.delays_ms(since_ms)))


def _waits(delays_ms: Sequence[float]) -> Values:
    """Percentiles of the waits.

    spike_ms: the 99th percentile less the median.
    """
    usual_ms = median(delays_ms)
    found = {f"p{share}_ms": percentile(delays_ms, share / 100) for share in (50, 90, 95, 99)}
    return {**found, "spike_ms": found["p99_ms"] - usual_ms, "results": float(len(delays_ms))}


def _plots_waits(data: Data) -> list[Plot]:
    shares = (50, 90, 95, 99)
    lines = tuple(
        Series(policy, tuple((float(n), median(_waits_of(data, policy, f"p{s}_ms"))) for n, s in enumerate(shares)))
        for policy in (WHOLE, MINMAX)
    )
    names = tuple(f"{share} %" for share in shares)
    return [Plot("age of results, percentiles", "", "from the record to its result, ms", lines, bars=names)]


def _waits_of(data: Data, policy: str, figure: str) -> list[float]:
    return [data[_key(policy, number)][figure] for number in range(FOURS_ROUNDS)]


def _checks_waits(data: Data) -> list[Check]:
    fine, whole = (median(_waits_of(data, policy, "spike_ms")) for policy in (MINMAX, WHOLE))
    return [
        at_most("spike of fine-grained captures over that of whole-worker checkpoints", fine / whole, 1.0, shape=True),
        at_most("the same ratio", fine / whole, 0.25),
    ]


C3 = Figure(
    tag="C3",
    title="how long results wait for captures of units, and of a whole worker",
    paper="Hwang et al. 2007, figure 9",
    expected="latency spikes of fine-grained captures are far below those of whole-worker checkpoints.",
    setup=f"{len(FOUR)} units on a worker with {FOURS_SHARE:g} of a CPU, each with {Part.entries:,} entries of state "
    f"of which a batch changes {Part.part:,}; each is captured every {TICK_MS / 1000:g} s, alone or with the others. "
    f"The spike is the 99th percentile of the age of results less the median, over {FOURS_SECONDS:g} s; "
    f"median of {FOURS_ROUNDS} rounds.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(policy, number) for policy in (MINMAX, WHOLE) for number in range(FOURS_ROUNDS)),
    measure=_measure_waits,
    plots=_plots_waits,
    checks=_checks_waits,
    seconds=600,
    differs="When this was measured, the feeder gave each unit 25 of its 50 keys.",
)

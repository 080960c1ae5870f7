"""Q5 on the model: the return of queries after a correlated failure, one by one or all together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from bench.model.hashtags import LOST, READS, STAIRCASE, TASKS, WORKERS, best
from bench.model.incident import LATENCY_MS, LOAD, Outage, steps
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most

SPACING_S = 60
FIRST_S, LAST_S, BEST_S = 120, 360, 180
"""Times after the failure between which a worker comes, as in the paper's figure 3; in its best case all come at the
last.
"""
UNTIL_S, EVERY_S = 700, 5
ONE_BY_ONE = tuple(SPACING_S * (at + 1) for at in range(LOST))


def sample(seed: int) -> tuple[int, ...]:
    chance = random.Random(seed)
    return tuple(sorted(chance.randint(FIRST_S, LAST_S) for _ in range(LOST)))


RUNS: dict[str, tuple[tuple[int, ...], bool]] = {
    "one by one, progressive": (ONE_BY_ONE, True),
    "one by one, blocking": (ONE_BY_ONE, False),
    "sample 1, progressive": (sample(1), True),
    "sample 2, progressive": (sample(2), True),
    "sample 1, blocking": (sample(1), False),
    "best case": ((BEST_S,) * LOST, True),
}
"""Arrival times of workers in seconds, and true if queries return one by one, by key."""
AVAILABLE = 1.2
STEPS = tuple(range(0, UNTIL_S + 1, EVERY_S))


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        arrivals_s, gradual = RUNS[key]
        keep(key, _values(Outage([1_000 * s for s in arrivals_s], gradual).run(1_000 * UNTIL_S)))


def _values(made: Outage) -> Values:
    at = {look.at_ms // 1_000: look for look in made.looks if look.at_ms % 1_000 == 0}
    stairs = steps(made.looks, "available")
    down = next(at for at, look in enumerate(made.looks) if not look.available)
    first = {n: next(look.at_ms for look in made.looks[down:] if look.available >= n) / 1_000 for n in stairs}
    return {
        "returned_relative": sum(times for _, times in made.back.values()) / len(READS),
        **{f"stair_{number}": float(n) for number, n in enumerate(stairs)},
        **{f"stair_{number}_s": first[n] for number, n in enumerate(stairs)},
        **{f"available_{s}": float(at[s].available) for s in STEPS},
        **{f"relative_{s}": round(at[s].relative, 2) for s in STEPS},
    }


def _line(data: Data, key: str, figure: str) -> Series:
    return Series(key, tuple((float(s), data[key][f"{figure}_{s}"]) for s in STEPS), dashed=key == "best case")


def stairs(data: Data, key: str) -> tuple[int, ...]:
    """The successive numbers of available queries."""
    found = (data[key].get(f"stair_{number}") for number in range(len(READS) + 1))
    return tuple(int(n) for n in found if n is not None)


PAPERS = ("sample 1, progressive", "sample 2, progressive", "sample 1, blocking", "best case")


def _plots(data: Data) -> list[Plot]:
    after = "seconds after the failure"
    spaced = tuple(_line(data, key, "available") for key in list(RUNS)[:2])
    drawn = tuple(_line(data, key, "available") for key in PAPERS)
    return [
        Plot("a worker each minute", after, "available queries", spaced),
        Plot("workers come after 2 to 6 min", after, "available queries", drawn),
        Plot(
            "relative latency of queries that run again, mean", after, "times the latency before",
            tuple(_line(data, k, "relative") for k in PAPERS), log_y=True,
        ),
    ]  # fmt: skip


def _calm_s(data: Data, key: str) -> float:
    """The first second from which on the queries that run again are hardly later than before the failure."""
    return max((s + EVERY_S for s in STEPS if data[key][f"relative_{s}"] >= AVAILABLE), default=0.0)


def _checks(data: Data) -> list[Check]:
    progressive, blocking = (data[key] for key in list(RUNS)[:2])
    found = stairs(data, "one by one, progressive")
    returned = {key: data[key]["returned_relative"] for key in RUNS}
    ideal = [best(count) for count in range(1, LOST + 1)]
    area = sum(n / wanted for n, wanted in zip(found, ideal, strict=False)) / LOST
    means = {key: fmean(data[key][f"relative_{s}"] for s in STEPS) for key in PAPERS}
    least, most = sorted(means[key] for key in PAPERS[:2])
    slowest = max(returned[key] for key in PAPERS[:2])
    return [
        Check("available queries: " + " ".join(map(str, STAIRCASE)), " ".join(map(str, found)), found == STAIRCASE),
        Check(
            "blocking: none, then all at once", " ".join(map(str, stairs(data, "one by one, blocking"))),
            stairs(data, "one by one, blocking") == (len(READS),),
        ),
        at_most("latency at the return, best case over progressive", returned["best case"] / slowest, 1.0, shape=True),
        at_most("the same, progressive over blocking", slowest / returned["sample 1, blocking"], 1.0, shape=True),
        at_least("the same, blocking over best case (the paper: about 1.5)",
                 returned["sample 1, blocking"] / returned["best case"], 1.3),
        at_most("latency over time, back below 1.2 times for good: best case over blocking",
                _calm_s(data, "best case") / _calm_s(data, "sample 1, blocking"), 0.8, shape=True),
        at_most("latency over time, mean: best case over progressive", means["best case"] / least, 1.0, shape=True),
        at_most("latency over time, mean: progressive over blocking", most / means["sample 1, blocking"], 1.0,
                shape=True),
        at_most("first query, progressive over blocking", progressive["stair_0_s"] / blocking["stair_0_s"], 0.2),
        at_least("available queries over the most that fit, mean of the workers", area, 0.9),
    ]  # fmt: skip


Q5 = Figure(
    tag="Q5",
    title="available queries after eight of ten workers are lost",
    paper="Su and Zhou 2017, figure 5",
    expected="available queries: a staircase under progressive recovery, one late jump under blocking; relative "
    "latency: best case below progressive below blocking, at the return and over time.",
    setup=f"15 queries of {TASKS} tasks an operator; {WORKERS} workers, of which {LOST} are lost. Workers come one "
    f"each {SPACING_S} s, or as in the paper between {FIRST_S} and {LAST_S} s, in the best case all after {BEST_S} s. "
    f"Each operator takes {LOAD:g} of its CPU; the latency before is {LATENCY_MS / 1000:g} s. A query is available "
    "when the mean of 10 s is below 1.2 times that.",
    ground=Ground.MODEL,
    keys=tuple(RUNS),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=30,
    differs="The model counts no time to load code, and no contention of restores. The slots of a worker are the "
    "limit, as in the paper.",
)

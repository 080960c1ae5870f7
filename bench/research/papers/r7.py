"""Q5 on real workers: availability over time while queries return one by one or all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.model.hashtags import LOST, READS, STAIRCASE, WORKERS, best
from bench.research.incident import HEALTHY, Outcome, area, first_back_s, run, steps
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most

EVERY_S, STEP_S = 45, 3
PROGRESSIVE, BLOCKING = "progressive", "blocking"
TIMES = tuple(range(0, EVERY_S * (LOST + 1), STEP_S))


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a run.

    tasks: number of tasks of each operator.
    share: share of a CPU for each worker once the job runs.
    """

    tasks: int
    share: float
    posts_per_s: float
    interval_ms: int


SIZES = {PROGRESSIVE: Size(5, 0.4, 2.0, 4_000), BLOCKING: Size(1, 0.2, 20.0, 1_000)}
"""81 units with aligned checkpoints did not become steady on two cores."""


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        of = SIZES[key]
        made = run(
            tasks=of.tasks, share=of.share, rate_per_s=of.posts_per_s, every_s=EVERY_S, blocking=key == BLOCKING,
            interval_ms=of.interval_ms,
        )  # fmt: skip
        keep(key, values(made))


def _said(key: str) -> str:
    of, units = SIZES[key], 1 + SIZES[key].tasks * (1 + len(READS))
    load = f"{of.posts_per_s:g} posts a second, a batch each {of.interval_ms / 1000:g} s"
    return f"{units} units, {load}, {of.share:g} of a CPU for each worker"


def values(made: Outcome) -> Values:
    """Values of one point, from one run."""
    stairs = {f"stair_{number}": float(queries) for number, queries in enumerate(steps(made.seen), 1)}
    known: Values = {}
    for second in TIMES:
        seen = [one for one in made.seen if one.at_s <= second]
        if seen:
            known[f"available_{second}"] = float(len(seen[-1].available))
            if (healthy := seen[-1].healthy) is not None:
                known[f"healthy_{second}"] = healthy
    back_s = first_back_s(made.seen)
    return {
        "first_back_s": made.until_s if back_s is None else back_s,
        "area": area(made.seen, made.until_s),
        "healthy_most": made.healthy,
        "wrong": float(made.wrong),
        **stairs,
        **known,
    }


def stairs_of(data: Data, key: str) -> tuple[int, ...]:
    """Numbers of available queries just before each next worker arrived, and at the end."""
    found = (data[key].get(f"stair_{number}") for number in range(1, LOST + 1))
    return tuple(int(queries) for queries in found if queries is not None)


def _line(data: Data, key: str, figure: str) -> Series:
    there = data[key]
    return Series(key, tuple((float(s), there[name]) for s in TIMES if (name := f"{figure}_{s}") in there))


def _plots(data: Data) -> list[Plot]:
    after = "seconds after the failure"
    most = tuple((float(s), float(best(s // EVERY_S) if s >= EVERY_S else 0)) for s in TIMES)
    lines = (_line(data, PROGRESSIVE, "available"), _line(data, BLOCKING, "available"))
    healthy = (_line(data, PROGRESSIVE, "healthy"), _line(data, BLOCKING, "healthy"))
    return [
        Plot(
            f"a worker each {EVERY_S} s", after, "available queries", (*lines, Series("the most that fit", most, True))
        ),
        Plot("a query that has not failed", after, "times the latency before", healthy),
    ]


def _checks(data: Data) -> list[Check]:
    progressive, blocking = data[PROGRESSIVE], data[BLOCKING]
    found, all_at_once = stairs_of(data, PROGRESSIVE), stairs_of(data, BLOCKING)
    wrong = progressive["wrong"] + blocking["wrong"]
    return [
        Check("available queries: " + " ".join(map(str, STAIRCASE)), " ".join(map(str, found)), found == STAIRCASE),
        Check(
            "blocking: none, then all at once", " ".join(map(str, all_at_once)),
            all_at_once == (0,) * (LOST - 1) + (len(READS),),
        ),
        at_most("first query, progressive over blocking", progressive["first_back_s"] / blocking["first_back_s"], 0.2),
        at_least("area under the curve over that of the most that fit", progressive["area"], 0.9),
        at_most("relative latency of a query that has not failed, most", progressive["healthy_most"], 1.2),
        at_most("rows lost, duplicated or wrong", wrong, 0),
    ]  # fmt: skip


R7 = Figure(
    tag="R7",
    title="available queries after eight of ten workers are lost, on workers",
    paper="Su and Zhou 2017, figure 5",
    expected="a staircase under progressive recovery, one late jump under blocking; queries that have not failed "
    "continue as before.",
    setup=f"the job compose/jobs/hashtags.yaml and one more query, `{HEALTHY}`, beside the parsers. {WORKERS} workers, "
    f"hosts of their own. {LOST} are killed at once, and one comes each {EVERY_S} s, none before all that fits is "
    f"available. Progressive: {_said(PROGRESSIVE)}. Blocking: buffering source, policy aligned; {_said(BLOCKING)}. A "
    "query is available when the mean of 10 s is below 1.2 times the latency before.",
    ground=Ground.CLUSTER,
    keys=(PROGRESSIVE, BLOCKING),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=1_800,
    differs=f"Workers come each {EVERY_S} s and not after minutes. The most that fit counts no time for the start of a "
    "worker, for a restore, nor for the 10 s over which latencies are averaged. Under blocking recovery nothing comes "
    f"before the last worker, at {EVERY_S * LOST} s, so a smaller job flatters it: 81 units with aligned checkpoints "
    "did not become steady on two cores.",
)

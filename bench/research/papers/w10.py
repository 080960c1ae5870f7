"""W10: expected recovery by the number of workers, for two policies and two ways to assign backups. On the model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import fmean

from bench.model.cluster import Cluster, Settings
from bench.model.streams import drawn, names, steady
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_most, below, ratio_of_means, within
from holdfast.services.worker.checkpoint.policies.idle_minmax import Credit

WORKERS = (2, 3, 5, 7, 9, 12, 16, 20)
SEEDS = (1, 2)
BUSY = 0.8
STATIC_S, DYNAMIC_S, LAST = 30.0, (60.0, 12.0), 0.4
"""Parts of the model's time: with static backups; with dynamic ones, and for each worker. The last share of it
counts.
"""
PERIOD_S = 5.0
ROBIN, MINMAX = "idle-roundrobin", "idle-minmax"
READINGS = {"idle-minmax-both": Credit.BOTH, "idle-minmax-neither": Credit.NEITHER}
"""Other ways to read how the paper compares a capture with a paste. They are drawn, and no rule judges them."""
STATIC, DYNAMIC = "static", "dynamic"
Line = tuple[str, str]
LINES: tuple[Line, ...] = tuple(
    (policy, assignment) for assignment in (STATIC, DYNAMIC) for policy in (ROBIN, MINMAX, *READINGS)
)
JUDGED = tuple(line for line in LINES if line[0] not in READINGS)


def modelled(policy: str, assignment: str, workers: int, seed: int) -> Values:
    """R of the worker that takes longest, and the mean over the workers, over the last part of the time."""
    chance, hosts = random.Random(seed), names(workers)
    dynamic = assignment == DYNAMIC
    seconds = DYNAMIC_S[0] + DYNAMIC_S[1] * workers if dynamic else STATIC_S
    settings = Settings(
        MINMAX if policy in READINGS else policy,
        credit=READINGS.get(policy, Credit.PASTE),
        rebalance_ms=PERIOD_S * 1000 if dynamic else 0.0,
    )
    cluster = Cluster(settings, drawn(hosts, steady(BUSY), chance, BUSY), hosts).run(seconds * 1000)
    last = [sample.workers for sample in cluster.samples if sample.at_ms > (1 - LAST) * seconds * 1000]
    return {
        "worst_ms": fmean(max(one.values()) for one in last),
        "mean_ms": fmean(fmean(one.values()) for one in last),
        "moves": float(cluster.moves),
    }


def _key(policy: str, assignment: str, workers: int, seed: int) -> str:
    return f"{policy} {assignment} {workers} {seed}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        policy, assignment, workers, seed = key.split()
        keep(key, modelled(policy, assignment, int(workers), int(seed)))


def _line(data: Data, policy: str, assignment: str, figure: str) -> Series:
    points = tuple(
        (float(count), fmean(data[_key(policy, assignment, count, seed)][figure] for seed in SEEDS))
        for count in WORKERS
    )
    return Series(f"{policy}, {assignment}", points, dashed=policy in READINGS)


def _plots(data: Data) -> list[Plot]:
    return [
        Plot(title, "workers", "expected recovery time, ms", tuple(_line(data, *line, figure) for line in LINES))
        for figure, title in (("worst_ms", "the worker that takes longest"), ("mean_ms", "mean of the workers"))
    ]


def _checks(data: Data) -> list[Check]:
    """The paper does not say whether its time is that of the worst worker or the mean: both are judged."""
    worst, mean = ({line: _line(data, *line, figure) for line in JUDGED} for figure in ("worst_ms", "mean_ms"))
    robin, minmax, robin_static, minmax_static = (ROBIN, DYNAMIC), (MINMAX, DYNAMIC), (ROBIN, STATIC), (MINMAX, STATIC)
    at_9, at_20 = (dict(mean[minmax].points)[count] for count in (9.0, 20.0))
    return [
        below(worst[robin], worst[robin_static]),
        below(worst[minmax], worst[minmax_static]),
        below(mean[minmax_static], mean[robin_static]),
        below(mean[minmax], mean[robin]),
        within("min-max with dynamic backups, mean: at 20 workers over at 9", at_20 / at_9, 0.7, 1.4, shape=True),
        at_most(f"worst, round-robin: dynamic over static {_PAST}", _over(worst, robin, robin_static), 0.6),
        at_most(f"worst, min-max: dynamic over static {_PAST}", _over(worst, minmax, minmax_static), 0.6),
        at_most(f"mean, static: min-max over round-robin {_PAST}", _over(mean, minmax_static, robin_static), 0.75),
        at_most(f"mean, dynamic: min-max over round-robin {_PAST}", _over(mean, minmax, robin), 0.5),
        at_most(f"worst, static: min-max over round-robin {_PAST}", _over(worst, minmax_static, robin_static), 0.75),
        at_most(f"worst, dynamic: min-max over round-robin {_PAST}", _over(worst, minmax, robin), 0.5),
        at_most(f"mean, round-robin: dynamic over static {_PAST}", _over(mean, robin, robin_static), 0.6),
    ]


_PAST = "from 9 workers on"


def _over(lines: Mapping[Line, Series], one: Line, other: Line) -> float:
    return ratio_of_means(*([y for x, y in lines[line].points if x >= 9] for line in (one, other)))


W10 = Figure(
    tag="W10",
    title="scheduling and backup assignment by the number of workers",
    paper="Hwang et al. 2007, figure 10",
    expected="dynamic assignment about 50 % below random static; min-max 25 % below round-robin with static backups, "
    "50 % with dynamic ones; flat past 9 workers, since each of a worker's 8 units then has a backup of its own.",
    setup=f"2 to 20 workers of 8 units, four of each stream of W8, each worker {BUSY:.0%} busy; backups drawn at "
    f"random; dynamic: reassigned every {PERIOD_S:g} s by C7 with f = 1/2 until nothing moves. Mean of {len(SEEDS)} "
    f"seeds, over the last {LAST:.0%} of the model's time.",
    ground=Ground.MODEL,
    keys=tuple(_key(*line, workers, seed) for line in LINES for workers in WORKERS for seed in SEEDS),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=240,
    differs="The dashed lines are min-max under the two other ways to read how the paper compares a capture with a "
    "paste: with the benefit of both, or of neither, where MECHANISMS C6 counts that of the paste alone. With the "
    "benefit of both, a worker flooded with messages pastes and hardly captures its own units, and the worst worker is "
    "worse off than under round-robin. No rule judges these lines. Why the mean of round-robin falls less by "
    "dynamic backups than in the paper is not known.",
)

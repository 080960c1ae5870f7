"""P7 to P10 on the model: recovery of one worker and of all by technique, costs of checkpoints, and a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from bench.model.recovering import TASKS, Setting, Task, Technique, partly, recovered_s, replicas
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series
from bench.research.papers.rules import at_least, at_most, below, flat, rises

SEEDS = range(10)
RATES, WINDOWS_S, EVERY_S = (1_000, 2_000), (10, 20, 30), (1, 5, 15, 30)
SETTINGS = {f"{rate} {window_s}": Setting(rate, window_s) for rate in RATES for window_s in WINDOWS_S}
INTERVALS = {f"{rate} {every_s}": Setting(rate, WINDOWS_S[-1], every_s) for rate in RATES for every_s in EVERY_S}
LOST: Mapping[str, Sequence[Sequence[Task]]] = {"one": [[task] for task in TASKS], "all": [list(TASKS)]}
"""Sets of workers that fail together: each single one, and all of them."""
ACTIVE, CHECKPOINT, SOURCE = Technique


def _measure(settings: Mapping[str, Setting], techniques: Sequence[Technique]) -> Callable[[Sequence[str], Keep], None]:
    def measure(keys: Sequence[str], keep: Keep) -> None:
        for key in keys:
            values = {
                f"{technique.value}, {lost}": fmean(
                    recovered_s(technique, settings[key], failed, seed) for failed in failures for seed in SEEDS
                )
                for technique in techniques
                for lost, failures in LOST.items()
            }
            keep(key, values | {"checkpoint share": settings[key].checkpoint_share})

    return measure


def _line(data: Data, rate: int, technique: Technique, lost: str, over: Sequence[int] = WINDOWS_S) -> Series:
    name = f"{technique.value}, {lost}"
    return Series(name, tuple((float(x), data[f"{rate} {x}"][name]) for x in over), dashed=lost == "all")


def _gaps_s(data: Data, rate: int, lost: str) -> list[float]:
    """Seconds by which checkpoints recover later than active replication, by window."""
    active, checkpoint = (_line(data, rate, one, lost) for one in (ACTIVE, CHECKPOINT))
    return [slow - fast for (_, fast), (_, slow) in zip(active.points, checkpoint.points, strict=True)]


def _plots(data: Data, *losses: str) -> list[Plot]:
    return [
        Plot(
            f"{rate:,} records/s of each source", "window, s", "until recovered, s",
            tuple(_line(data, rate, technique, lost) for lost in losses for technique in Technique), log_y=True,
        )
        for rate in RATES
    ]  # fmt: skip


def _order(data: Data, lost: str) -> list[Check]:
    checks = []
    for rate in RATES:
        active, checkpoint, source = (_line(data, rate, technique, lost) for technique in Technique)
        checks += [below(active, checkpoint, 1.0), below(checkpoint, source, 1.0)]
    return checks


def _checks_one(data: Data) -> list[Check]:
    first = RATES[0]
    active, checkpoint = (_line(data, first, one, "one") for one in (ACTIVE, CHECKPOINT))
    ratio = min(slow / fast for (_, fast), (_, slow) in zip(active.points, checkpoint.points, strict=True))
    return [
        *_order(data, "one"),
        flat(active, 0.05),
        rises(_line(data, first, SOURCE, "one"), 2.0),
        at_least("checkpoint over active replication, the least", ratio, 2.0),
    ]


def _checks_all(data: Data) -> list[Check]:
    wider = [fmean(_gaps_s(data, rate, "all")) / fmean(_gaps_s(data, rate, "one")) for rate in RATES]
    what = "seconds between checkpoint and active replication, all workers over one"
    return [*_order(data, "all"), at_least(what, min(wider), 1.1, shape=True)]


P7 = Figure(
    tag="P7",
    title="recovery of one worker, by technique",
    paper="Su and Zhou 2016, figure 7",
    expected="active replication recovers far sooner than checkpoints, these sooner than a replay of the sources; the "
    "rate and the window matter to the latter two.",
    setup=f"Sixteen sources merge 16-8-4-2-1, {' and '.join(map(str, RATES))} records/s each; windows of "
    f"{', '.join(map(str, WINDOWS_S))} s; checkpoints and word to the replica every {Setting().every_s:g} s. Each of "
    f"the fifteen workers fails by itself, at {len(SEEDS)} times; mean.",
    ground=Ground.MODEL,
    keys=tuple(SETTINGS),
    measure=_measure(SETTINGS, tuple(Technique)),
    plots=lambda data: _plots(data, "one"),
    checks=_checks_one,
    seconds=20,
    differs="The costs of a record are round numbers, not those of the paper's machines: only ratios are compared.",
)
P8 = Figure(
    tag="P8",
    title="recovery of all fifteen workers, by technique",
    paper="Su and Zhou 2016, figure 8",
    expected="the order is that of one worker, and the gap is wider: a task waits for what those above it repeat.",
    setup="As above; all fifteen workers fail at once (dashed), beside each by itself.",
    ground=Ground.MODEL,
    keys=tuple(SETTINGS),
    measure=_measure(SETTINGS, tuple(Technique)),
    plots=lambda data: _plots(data, "one", "all"),
    checks=_checks_all,
    seconds=20,
)


def _share(data: Data, rate: int) -> Series:
    return Series(f"{rate:,} records/s", tuple((float(x), data[f"{rate} {x}"]["checkpoint share"]) for x in EVERY_S))


def _plots_interval(data: Data) -> list[Plot]:
    waits = tuple(_line(data, rate, CHECKPOINT, lost, EVERY_S) for rate in RATES[:1] for lost in LOST)
    every = "time between two checkpoints, s"
    return [
        Plot("what checkpoints take", every, "share of a worker's processor", tuple(_share(data, r) for r in RATES)),
        Plot(f"recovery at {RATES[0]:,} records/s", every, "until recovered, s", waits),
    ]


def _checks_interval(data: Data) -> list[Check]:
    shares = [_share(data, rate).points for rate in RATES]
    falls = min(points[0][1] / points[-1][1] for points in shares)
    return [
        at_least("share at the shortest interval over the longest", falls, 10.0, shape=True),
        at_least("share at the higher rate over the lower one", shares[1][0][1] / shares[0][0][1], 1.5, shape=True),
        *(rises(_line(data, RATES[0], CHECKPOINT, lost, EVERY_S), 1.2) for lost in LOST),
    ]


P9 = Figure(
    tag="P9",
    title="what checkpoints cost, and what they save",
    paper="Su and Zhou 2016, figure 9",
    expected="the share of the processor falls as checkpoints are further apart, and rises with the rate; recovery "
    "takes longer then.",
    setup=f"As P7, with windows of {WINDOWS_S[-1]} s, and checkpoints of all the state every "
    f"{', '.join(map(str, EVERY_S))} s.",
    ground=Ground.MODEL,
    keys=tuple(INTERVALS),
    measure=_measure(INTERVALS, (CHECKPOINT,)),
    plots=_plots_interval,
    checks=_checks_interval,
    seconds=10,
    differs="Ours write what has changed since the last one only: W7 and the checkpoint benchmark measure those.",
)

# -- P10 --------------------------------------------------------------------------------------------------------------

BUDGETS = {"0": 0, "0.25": 3, "0.5": 7, "0.75": 11, "1": 15}
"""By the share of the fifteen tasks, how many may have a replica."""
PARTLY = Setting(RATES[0], WINDOWS_S[-1])


def _measure_budgets(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        planned, promised = replicas(BUDGETS[key])
        found = [partly(PARTLY, planned, seed) for seed in SEEDS]
        keep(
            key,
            {
                "recovered_s": fmean(one.recovered_s for one in found),
                "first_s": fmean(one.first_s for one in found),
                "promised": promised,
                "share": fmean(one.share for one in found),
            },
        )


def _over_budgets(data: Data, value: str, shown: str) -> Series:
    return Series(shown, tuple((float(key), data[key][value]) for key in BUDGETS))


def _plots_budgets(data: Data) -> list[Plot]:
    x = "share of the tasks that may have a replica"
    times = (
        _over_budgets(data, "recovered_s", "until all have recovered"),
        _over_budgets(data, "first_s", "until the first rows"),
    )
    shares = (_over_budgets(data, "promised", "promised (OF)"), _over_budgets(data, "share", "in the first rows"))
    return [
        Plot("all fifteen workers fail", x, "s", times, log_y=True),
        Plot("what the first rows hold", x, "share of the sources", shares),
    ]


def _checks_budgets(data: Data) -> list[Check]:
    none, half = data["0"], data["0.5"]
    falls = [data[one]["recovered_s"] / data[other]["recovered_s"] for one, other in (("0", "0.5"), ("0.5", "1"))]
    apart = [abs(one["promised"] - one["share"]) for one in data.values() if one["promised"] > 0]
    return [
        at_least("recovery with a smaller budget over the next one, of 0, 0.5 and 1", min(falls), 1.0, shape=True),
        at_most("first rows over full recovery at half of the tasks", half["first_s"] / half["recovered_s"], 0.2),
        at_least("first rows without any replica over those with half", none["first_s"] / half["first_s"], 5.0),
        at_most("share in the first rows apart from what a plan promised, the most", max(apart), 0.0, shape=True),
    ]


P10 = Figure(
    tag="P10",
    title="first rows and full recovery, by the budget of replicas",
    paper="Su and Zhou 2016, figure 10",
    expected="PPA-1.0 recovers before PPA-0.5, and that before PPA-0; tentative output comes up to ten times sooner "
    "than full recovery.",
    setup=f"As P8 at {RATES[0]} records/s with windows of {WINDOWS_S[-1]} s: all fifteen workers fail, the sources "
    "live. The structure-aware planner chooses the tasks with a replica. First rows: of a path of tasks from a source "
    "to the last one that are there. Three replicas, less than a quarter, make no such path.",
    ground=Ground.MODEL,
    keys=tuple(BUDGETS),
    measure=_measure_budgets,
    plots=_plots_budgets,
    checks=_checks_budgets,
    seconds=10,
)

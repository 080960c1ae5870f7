"""Z12 and Z13 on a real cluster: false suspicions and times of detection by the load of the machine.

The study is that of `./scripts/bench detectors`: every detector is shown the same recording.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.cluster import folder_of_its_own
from bench.detectors.evaluation import Judgement
from bench.detectors.study import BENCHMARK, FIXED, HEARTBEAT, LEVELS, Outcome, study
from bench.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.papers.rules import at_most, below
from bench.saying import say

SECONDS = 45.0
DETECTORS = {HEARTBEAT: 1, FIXED: 1, BENCHMARK: 0}
"""By misses: on one miss, as hybrid."""
NEVER_MS = 10_000.0


def _measure(keys: Sequence[str], keep: Keep) -> None:
    with folder_of_its_own(say) as cluster:
        for outcome in study(cluster, "figure-detectors", keys, SECONDS):
            keep(outcome.level, _values(outcome))


def _values(outcome: Outcome) -> Values:
    found: Values = {"load": outcome.load, "stood_still": outcome.stood_still, "switches": outcome.switches}
    for detector, misses in DETECTORS.items():
        judged = next(one.found for one in outcome.judged if (one.detector, one.misses) == (detector, misses))
        found |= _of(detector, judged, outcome.seconds, 1 if detector == BENCHMARK else outcome.workers)
    return found


def _of(detector: str, judged: Judgement, seconds: float, observed: int) -> Values:
    """The benchmark suspects all workers of a machine at once. A failure that is never detected counts as 10 s."""
    return {
        f"{detector}_false_per_h": judged.false / observed / seconds * 3600,
        f"{detector}_detection_ms": NEVER_MS if judged.detection_p50_ms is None else judged.detection_p50_ms,
        f"{detector}_suspicions": float(judged.false + judged.right),
    }


def _line(data: Data, detector: str, figure: str) -> Series:
    points = sorted((data[level]["load"] * 100, data[level][f"{detector}_{figure}"]) for level in LEVELS)
    return Series(detector, tuple(points))


def _plots(data: Data) -> list[Plot]:
    x = "load of the machine, %"
    return [
        Plot("false suspicions", x, "per hour and worker", tuple(_line(data, one, "false_per_h") for one in DETECTORS)),
        Plot("detection of a failure", x, "median, ms", tuple(_line(data, one, "detection_ms") for one in DETECTORS)),
    ]


def _checks(data: Data) -> list[Check]:
    false = {one: _line(data, one, "false_per_h") for one in DETECTORS}
    low = min(LEVELS, key=lambda level: data[level]["load"])
    return [
        below(false[HEARTBEAT], false[BENCHMARK], 0.75),
        at_most(
            "heartbeat at the lowest load: false suspicions per hour and worker",
            data[low]["heartbeat_false_per_h"],
            60,
            shape=True,
        ),
        at_most(
            "heartbeat at the lowest load: detection, ms (the paper: 144)", data[low]["heartbeat_detection_ms"], 300
        ),
    ]


Z12 = Figure(
    tag="Z12",
    title="detection and false alarms by load, heartbeats against a benchmark",
    paper="Zhang et al. 2010, figures 12 and 13",
    expected="heartbeats detect nearly every load above 90 % and few below, with few false alarms; the benchmark "
    "declares every load, and more than 15 % of what it declares is false. Detection takes 144 and 132 ms.",
    setup=f"a cluster with a hybrid job under four loads of the machine, {SECONDS:g} s each; `heartbeat` is ours, "
    "`fixed` has the paper's fixed grace, `benchmark` runs 20 elements when the load is high. A "
    "suspicion is false if the worker is heard again within five intervals.",
    ground=Ground.CLUSTER,
    keys=tuple(LEVELS),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=360,
    differs="The paper counts load spikes that were declared; here a suspicion counts as right only if the worker had "
    "really stopped answering.",
)

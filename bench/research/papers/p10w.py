"""P7 to P10 on real workers: recovery by technique and by checkpoint interval, and what a budget of replicas gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_least, at_most
from bench.research.partial import AWAY_S, INTERVAL_MS, MERGING, RATE_PER_S, SOURCES, Case, run

HOUR_MS = 3_600_000
NONE, HALF, FULL = "PPA-0", "PPA-0.5", "PPA-1.0"
OFTEN_MS, SELDOM_MS = 1_000, 15_000
CASES: Mapping[str, Case] = {
    NONE: Case(0.0, away=True),
    HALF: Case(0.5, away=True),
    FULL: Case(1.0, away=True),
    "active replication, one": Case(1.0, one=True),
    "active replication, all": Case(1.0),
    "checkpoint, one": Case(one=True),
    "checkpoint, all": Case(),
    "replay from the start, one": Case(one=True, checkpoint_ms=HOUR_MS),
    "replay from the start, all": Case(checkpoint_ms=HOUR_MS),
    f"checkpoint each {OFTEN_MS / 1000:g} s": Case(checkpoint_ms=OFTEN_MS),
    f"checkpoint each {SELDOM_MS / 1000:g} s": Case(checkpoint_ms=SELDOM_MS),
}
BUDGETS = (NONE, HALF, FULL)
TECHNIQUES = ("active replication", "checkpoint", "replay from the start")
OFTEN, SELDOM = tuple(CASES)[-2:]


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        made = run(CASES[key])
        values: Values = {
            "detected_s": made.detected_s,
            "recovered_s": made.recovered_s,
            "promised": made.promised,
            "stated": made.stated,
            "checkpoint_share": made.checkpoint_share,
            "inexact": float(made.inexact),
        }
        known = {"first_s": made.first_s, "accuracy": made.accuracy}
        keep(key, values | {name: value for name, value in known.items() if value is not None})


def _since_detected_s(point: Values) -> float:
    """Time from detection until recovered. A copy that is as far may have recovered before the event that says so."""
    return max(point["recovered_s"] - point["detected_s"], 0.001)


def _bars(data: Data, keys: Sequence[str], value: str, shown: str) -> Series:
    return Series(shown, tuple((float(at), data[key].get(value, 0.0)) for at, key in enumerate(keys)))


def _plots(data: Data) -> list[Plot]:
    times = (_bars(data, BUDGETS, "recovered_s", "recovered"), _bars(data, BUDGETS, "first_s", "first tentative row"))
    parts = (
        _bars(data, BUDGETS, "promised", "promised by the plan"),
        _bars(data, BUDGETS, "stated", "said of the outage"),
        _bars(data, BUDGETS, "accuracy", "accuracy of the tentative rows"),
    )
    lost = tuple(
        Series(one, tuple((float(at), _since_detected_s(data[f"{name}, {one}"])) for at, name in enumerate(TECHNIQUES)))
        for one in ("one", "all")
    )
    costs = (_bars(data, (OFTEN, SELDOM), "checkpoint_share", "share of a processor"),)
    return [
        Plot("P10: all that merge is lost", "", "s", times, bars=BUDGETS),
        Plot("P10: fidelity and accuracy", "", "share", parts, bars=BUDGETS),
        Plot("P7 and P8: from detection until recovered", "", "s", lost, bars=TECHNIQUES),
        Plot("P9: what checkpoints take", "", "share of a processor", costs, bars=(OFTEN, SELDOM)),
    ]


def _checks(data: Data) -> list[Check]:
    none, half, full = (data[key] for key in BUDGETS)
    first_s, accuracy = half.get("first_s", float("inf")), half.get("accuracy", 0.0)
    order = [
        at_least(
            f"{slow} over {fast}, {lost}",
            _since_detected_s(data[f"{slow}, {lost}"]) / _since_detected_s(data[f"{fast}, {lost}"]),
            1.0,
            shape=True,
        )
        for lost in ("one", "all")
        for fast, slow in pairwise(TECHNIQUES)
    ]
    return [
        at_most("recovery, PPA-1.0 over PPA-0.5", full["recovered_s"] / half["recovered_s"], 0.5, shape=True),
        at_most("recovery, PPA-0.5 over PPA-0", half["recovered_s"] / none["recovered_s"], 1.1, shape=True),
        at_most("first tentative row over full recovery, PPA-0.5", first_s / half["recovered_s"], 0.1),
        at_most("seconds from the loss to the first tentative row, PPA-0.5", first_s, 1.0),
        at_most("accuracy apart from the fidelity that was said", abs(accuracy - half["stated"]), 0.1, shape=True),
        *order,
        at_most(
            "checkpoints, share of a processor at the longer interval over the shorter",
            data[SELDOM]["checkpoint_share"] / data[OFTEN]["checkpoint_share"],
            0.5,
            shape=True,
        ),
        at_most("rows lost, doubled, wrong or left tentative", sum(data[key]["inexact"] for key in CASES), 0),
    ]


P10W = Figure(
    tag="P10W",
    title="recovery by technique, and first rows by the budget of replicas, on workers",
    paper="Su and Zhou 2016, figures 7 to 10",
    expected="active replication recovers before checkpoints, these before a replay; PPA-1.0 before PPA-0.5, and that "
    "before PPA-0; tentative output comes up to ten times sooner than full recovery.",
    setup=f"{SOURCES} sources merge 8-4-2-1, {RATE_PER_S} records/s in all, a batch each {INTERVAL_MS} ms, rows of "
    f"windows of 200 ms. A host leads the {MERGING} units that merge (or one of them), and is killed without a word; "
    f"sources and replicas are on two others. P10: nobody has room for what is lost until another host comes after "
    f"{AWAY_S:g} s. P7 to P9: the others have room at once. A replay from the start: no checkpoint was made. One run "
    "each; techniques are compared by the time from detection, which is the same for all of them, until recovered. "
    "Accuracy: of the final rows of windows with tentative ones the share that these held.",
    ground=Ground.CLUSTER,
    keys=tuple(CASES),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=70 * len(CASES),
    differs="Recovery here takes a second where there is room, so the time until a host comes is what tentative rows "
    "are for. The planner counts sources, which live, so the outage says more than the plan has promised. A replay "
    "from the start repeats some seconds of 60 records/s, which takes about as long as to restore a checkpoint, of one "
    "unit or of all: to be told apart, it would have to repeat minutes, or each case be run several times.",
)

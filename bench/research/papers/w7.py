"""W7: what capturing and applying a checkpoint costs, by the interval between checkpoints, against the cost model.

The streams are the paper's: packets (type 1) and even arrivals (type 2), counted by source address in windows of 10 s,
one a second; and a join of two streams, for C11.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
import polars as pl

from bench.model.streams import DEVIATION, TYPE_1_PER_S, TYPE_2_PER_S
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.operated import Operated, Run, operated
from bench.research.papers.rules import at_least, at_most, below, rises
from holdfast.services.kernel.operators.operator import TIME

INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0)
PACKETS, EVEN, JOINED = "type 1", "type 2", "join"
KINDS = (PACKETS, EVEN, JOINED)
STEP_S = 0.1
SIZE_S, WITHIN_S = 10, 10
WARM_UP_S, LEAST_S, CHECKPOINTS = 12.0, 20.0, 4
ADDRESSES, SKEW = 1_600, 1.3
"""Number of hosts as in the paper's trace, most packets from a few."""
JOIN_PER_S = 500
SEED = 1
SECOND_US = 1_000_000
COUNTS = {"aggregate": {"n": "count()"}, "key": ["k"], "window": {"size_s": SIZE_S, "slide_s": 1}, "emit": "final"}
JOIN = {"join": {"left": "l", "right": "r", "on": ["k"], "within_s": WITHIN_S, "kind": "inner"}}


@dataclass(slots=True)
class Stream:
    """Batches of 100 ms of one kind."""

    kind: str
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    rows: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    rate: float = 0.0

    def keys(self, number: int) -> np.ndarray:
        """Keys of one batch; the rate of packets changes once a second."""
        if self.kind == PACKETS:
            if number % round(1 / STEP_S) == 0:
                spread = np.sqrt(np.log(1 + DEVIATION**2))
                self.rate = TYPE_1_PER_S * float(np.exp(self.chance.gauss(-(spread**2) / 2, spread)))
            weights = 1.0 / np.arange(1, ADDRESSES + 1) ** SKEW
            return self.rows.choice(ADDRESSES, round(self.rate * STEP_S), p=weights / weights.sum())
        per_s, keys = (TYPE_2_PER_S, 100) if self.kind == EVEN else (JOIN_PER_S, 100_000)
        return self.rows.integers(0, keys, round(per_s * STEP_S))


@dataclass(slots=True)
class Windows:
    """Captures of the paper's aggregate: C_n and C_u, from the groups and windows that were touched."""

    touched: set[tuple[int, int]] = field(default_factory=set)
    known: set[tuple[int, int]] = field(default_factory=set)

    def see(self, keys: np.ndarray, second: int) -> None:
        groups = set(keys.tolist())
        self.touched |= {(group, first) for group in groups for first in range(second - SIZE_S + 1, second + 1)}

    def captured(self, second: int) -> tuple[int, int]:
        open_ones = {window for window in self.touched if window[1] + SIZE_S > second}
        created, updated = len(open_ones - self.known), len(open_ones & self.known)
        self.known = {window for window in self.known | open_ones if window[1] + SIZE_S > second}
        self.touched = set()
        return created, updated


def measured(kind: str, interval_s: float, least_s: float = LEAST_S) -> Values:
    """Means over the checkpoints behind the warm-up."""
    params, inputs = (JOIN, [{"k": "int"}, {"k": "int", "y": "int"}]) if kind == JOINED else (COUNTS, [{"k": "int"}])
    with operated("join" if kind == JOINED else "aggregate", params, inputs) as operator:
        found = list(_checkpoints(kind, operator, interval_s, max(least_s, CHECKPOINTS * interval_s)))
    runs = [run for run, _, _ in found]
    return {
        "capture_ms": fmean(run.capture_ms for run in runs),
        "paste_ms": fmean(run.paste_ms for run in runs),
        "settle_ms": fmean(run.settle_ms for run in runs),
        "replay_ms": fmean(replay_ms for _, replay_ms, _ in found),
        "created": fmean(run.created for run in runs),
        "updated": fmean(run.updated for run in runs),
        "deleted": fmean(run.deleted for run in runs),
        "bytes": fmean(run.bytes for run in runs),
        "papers_created": fmean(windows[0] for _, _, windows in found),
        "papers_updated": fmean(windows[1] for _, _, windows in found),
    }


def _checkpoints(
    kind: str, operator: Operated, interval_s: float, seconds: float
) -> Iterator[tuple[Run, float, tuple[int, int]]]:
    """Each with the CPU time of the batches before it, which a backup would have to repeat, and the paper's counts."""
    stream, windows, replay_ms = Stream(kind), Windows(), 0.0
    every, warm_up = round(interval_s / STEP_S), round(WARM_UP_S / STEP_S)
    for number in range(warm_up + round(seconds / STEP_S)):
        now_us = round(number * STEP_S * SECOND_US)
        keys = stream.keys(number)
        replay_ms += operator.batch(_frames(operator, keys, now_us), now_us)
        if kind != JOINED:
            windows.see(keys, now_us // SECOND_US)
        if (number + 1) % every == 0:
            run, counts = operator.checkpoint(), windows.captured(now_us // SECOND_US)
            if number >= warm_up:
                yield run, replay_ms, counts
            replay_ms = 0.0


def _frames(operator: Operated, keys: np.ndarray, now_us: int) -> list[pl.DataFrame]:
    """Frames with these keys, one for each input; both sides of a join get equal keys."""
    columns = {"k": keys, "y": keys, TIME: np.full(len(keys), now_us)}
    return [pl.DataFrame({name: columns[name] for name in schema}, schema=schema) for schema in operator.schemas]


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        kind, interval = key.rsplit(" ", 1)
        keep(key, measured(kind, float(interval)))


# -- what comes of it -------------------------------------------------------------------------------------------------


def estimated(data: Data, kind: str, cost: str = "capture_ms") -> tuple[list[float], list[tuple[float, float]]]:
    """Microseconds an entry, and the cost that they give for each interval.

    Least squares as the paper does it, and a constant for each run. Of an aggregate these are c_f and c_p (C10), where
    a deletion counts as an update; of a join the rows that entered count, l1 + l2 in a second for WITHIN_S at most
    (C11).
    """
    found = [data[_key(kind, interval)] for interval in INTERVALS_S]
    rows = [[2 * JOIN_PER_S * min(interval, float(WITHIN_S)), 1.0] for interval in INTERVALS_S]
    windows = [[one["created"], one["updated"] + one["deleted"], 1.0] for one in found]
    counts = np.array(rows if kind == JOINED else windows)
    costs = np.array([one[cost] for one in found])
    weights = 1.0 / costs
    fit = np.linalg.lstsq(counts * weights[:, None], costs * weights, rcond=None)[0]
    return (1000 * fit[:-1]).tolist(), list(zip(INTERVALS_S, (counts @ fit).tolist(), strict=True))


def missed(data: Data, kind: str, cost: str) -> float:
    """Mean error of the estimate, as a share of the measured value."""
    measured_ms = (data[_key(kind, interval)][cost] for interval in INTERVALS_S)
    return fmean(abs(e - ms) / ms for (_, e), ms in zip(estimated(data, kind, cost)[1], measured_ms, strict=True))


def _key(kind: str, interval_s: float) -> str:
    return f"{kind} {interval_s:g}"


def _line(data: Data, kind: str, figure: str, name: str = "") -> Series:
    points = tuple((interval, data[_key(kind, interval)][figure]) for interval in INTERVALS_S)
    return Series(name or f"{kind}, {figure.removesuffix('_ms')}", points)


def _plots(data: Data) -> list[Plot]:
    x, cost = "checkpoint interval, s", "CPU time of a checkpoint, ms"
    estimates = tuple(Series(f"{k}, estimated capture", tuple(estimated(data, k)[1]), dashed=True) for k in (PACKETS,))
    costs = tuple(_line(data, kind, figure) for kind in (PACKETS, EVEN) for figure in ("capture_ms", "paste_ms"))
    replay = _line(data, PACKETS, "replay_ms")
    papers = tuple(Series(f"{kind}, the paper's windows", _papers(data, kind), dashed=True) for kind in (PACKETS, EVEN))
    ours = tuple(Series(f"{kind}, our entries", _entries(data, kind)) for kind in (PACKETS, EVEN))
    joined = (
        _line(data, JOINED, "capture_ms", "join, capture"),
        _line(data, JOINED, "paste_ms", "join, paste"),
        Series("join, estimated capture", tuple(estimated(data, JOINED)[1]), dashed=True),
    )
    return [
        Plot(
            "aggregates over windows of 10 s, one a second",
            x,
            cost,
            (*costs, *estimates, replay),
            log_x=True,
            log_y=True,
        ),
        Plot("what a checkpoint holds", x, "entries of a checkpoint", (*papers, *ours), log_x=True, log_y=True),
        Plot(f"a join within {WITHIN_S} s, {JOIN_PER_S} rows/s on each side", x, cost, joined, log_x=True),
    ]


def _papers(data: Data, kind: str) -> tuple[tuple[float, float], ...]:
    found = ((i, data[_key(kind, i)]) for i in INTERVALS_S)
    return tuple((i, one["papers_created"] + one["papers_updated"]) for i, one in found)


def _entries(data: Data, kind: str) -> tuple[tuple[float, float], ...]:
    found = ((i, data[_key(kind, i)]) for i in INTERVALS_S)
    return tuple((i, one["created"] + one["updated"] + one["deleted"]) for i, one in found)


def _checks(data: Data) -> list[Check]:
    capture = {kind: _line(data, kind, "capture_ms") for kind in KINDS}
    paste, replay = _line(data, PACKETS, "paste_ms"), _line(data, PACKETS, "replay_ms")
    late = [data[_key(PACKETS, interval)] for interval in INTERVALS_S if interval >= 1]
    return [
        *(rises(capture[kind], 3.0) for kind in KINDS),
        rises(paste, 3.0),
        *(
            at_most(
                f"{kind}: capture at 20 s over at 10 s",
                _at(capture[kind], 20) / _at(capture[kind], 10),
                1.35,
                shape=True,
            )
            for kind in KINDS
        ),
        below(paste, replay),
        at_least(
            "type 1 from 1 s on: replay over paste",
            fmean(o["replay_ms"] for o in late) / fmean(o["paste_ms"] for o in late),
            3.0,
            shape=True,
        ),
        *(
            at_most(f"{kind}, {cost[:-3]}: mean error of the estimate {formula}", missed(data, kind, cost), 0.2)
            for kind, formula in ((PACKETS, "C_n c_f + C_u c_p"), (JOINED, "(l1 c1 + l2 c2) min(t - a, w)"))
            for cost in ("capture_ms", "paste_ms")
        ),
        below(
            Series("our entries", _entries(data, PACKETS)), Series("the paper's windows", _papers(data, PACKETS)), 1.0
        ),
        at_least(
            "type 1 from 1 s on: paste over capture",
            fmean(o["paste_ms"] for o in late) / fmean(o["capture_ms"] for o in late),
            1.0,
            shape=True,
        ),
    ]


def _at(series: Series, x: float) -> float:
    return dict(series.points)[x]


W7 = Figure(
    tag="W7",
    title="what checkpoints of windows and joins cost",
    paper="Hwang et al. 2007, figure 7",
    expected="capture and paste cost rise with the interval and flatten past the 10 s of the windows; paste costs more "
    "than capture; replay far more than paste; C_n c_f + C_u c_p tracks the measured cost, and of a join "
    "(l1 c1 + l2 c2) min(t - a, w).",
    setup=f"the operators and images of a worker; type 1: 2.0K tuples/s on average, standard deviation 0.7K, "
    f"{ADDRESSES} addresses of Zipf's law; type 2: 100 tuples/s on 100 addresses. CPU time of one thread, mean of at "
    f"least {CHECKPOINTS} checkpoints. The estimate is fitted as in the paper, by least squares.",
    ground=Ground.PROCESS,
    keys=tuple(_key(kind, interval) for kind in KINDS for interval in INTERVALS_S),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=60,
    differs="Entries are panes, which several windows share. Taking a run into the leader's own image (settle) comes "
    "on top of a capture; the paper's workers have no such image.",
)

"""A machine whose load rises repeatedly for a moment: the rises that detectors declare, and their other declarations.

Source: MECHANISMS Z12/13. The paper's two figures are the share of declared rises, and the share of declarations
    without a rise.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from bench.failover.rounds import WORKERS
from bench.research.detectors.elements import FIRST, LOAD
from bench.research.detectors.evaluation import Adaptive, Fixed, Suspicion, idle_us, watch, watch_elements
from bench.research.detectors.recorder import monotonic_us
from bench.research.detectors.recording import Timing, Turn, timings, turns
from bench.research.detectors.study import BENCHMARK, FIXED, HEARTBEAT, recorded
from bench.rig.cluster import BenchCluster
from bench.rig.followed import MeasureFailed
from holdfast.services.recovery.core.recovery import BEAT_US
from holdfast.services.recovery.replica import ECHO_MS

ON_S, OFF_S = 0.83, 0.71
"""A rise and the pause after it: no multiple of the interval of heartbeats, so that rises meet them at any time."""
MARGIN_US = 100_000
"""Microseconds after the begin or end of a load for which samples include both states."""
LATE_US = 200_000
"""Time after a rise within which a declaration is due to it: the heartbeat that it delayed is missed by then."""
LEVELS = {"60%": 0.6, "75%": 0.75, "90%": 0.9, "95%": 0.95}
"""Loads to which the machine rises: the paper's 60 to 95 %."""

Rise = tuple[int, int]
"""Begin and end of a rise, in monotonic microseconds."""


class Declared(msgspec.Struct, frozen=True):
    """Declarations of one detector.

    detected: number of rises with a declaration.
    right, false: number of declarations during rises, and without one.
    delay_ms: median from the beginning of a rise; None: none was declared.
    """

    detector: str
    detected: int
    right: int
    false: int
    delay_ms: float | None

    @property
    def false_ratio(self) -> float:
        """Share of false declarations; 0 if nothing was declared."""
        declared = self.right + self.false
        return self.false / declared if declared else 0.0


class Risen(msgspec.Struct, frozen=True):
    """Rises to one level.

    load, rest: load of the machine, during rises and between them, 0 to 1.
    silences_ms: by rise, see `silences`.
    """

    level: str
    rises: int
    seconds: float
    load: float
    rest: float
    declared: tuple[Declared, ...]
    silences_ms: tuple[float, ...]


def risen(cluster: BenchCluster, name: str, levels: Sequence[str], number: int) -> Iterator[Risen]:
    """Makes `number` rises at each level; yields each level when it is over. Raises MeasureFailed."""
    with recorded(cluster, name) as made:
        for level in levels:
            cluster.say(f"  {number} rises to {level} load ...")
            with made.loaded(LEVELS[level], str(ON_S), str(OFF_S)):
                start_us = monotonic_us()
                made.job.watch(number * (ON_S + OFF_S))
                end_us = monotonic_us()
            made.protected()
            if inexact := made.inexact():
                raise MeasureFailed(f"{inexact} rows lost, duplicated or wrong")
            seen, timed = turns(made.files[0]), timings(made.files[1])
            found = {
                HEARTBEAT: watch(seen, Adaptive(BEAT_US, ECHO_MS * 1000), 1, BEAT_US).suspicions,
                FIXED: watch(seen, Fixed(BEAT_US), 1, BEAT_US).suspicions,
                BENCHMARK: watch_elements(timed, seen, idle_us(timed, FIRST), LOAD).suspicions,
            }
            times = rises(start_us, end_us)
            load, rest = loads(timed, times)
            declarations = tuple(declared(detector, some, times) for detector, some in found.items())
            seconds, silent_ms = round((end_us - start_us) / 1e6, 1), silences(seen, times)
            yield Risen(level, len(times), seconds, load, rest, declarations, tuple(silent_ms))


def observed(detector: str) -> int:
    """Number of workers that a detector suspects each by itself: the benchmark suspects the machine."""
    return 1 if detector == BENCHMARK else WORKERS


def rises(start_us: int, end_us: int) -> list[Rise]:
    """Rises that are whole between two times, by the clock that burners go by; the pause after each is, too."""
    on_us, period_us = round(ON_S * 1e6), round((ON_S + OFF_S) * 1e6)
    first = -(-start_us // period_us) * period_us
    return [(at_us, at_us + on_us) for at_us in range(first, end_us - period_us + 1, period_us)]


def declared(detector: str, suspicions: Sequence[Suspicion], times: Sequence[Rise]) -> Declared:
    """Declarations from the first rise to the pause after the last."""
    if not times:
        return Declared(detector, 0, 0, 0, None)
    until_us = times[-1][1] + round(OFF_S * 1e6)
    some = [one.at_us for one in suspicions if times[0][0] <= one.at_us < until_us]
    firsts = [next((at for at in some if begin <= at < end + LATE_US), None) for begin, end in times]
    delays = [(at - begin) / 1000 for at, (begin, _) in zip(firsts, times, strict=True) if at is not None]
    right = sum(any(begin <= at < end + LATE_US for begin, end in times) for at in some)
    delay_ms = round(statistics.median(delays), 1) if delays else None
    return Declared(detector, len(delays), right, len(some) - right, delay_ms)


def silences(seen: Sequence[Turn], times: Sequence[Rise]) -> list[float]:
    """By rise, in ms: the longest time between two heartbeats of a worker, the later of which came during the rise or
    soon after it.

    The paper's detector uses only heartbeats and a fixed grace.
    """
    heard: dict[str, list[int]] = {}
    for turn in seen:
        for worker, _ in turn.beats:
            heard.setdefault(worker, []).append(turn.at_us)
    gaps = [(after, after - before) for each in heard.values() for before, after in pairwise(each)]
    return [max((gap for at, gap in gaps if begin <= at < end + LATE_US), default=0) / 1000 for begin, end in times]


def loads(timed: Sequence[Timing], times: Sequence[Rise]) -> tuple[float, float]:
    """Mean load of the machine during rises, and in the pauses between them. A sample is of the time before it."""
    risen, rest = list[float](), list[float]()
    for one in timed:
        for begin, end in times:
            if begin + MARGIN_US <= one.at_us < end:
                risen.append(one.load)
            elif end + MARGIN_US <= one.at_us < end + round(OFF_S * 1e6):
                rest.append(one.load)
    return _mean(risen), _mean(rest)


def _mean(some: Sequence[float]) -> float:
    return round(statistics.fmean(some), 3) if some else 0.0

"""Recordings of machines that are made up, so that a rule of the detector can be judged where no machine is quiet.

`python -m bench.research.detectors.made_up [--minutes N] [--seed N]`: by kind of machine, the false suspicions of the
detector, and how soon it finds workers that are frozen for FROZEN_MS. The clients of a broker that was away return one
after the other.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from bench.research.detectors.evaluation import Adaptive, Suspicion, watch
from bench.research.detectors.recording import Turn
from bench.rig.figures import percentile
from holdfast.services.kernel.liveness.detector import STALL_BEATS

BEAT_MS, ECHO_MS, TURN_MS = 100, 50, 10
WORKERS = ("a", "b", "c", "d")
FROZEN_MS, EACH_MS = 5_000, 20_000
RETURN_MS = 1_600
"""Longest time that a client takes to return to a broker that was away."""

Spans = list[tuple[int, int]]
"""Begin and end of each time in which something is stopped, in ms, in order."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Standstills as (number a minute, mean ms), each of a length between nothing and a few means.

    each: of each process by itself. observer: of the observer alone. all: of all processes at once.
    outages_per_h: of the broker, of 2 to 10 s.
    """

    each: tuple[float, float] = (0, 0)
    observer: tuple[float, float] = (0, 0)
    all: tuple[float, float] = (0, 0)
    outages_per_h: float = 0


MACHINES: Mapping[str, Machine] = {
    "quiet": Machine((6, 20)),
    "busy": Machine((200, 50)),
    "overfull": Machine((400, 80), observer=(4, 700)),
    "starved": Machine((400, 150), observer=(6, 1_000), all=(2, 500)),
    "quiet, outages": Machine((6, 20), outages_per_h=60),
    "overfull, outages": Machine((400, 80), observer=(4, 700), outages_per_h=60),
    "starved, outages": Machine((400, 150), observer=(6, 1_000), all=(2, 500), outages_per_h=60),
}


@dataclass(slots=True)
class Standing:
    """A process. spans: when it is stopped."""

    spans: Spans
    _begins: list[int] = field(init=False)

    def __post_init__(self) -> None:
        joined: Spans = []
        for begin, end in sorted(self.spans):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        self.spans, self._begins = joined, [begin for begin, _ in joined]

    def free(self, at_ms: int) -> int:
        """The first time from then on at which it runs."""
        found = bisect_right(self._begins, at_ms) - 1
        return max(at_ms, self.spans[found][1]) if found >= 0 else at_ms


def _spans(random: Random, rate: tuple[float, float], until_ms: int) -> Spans:
    per_min, mean_ms = rate
    found: Spans = []
    at_ms = 0.0
    while per_min and (at_ms := at_ms + random.expovariate(per_min / 60_000)) < until_ms:
        found.append((round(at_ms), round(at_ms + random.expovariate(1 / mean_ms))))
    return found


@dataclass(frozen=True, slots=True)
class Made:
    """turns: of the observer. frozen: by worker, when it was frozen. away: by worker, from the beginning
    of each outage until its client has returned."""

    turns: list[Turn]
    frozen: Mapping[str, Spans]
    away: Mapping[str, Spans]


def made(machine: Machine, seed: int, minutes: float) -> Made:
    """A recording: every EACH_MS one worker is frozen for FROZEN_MS."""
    random, until_ms = Random(seed), round(minutes * 60_000)
    together = _spans(random, machine.all, until_ms)
    frozen: dict[str, Spans] = {worker: [] for worker in WORKERS}
    for at_ms in range(EACH_MS, until_ms - 2 * FROZEN_MS, EACH_MS):
        begin_ms = at_ms + random.randrange(EACH_MS // 2)
        frozen[random.choice(WORKERS)].append((begin_ms, begin_ms + FROZEN_MS))
    outages = [
        (begin, begin + random.randint(2_000, 10_000))
        for begin, _ in _spans(random, (machine.outages_per_h / 60, 1), until_ms)
    ]
    broker = Standing(outages + together + _spans(random, machine.each, until_ms))
    observer = _spans(random, machine.observer, until_ms) + _spans(random, machine.each, until_ms) + together
    away: dict[str, Spans] = {}
    arrivals: list[tuple[int, str]] = []
    for worker in WORKERS:
        process = Standing(frozen[worker] + _spans(random, machine.each, until_ms) + together)
        client = Standing([(begin, end + random.randrange(RETURN_MS)) for begin, end in outages])
        away[worker] = client.spans
        sent_ms = {process.free(at_ms) for at_ms in range(0, until_ms, BEAT_MS)}
        arrivals += [(broker.free(client.free(at_ms)) + 1, worker) for at_ms in sent_ms]
    return Made(list(_turns(sorted(arrivals), Standing(observer), broker, until_ms)), frozen, away)


def _turns(arrivals: Sequence[tuple[int, str]], observer: Standing, broker: Standing, until_ms: int) -> Iterator[Turn]:
    """The observer sends itself a heartbeat whenever it has read and sent none for ECHO_MS."""
    at_ms = read = echoed_ms = 0
    echo_ms: list[int] = []
    while (at_ms := observer.free(at_ms + TURN_MS)) < until_ms:
        first = read
        while read < len(arrivals) and arrivals[read][0] <= at_ms:
            read += 1
        came = [one for one in echo_ms if one <= at_ms]
        echo_ms = [one for one in echo_ms if one > at_ms]
        if came or read > first:
            echoed_ms = at_ms
        yield Turn(at_ms * 1000, tuple((worker, "1") for _, worker in arrivals[first:read]), bool(came))
        if at_ms - echoed_ms >= ECHO_MS:
            echoed_ms = at_ms
            echo_ms.append(broker.free(at_ms) + 1)


@dataclass(frozen=True, slots=True)
class Found:
    """false: suspicions of workers that were heard again within STALL_BEATS intervals. returning: of workers whose
    clients were on their way back to the broker. hours: of all workers together. took_ms: by freeze; None: it was over
    first."""

    false: int
    returning: int
    hours: float
    took_ms: tuple[float | None, ...]


def found(recording: Made, minutes: float) -> Found:
    some = watch(recording.turns, Adaptive(BEAT_MS * 1000, ECHO_MS * 1000), 1, BEAT_MS * 1000).suspicions
    false = sum(one.silent_us < STALL_BEATS * BEAT_MS * 1000 for one in some)
    returning = sum(_within(recording.away[one.worker], one) for one in some)
    took = [_took_ms(worker, span, some) for worker, spans in recording.frozen.items() for span in spans]
    return Found(false, returning, len(WORKERS) * minutes / 60, tuple(took))


def _within(spans: Spans, one: Suspicion) -> bool:
    return any(begin <= one.at_us / 1000 <= end + BEAT_MS for begin, end in spans)


def _took_ms(worker: str, span: tuple[int, int], some: Sequence[Suspicion]) -> float | None:
    """From the beginning of a freeze until its worker is suspected."""
    begin, end = span
    at_ms = [one.at_us / 1000 for one in some if one.worker == worker]
    return next((at - begin for at in at_ms if begin <= at < end), None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="made_up", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name, machine in MACHINES.items():
        one = found(made(machine, asked.seed, asked.minutes), asked.minutes)
        took = sorted(ms for ms in one.took_ms if ms is not None)
        shares = {f"p{round(100 * share)}_ms": round(percentile(took, share)) for share in (0.5, 0.95)} if took else {}
        figures = {
            "false_per_h": round(one.false / one.hours, 1),
            "returning_per_h": round(one.returning / one.hours, 1),
            "freezes": len(one.took_ms),
            "over_first": len(one.took_ms) - len(took),
            **shares,
        }
        print(json.dumps({"machine": name, **figures}), flush=True)


if __name__ == "__main__":
    main()

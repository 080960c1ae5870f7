"""Kills at chosen points and random ones: a round is one job that is struck several times, drained and checked.

Source: PROTOCOL 13 and 14. What is not exact is charged to the strike during whose batches it was made.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from holdfast.services.audit.comparison import Difference
from holdfast.services.audit.replay import Report
from holdfast.services.kernel.errors import CommandFailed
from tests.campaign.jobs import JOBS
from tests.support.doomed_cluster import DoomedCluster
from tests.support.doomed_worker import AT_PLACEMENT, MOMENTS, POINTS, Doom
from tests.support.running_job import DoomedJob, NotReached

RANDOM, STARTING, DRAINING = "random", "starting", "draining"
"""Kills at any time: under load, while a job starts, and while it runs out."""
AT_RANDOM = (RANDOM,) * 8 + (STARTING, DRAINING)
FIRE_S = 8.0
"""A point that is not reached for so long is given up, where another job or another time will do."""
PLACEMENTS = 3
"""So many workers are killed, one after the other, until one places a copy that gets to the point."""
STRIKES_A_ROUND = 6
LOAD = 10
"""Numbers fed between two looks: some hundred a second."""
MAX_NTH = {"anchor": 2, "trim-checkpoints": 2, "dead-letter": 3, "start": 1, "event": 3}
KINDS = {"frame-part": ("counts", "joined", "changes"), "slice": ("counts", "joined", "changes", "windows")}
"""Jobs in which a point comes often; others: all jobs."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A kill to be made. moment: empty for a random one."""

    point: str
    moment: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of a strike. first, last: batches meanwhile. back_ms: until all that was fed was processed again.

    silence_ms: the longest time without a result; plain_ms: without a record of a plain producer that ran beside it.
    """

    point: str
    moment: str
    job: str
    round: str
    fired: bool
    first: int = 0
    last: int = 0
    back_ms: int = 0
    silence_ms: int = 0
    plain_ms: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    problem: str = ""

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong or self.problem)


def strikes(points: Sequence[str], times: int, at_random: int) -> list[Strike]:
    """Every point as often as is asked for, at each moment in turn; and the random ones."""
    moments = list(MOMENTS)
    chosen = [
        Strike(point, moments[(number + place) % len(moments)])
        for number in range(times)
        for place, point in enumerate(points)
        if point in POINTS
    ]
    return [*chosen, *[Strike(AT_RANDOM[number % len(AT_RANDOM)]) for number in range(at_random)]]


def left_of(wanted: Sequence[Strike], outcomes: Sequence[Outcome]) -> list[Strike]:
    """Strikes that have not fired yet."""
    left = list(wanted)
    for one in outcomes:
        strike = Strike(one.point, one.moment)
        if one.fired and strike in left:
            left.remove(strike)
    return left


def rounds_of(
    wanted: Sequence[Strike], chance: random.Random, a_round: int = STRIKES_A_ROUND
) -> Iterator[tuple[str, list[Strike]]]:
    """Jobs in turn, each with some of the strikes; in an order that chance decides."""
    left = list(wanted)
    chance.shuffle(left)
    kinds = list(JOBS)
    number = 0
    while left:
        kind = kinds[number % len(kinds)]
        number += 1
        fitting = [strike for strike in left if kind in KINDS.get(strike.point, kinds)][:a_round]
        for strike in fitting:
            left.remove(strike)
        if fitting:
            yield kind, fitting


def run_round(
    cluster: DoomedCluster,
    kind: str,
    name: str,
    wanted: Sequence[Strike],
    chance: random.Random,
    done: Callable[[Strike, bool], None] = lambda strike, fired: None,
    fire_s: float = FIRE_S,
) -> list[Outcome]:
    """Runs one job from its submission to the check of all its rows. A job that is not exact is left as it is, to be
    looked
    at.
    """
    ordered = sorted(wanted, key=lambda strike: (strike.point == DRAINING) - (strike.point == STARTING))
    outcomes: list[Outcome] = []
    job = DoomedJob(cluster, JOBS[kind], name)
    try:
        job.submit()
        job.feed()
        for strike in ordered:
            if strike.point not in (STARTING, DRAINING):
                job.until(job.caught_up, "all that was fed is processed")
            outcomes.append(_strike(job, strike, chance, fire_s))
            done(strike, outcomes[-1].fired)
        if not job.draining:
            job.feed()
            job.drain()
        job.await_end()
        outcomes = charged(outcomes, job.replayed(), job.problems())
    except (NotReached, CommandFailed) as error:
        known = outcomes or [Outcome(ordered[0].point, ordered[0].moment, kind, name, fired=False)]
        return [*known[:-1], msgspec.structs.replace(known[-1], problem=f"{error}; units {job.where()}")]
    finally:
        cluster.disarm()
    if all(one.exact for one in outcomes):
        job.forget()
    return outcomes


def _strike(job: DoomedJob, strike: Strike, chance: random.Random, fire_s: float) -> Outcome:
    first = job.batch
    fired = _do(job, strike, chance, fire_s)
    struck = time.monotonic()
    if strike.point != DRAINING:
        job.feed()
        job.until(lambda: job.cluster.all_run() and job.caught_up(), f"after {strike}, all that was fed is processed")
    back_ms = int((time.monotonic() - struck) * 1000)
    return Outcome(strike.point, strike.moment, job.job.kind, job.name, fired, first, job.batch, back_ms)


def _do(job: DoomedJob, strike: Strike, chance: random.Random, fire_s: float) -> bool:
    """True if a worker was killed as was wanted."""
    match strike.point:
        case "starting":
            return _at_any_time(job, chance, 1.5, 0)
        case "draining":
            job.drain()
            return _at_any_time(job, chance, 1.0, 0)
        case "random":
            return _at_any_time(job, chance, 0.5, LOAD)
        case _:
            return _at_point(job, strike, chance, fire_s)


def _at_point(job: DoomedJob, strike: Strike, chance: random.Random, fire_s: float) -> bool:
    cluster = job.cluster
    nth = chance.randint(1, MAX_NTH.get(strike.point, 6))
    cluster.arm(Doom(strike.point, strike.moment, nth))
    tries = PLACEMENTS if strike.point in AT_PLACEMENT else 1
    killed: set[str] = set()
    for _ in range(tries):
        if strike.point in AT_PLACEMENT:
            killed.add(cluster.kill(chance, spared=killed))  # one may hold nothing of the job
        with suppress(NotReached):
            job.until(lambda: cluster.fired, "the point is reached", load=LOAD, seconds=fire_s / tries)
            return True
    cluster.disarm()
    return cluster.fired


def _at_any_time(job: DoomedJob, chance: random.Random, seconds: float, load: int) -> bool:
    """Any worker, and now and then another before the first is back."""
    killed = False
    for within_s in (seconds, 1.5)[: 1 + (chance.random() < 0.3)]:
        job.run_for(chance.uniform(0.0, within_s), load)
        killed = bool(job.cluster.kill(chance)) or killed
    return killed


def charged(outcomes: list[Outcome], report: Report, problems: list[str]) -> list[Outcome]:
    """Differences by the batch they are in; what has no batch is the last one's."""
    found = {kind: [0] * len(outcomes) for kind in ("lost", "duplicated", "wrong")}
    for difference in report.differences:
        found[difference.kind][_whose(outcomes, difference)] += 1
    known = {"lost": report.rows.lost, "duplicated": report.rows.duplicated, "wrong": report.rows.wrong}
    known = {kind: count + getattr(report.dead_letters, kind) for kind, count in known.items()}
    for kind, count in known.items():
        found[kind][-1] += count - sum(found[kind])  # beyond those shown word for word
    charged = [
        msgspec.structs.replace(one, **{kind: counts[number] for kind, counts in found.items()})
        for number, one in enumerate(outcomes)
    ]
    notes = "; ".join([*problems, *_described(report)])
    if notes and all(one.exact for one in charged):
        charged[-1] = msgspec.structs.replace(charged[-1], problem=notes)
    return charged if not notes else [
        one if one.exact else msgspec.structs.replace(one, problem=one.problem or notes) for one in charged
    ]  # fmt: skip


def _whose(outcomes: Sequence[Outcome], difference: Difference) -> int:
    return next((number for number, one in enumerate(outcomes) if difference.batch <= one.last), len(outcomes) - 1)


def _described(report: Report) -> list[str]:
    return [
        f"{one.kind}: {one.stream}, batch {one.batch}: expected {one.expected}, found {one.found}"
        for one in report.differences[:3]
    ]


def known_points(names: Sequence[str]) -> list[str]:
    """All of them for none. Raises ValueError for one that there is not."""
    for name in names:
        if name not in POINTS:
            raise ValueError(f"there is no point {name!r}: one of {', '.join(POINTS)}")
    return list(names) or list(POINTS)

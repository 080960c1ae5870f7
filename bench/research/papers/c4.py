"""C4 and C5 on real workers: how long the eight units of a killed worker take to come back, over four peers and over
one, and how well the expected recovery time foretells it.

What is expected is said before the kill: by the heartbeats that had come, for each backup group. What it is compared
with is each backup's replay, by the phases that its copies report.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from bench.research.papers.crowd import Crowd, Piece, Recovered, Setting, begin, crowded
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.research.papers.rules import at_most, below, ratio_of_means
from bench.research.papers.spending import Hash
from bench.rig.cluster import folder_of_its_own
from bench.rig.figures import percentile
from bench.rig.followed import MeasureFailed
from bench.rig.saying import say

UNITS, SHARE = 8, 0.35
KILLS = {4: 25, 1: 25}
"""Number of kills, by peers. After a kill with one peer all units are on one worker; with four they are moved there
first.
"""
AT_ONCE = 5
"""Number of kills whose rows are checked together, because a check computes all results so far again."""
WITHIN = 0.3
"""Largest mean error of the expected recovery, as a share of the mean duration."""
INTERVAL_MS, BATCH_MS = 8_000, 2_000
PIECE = Piece(20, 200, Hash.__name__)
WARM_UP_S = INTERVAL_MS / 1000 + 1.0
"""Seconds until every unit has a marker: the load of its first batches does not count."""
SHARES = range(10, 100, 10)
LEAST_S = INTERVAL_MS / 1000 + 1.0
"""Seconds under a quota before the worker is killed, so that all batches to be repeated were processed under it."""


def _key(peers: int, kill: int) -> str:
    return f"{peers} {kill}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for peers in KILLS:
        wanted = [key for key in keys if key.startswith(f"{peers} ")]
        if not wanted:
            continue
        checkpoint = {"policy": "individual", "interval_ms": INTERVAL_MS}
        setting = Setting([PIECE] * UNITS, 1 + peers, SHARE, checkpoint, BATCH_MS)
        with folder_of_its_own(say) as cluster:
            begin(cluster, setting)
            with crowded(cluster, setting, f"peers-{peers}") as made:
                made.watch(WARM_UP_S)
                for some in (wanted[first : first + AT_ONCE] for first in range(0, len(wanted), AT_ONCE)):
                    found = {key: _killed(made, key) for key in some}
                    if inexact := made.inexact():
                        raise MeasureFailed(f"{inexact} rows lost, duplicated or wrong")
                    for key, recovered in found.items():
                        keep(key, values(recovered))


def _killed(made: Crowd, key: str) -> Recovered:
    leader = made.again()
    with made.limited():
        made.watch(LEAST_S + random.Random(key).uniform(0, INTERVAL_MS / 1000))
        return made.kill(leader)


def values(found: Recovered) -> Values:
    """Values of a recovery: for each backup, by number, its expected and its measured time."""
    groups = enumerate(found.replays_ms.items())
    return {
        "worker_ms": found.worker_ms,
        "result_ms": found.result_ms,
        **{f"{phase}_ms": found.longest_ms(phase) for phase in ("detection", "activation")},
        **{
            f"{what}_{n}_ms": ms
            for n, (backup, replay_ms) in groups
            for what, ms in (("expected", found.expected_ms[backup]), ("replay", replay_ms))
        },
    }


def _of(data: Data, peers: int, figure: str) -> list[float]:
    return [data[_key(peers, kill)][figure] for kill in range(KILLS[peers])]


def _sorted(data: Data, peers: int) -> Series:
    times = _of(data, peers, "worker_ms")
    points = tuple((float(share), percentile(times, share / 100)) for share in SHARES)
    return Series(f"over {peers} peer{'s' * (peers > 1)}", points)


def groups(one: Values) -> list[tuple[float, float]]:
    """Groups of one kill, by backup: R_Qij just before it, and how long its units then took to apply and to repeat."""
    numbers = range(sum(name.startswith("replay_") for name in one))
    return [(one[f"expected_{n}_ms"], one[f"replay_{n}_ms"]) for n in numbers]


def foretold(data: Data, peers: int) -> list[tuple[float, float]]:
    """For each kill, R_Qi just before it, and the duration of the last backup. Both are the
    maximum over its backups.
    """
    return [(max(r for r, _ in some), max(ms for _, ms in some)) for some in _groups(data, peers)]


def _groups(data: Data, peers: int) -> list[list[tuple[float, float]]]:
    return [groups(data[_key(peers, kill)]) for kill in range(KILLS[peers])]


def error(both: Sequence[tuple[float, float]]) -> float:
    """Mean error as a share of the mean duration: the error of a kill with short expected and measured times means
    little.
    """
    return sum(abs(model - ms) for model, ms in both) / sum(ms for _, ms in both)


def _plots(data: Data) -> list[Plot]:
    dots = tuple(Series(f"{peers} peers", tuple(sorted(foretold(data, peers)))) for peers in KILLS)
    most = max(x for series in dots for x, _ in series.points)
    same = Series("as foretold", ((0.0, 0.0), (most, most)), dashed=True)
    lines = tuple(_sorted(data, peers) for peers in KILLS)
    last = "until the last unit has repeated what was processed, ms"
    return [
        Plot("a worker with 8 units is killed", "share of the kills that took no longer, %", last, lines),
        Plot(
            "what the model foretold",
            "expected recovery R_Qi at the kill, ms",
            "replay of the units, ms",
            (*dots, same),
        ),
    ]


def _checks(data: Data) -> list[Check]:
    """The model is judged for each number of peers by itself: replays over one take most of the time of all."""
    ratio = ratio_of_means(_of(data, 4, "worker_ms"), _of(data, 1, "worker_ms"))
    kills = {peers: foretold(data, peers) for peers in KILLS}
    replays = ratio_of_means(*([ms for _, ms in kills[peers]] for peers in (4, 1)))
    parts = [one for some in _groups(data, 4) for one in some]
    return [
        below(_sorted(data, 4), _sorted(data, 1)),
        at_most("mean recovery: over 4 peers by over 1 peer", ratio, 0.5),
        at_most("mean replay: over 4 peers by over 1 peer", replays, 0.5),
        at_most("over 4 peers: mean error of R_Qi by the mean replay", error(kills[4]), WITHIN),
        at_most("over 4 peers: mean error of R_Qij by the mean replay of a backup", error(parts), WITHIN),
        at_most("over 1 peer: mean error of R_Qi by the mean replay", error(kills[1]), WITHIN),
        at_most("all kills: mean error of R_Qi by the mean replay", error([*kills[4], *kills[1]]), WITHIN),
        at_most(
            "mean error of R_Qi in ms: over 4 peers less over 1 peer", _error_ms(kills[4]) - _error_ms(kills[1]), 0.0
        ),
    ]


def _error_ms(both: Sequence[tuple[float, float]]) -> float:
    return fmean(abs(model - ms) for model, ms in both)


C4 = Figure(
    tag="C4",
    title="the units of a killed worker come back over several peers",
    paper="Hwang et al. 2007, sections 3.5 and 5",
    expected="peers that hold images recover their parts in parallel: over four peers eight units come back in less "
    "than half the time. The model of expected recovery time tells how long it takes.",
    setup=f"a worker leads {UNITS} units under hybrid and is killed; each worker has {SHARE:g} of a CPU. Each unit "
    f"counts {PIECE.rate_per_s:g} records/s by {PIECE.keys} keys and is captured every {INTERVAL_MS / 1000:g} s. "
    "Before it counts its batch passes a hash of 64 MiB, so that a replay is mostly batches. "
    f"{KILLS[4]} kills with 4 peers and {KILLS[1]} with one; shares hold from {LEAST_S:g} s or more before a "
    "kill until all is back.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(peers, kill) for peers, kills in KILLS.items() for kill in range(kills)),
    measure=_measure,
    differs="What is expected, R_Qij, is said before the kill, by the heartbeats that had come, for each backup. What "
    "it took is its replay: from its first unit's work until its last unit is as far as the killed worker was. "
    "Detection and the first activation are in neither. The paper shows what its model expects, no failures beside it. "
    "Costs come once a second, so at a kill just after a capture R can still be that from before it: the replays of "
    "nearly 0 ms. A replay consists of whole batches, of which a backup of four repeats a few: one more or less counts "
    "for more of its mean, while the error in ms is smaller than over one peer (the last rule).",
    plots=_plots,
    checks=_checks,
    seconds=1200,
)

"""C4 and C5 on real workers: how long the eight units of a killed worker take to come back, over four peers and over
one, and how well the expected recovery time foretells it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from bench.cluster import folder_of_its_own
from bench.papers.crowd import FIRST, PHASES, Crowd, Piece, Setting, begin, crowded
from bench.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series, Values
from bench.papers.rules import at_most, below, ratio_of_means
from services.cli.terminal import console

UNITS, SHARE = 8, 0.2
PEERS = (4, 1)
KILLS = 6
INTERVAL_MS, BATCH_MS = 5_000, 1_000
PIECE = Piece(rate_per_s=100, keys=200)
LEAST_S = 6.0
"""Under its quota, until the worker is killed between two checkpoints."""


def _key(peers: int, kill: int) -> str:
    return f"{peers} {kill}"


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for peers in PEERS:
        wanted = [key for key in keys if key.startswith(f"{peers} ")]
        if not wanted:
            continue
        checkpoint = {"policy": "individual", "interval_ms": INTERVAL_MS}
        setting = Setting([PIECE] * UNITS, 1 + peers, SHARE, checkpoint, BATCH_MS)
        with folder_of_its_own(_say) as cluster:
            begin(cluster, setting)
            for key in wanted:
                with crowded(cluster, setting, f"peers-{key.replace(' ', '-')}") as made:
                    made.watch(LEAST_S + random.Random(key).uniform(0, INTERVAL_MS / 1000))
                    keep(key, _values(made))


def _say(text: str) -> None:
    console(stderr=True).print(text, markup=False)


def _values(made: Crowd) -> Values:
    found = made.kill(FIRST)
    return {
        "worker_ms": found.worker_ms,
        "result_ms": found.result_ms,
        "expected_ms": found.expected_ms,
        **{f"{phase}_ms": found.longest_ms(phase) for phase in PHASES},
    }


def _of(data: Data, peers: int, figure: str) -> list[float]:
    return [data[_key(peers, kill)][figure] for kill in range(KILLS)]


def _sorted(data: Data, peers: int) -> Series:
    times = sorted(_of(data, peers, "worker_ms"))
    return Series(f"over {peers} peer{'s' * (peers > 1)}", tuple((float(n + 1), ms) for n, ms in enumerate(times)))


def foretold(data: Data, peers: int) -> list[tuple[float, float]]:
    """By kill: R_Qi just before it, and how long the units then had to apply and to repeat."""
    return list(zip(_of(data, peers, "expected_ms"), _of(data, peers, "replay_ms"), strict=True))


def _plots(data: Data) -> list[Plot]:
    dots = tuple(Series(f"{peers} peers", tuple(sorted(foretold(data, peers)))) for peers in PEERS)
    most = max(x for series in dots for x, _ in series.points)
    same = Series("as foretold", ((0.0, 0.0), (most, most)), dashed=True)
    lines = tuple(_sorted(data, peers) for peers in PEERS)
    last = "until the last unit has repeated what was processed, ms"
    return [
        Plot("a worker with 8 units is killed", "kill, in the order of the time", last, lines),
        Plot(
            "what the model foretold",
            "expected recovery R_Qi at the kill, ms",
            "replay of the units, ms",
            (*dots, same),
        ),
    ]


def _checks(data: Data) -> list[Check]:
    """The error of a kill that foretold and took little says little: kills count by the time that they took."""
    both = [one for peers in PEERS for one in foretold(data, peers)]
    error = sum(abs(model - ms) for model, ms in both) / sum(ms for _, ms in both)
    ratio = ratio_of_means(_of(data, 4, "worker_ms"), _of(data, 1, "worker_ms"))
    replays = ratio_of_means(_of(data, 4, "replay_ms"), _of(data, 1, "replay_ms"))
    return [
        below(_sorted(data, 4), _sorted(data, 1), 0.9),
        at_most("mean recovery: over 4 peers by over 1 peer", ratio, 0.4),
        at_most("mean replay: over 4 peers by over 1 peer", replays, 0.4),
        at_most("mean error of the model by the mean replay", error, 0.3),
    ]


C4 = Figure(
    tag="C4",
    title="the units of a killed worker come back over several peers",
    paper="Hwang et al. 2007, sections 3.5 and 5",
    expected="peers that hold images recover their parts in parallel: over four peers eight units come back in less "
    "than half the time. The model of expected recovery time tells how long it takes.",
    setup=f"a worker leads {UNITS} units under hybrid and is killed; each worker has {SHARE:g} of a CPU. Each unit "
    f"counts {PIECE.rate_per_s:g} records/s by {PIECE.keys} keys and is captured every {INTERVAL_MS / 1000:g} s. "
    f"{KILLS} kills with 4 peers and {KILLS} with one.",
    ground=Ground.CLUSTER,
    keys=tuple(_key(peers, kill) for peers in PEERS for kill in range(KILLS)),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=600,
    differs="When this was measured, a unit was charged for the batches of other units in the same turn of its worker "
    "(decision 0083): R was too large. It has not been measured again since.",
)

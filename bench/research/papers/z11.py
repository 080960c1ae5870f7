"""Z11 on a real worker: what checkpoints write by the number of operators on it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.research.papers.crowd import Piece, Setting, crowd
from bench.research.papers.figure import Check, Data, Figure, Ground, Keep, Plot, Series
from bench.research.papers.rules import linear, rises
from bench.rig.saying import say

UNITS = (1, 2, 4, 6, 8)
OPERATORS = 2
"""Number of operators with state in each unit."""
PIECE = Piece(rate_per_s=100, keys=200)
SHARE, SECONDS = 0.5, 20.0
INTERVAL_MS, BATCH_MS = 500, 500


def _measure(keys: Sequence[str], keep: Keep) -> None:
    for key in keys:
        checkpoint = {"policy": "sweep", "interval_ms": INTERVAL_MS}
        setting = Setting([PIECE] * int(key), 2, SHARE, checkpoint, BATCH_MS)
        with crowd(setting, f"operators-{key}", say) as made:
            made.watch(SECONDS)
            led = [one for one in made.costs().copies if one.role == "primary"]
            keep(key, {"checkpoint_bytes_per_s": sum(one.checkpoint_bytes_per_s or 0.0 for one in led)})


def _line(data: Data) -> Series:
    points = tuple((float(n * OPERATORS), data[str(n)]["checkpoint_bytes_per_s"] / 1024) for n in UNITS)
    return Series("hybrid, checkpoints", points)


def _plots(data: Data) -> list[Plot]:
    return [Plot("what checkpoints add", "operators with state on the worker", "checkpoints, KiB/s", (_line(data),))]


def _checks(data: Data) -> list[Check]:
    return [linear(_line(data), 0.95), rises(_line(data), 4.0)]


Z11 = Figure(
    tag="Z11",
    title="overhead by operators on a worker",
    paper="Zhang et al. 2010, figure 11",
    expected="the message overhead of hybrid grows linearly with the operators on a machine: each adds its own.",
    setup=f"1 to {UNITS[-1]} units of {OPERATORS} operators with state under hybrid on one worker, "
    f"{PIECE.rate_per_s:g} records/s on {PIECE.keys} keys each; checkpoints every {INTERVAL_MS} ms. Bytes appended to "
    "checkpoint logs, over the last 15 s.",
    ground=Ground.CLUSTER,
    keys=tuple(map(str, UNITS)),
    measure=_measure,
    plots=_plots,
    checks=_checks,
    seconds=300,
)

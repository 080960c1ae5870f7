"""Parts of a record's time, from its append to the reader of the result. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.rig.figures import Figures, spread

Times = Mapping[int, float]
"""Milliseconds by batch."""


@dataclass(frozen=True, slots=True)
class CutAt:
    """Batch `batch` holds the records [start, stop); its cut was proposed at time_ms."""

    batch: int
    start: int
    stop: int
    time_ms: float


def split(appended_ms: Sequence[float], cuts: Sequence[CutAt], stages: Mapping[str, Times], seen: Times) -> Figures:
    """Delay of all records, and its mean split into hops: to the cut, to each stage, to the reader.

    Only records whose batch has a time at each stage count.
    """
    records = list(_records(appended_ms, cuts, list(stages.values()), seen))
    if not records:
        return {}
    names = ["append_to_cut", *(f"to_{stage}" for stage in stages), "to_reader"]
    means = [statistics.fmean(hop) for hop in zip(*(_hops(one) for one in records), strict=True)]
    delays = [one[-1] - one[0] for one in records]
    return {"records": len(records), **spread(delays, "ms")} | {
        f"mean_{name}_ms": round(mean, 1) for name, mean in zip(names, means, strict=True)
    }


def _records(
    appended_ms: Sequence[float], cuts: Sequence[CutAt], stages: Sequence[Times], seen: Times
) -> Iterator[list[float]]:
    """Times of each record, from the append to the reader."""
    for cut in cuts:
        if all(cut.batch in times for times in (*stages, seen)):
            behind = [cut.time_ms, *(times[cut.batch] for times in stages), seen[cut.batch]]
            yield from ([at, *behind] for at in appended_ms[cut.start : cut.stop])


def _hops(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def batch_delays(appended_ms: Sequence[float], cuts: Sequence[CutAt], done: Times) -> list[float]:
    """Milliseconds from the append of each batch's first record until the batch was processed."""
    return [
        done[cut.batch] - appended_ms[cut.start]
        for cut in cuts
        if cut.batch in done and cut.start < min(cut.stop, len(appended_ms))
    ]


def pauses(done: Times) -> list[float]:
    """Time between the ends of consecutive batches."""
    ordered = [done[batch] for batch in sorted(done)]
    return _hops(ordered)

"""A bursty rate from a recording: packets at honeypots. It is an input of a machine, not part of the project."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from bench.rig.followed import MeasureFailed

NAME = "packets.csv.gz"
SLICE_S = 60
"""Part of the recording that becomes one second."""
FIRST = datetime(2013, 3, 23, tzinfo=UTC)
"""Begin of the recording; in its first ten hours rates have a standard deviation of 1.4 times their mean, and a maximum
of 16 times.
"""


@cache
def rates(seconds: int, mean_per_s: float) -> tuple[float, ...]:
    """Records a second, one value for each second, with this mean.

    Raises:
        MeasureFailed: the recording is missing; the message names its place.
    """
    counts = Counter(at for at in _slices() if 0 <= at < seconds)
    total = sum(counts.values())
    return tuple(counts[at] * mean_per_s * seconds / total for at in range(seconds))


def _slices() -> Iterator[int]:
    """The slice of each packet."""
    with gzip.open(_path(), "rt") as lines:
        next(lines)
        for line in lines:
            at = datetime.fromisoformat(line[: line.index(",")]).replace(tzinfo=UTC)
            yield int((at - FIRST).total_seconds() // SLICE_S)


def _path() -> Path:
    folder = Path(os.environ.get("HOLDFAST_SHARED_DATA") or Path(__file__).parents[3].parent / "shared" / "data")
    if not (folder / NAME).is_file():
        raise MeasureFailed(f"{folder / NAME} is not there: HOLDFAST_SHARED_DATA names the folder of recordings")
    return folder / NAME

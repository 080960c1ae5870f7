"""Loads the machine to a share of its cores, including other load, or beyond, until it is ended.

`python -m bench.research.detectors.machine_load SHARE [ON_S OFF_S]`, one process for each core; a share above 1 means
no pause. With times the load alternates: all processes follow the clock of the machine.
"""

from __future__ import annotations

import math
import os
import sys
import time

SLICE_S = 0.01
LOOK_S = 0.2
GAIN = 0.3
"""The share of a deviation that is corrected after each look: all burners see the same and answer it together."""


class LoadMeter:
    """The share of the machine's CPU in use since the last call, 0 to 1."""

    def __init__(self) -> None:
        self._busy, self._all = _ticks()

    def share(self) -> float:
        before_busy, before_all = self._busy, self._all
        self._busy, self._all = _ticks()
        return min(max((self._busy - before_busy) / max(self._all - before_all, 1), 0.0), 1.0)


def _ticks() -> tuple[int, int]:
    """Busy ticks, with those stolen by the host, and all ticks."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def main(share: float, on_s: float = math.inf, off_s: float = 0.0) -> None:
    meter, duty, looked = LoadMeter(), min(share, 1.0), time.monotonic()
    while True:
        started = time.monotonic()
        if (wait_s := off(started, on_s, off_s)) > 0.0:
            time.sleep(wait_s)
            meter.share()
            looked = time.monotonic()
            continue
        if share <= 1 and started - looked > LOOK_S:
            duty, looked = corrected(duty, share, meter.share()), started
        while time.monotonic() - started < duty * SLICE_S:
            pass
        if duty < 1:
            time.sleep((1 - duty) * SLICE_S)


def off(now_s: float, on_s: float, off_s: float) -> float:
    """Seconds until the load begins again; 0 while it runs. The load comes first in each period since time 0."""
    at_s = now_s % (on_s + off_s)
    return on_s + off_s - at_s if at_s >= on_s else 0.0


def corrected(duty: float, wanted: float, found: float) -> float:
    return min(max(duty + GAIN * (wanted - found), 0.0), 1.0)


def burners(share: float) -> int:
    """Number of processes that make the load: one a core; two a core for more than the whole machine."""
    return (os.cpu_count() or 1) * (1 if share <= 1 else 2)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))

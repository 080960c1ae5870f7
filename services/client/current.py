"""Waits until every process of the cluster supports the features of this release (schemas/formats.py)."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.schemas import formats
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import CommandFailed
from holdfast.services.log.late.assignments import read_standings
from holdfast.services.view.door import Door

LOOK_S = 0.05
CURRENT_S = 30.0
"""Seconds; a cluster that has just started needs ten to find that all of its processes are of this release."""


def rest() -> None:
    """Pauses between two checks."""
    time.sleep(LOOK_S)


def await_format(
    door: Door,
    timeout_s: float = CURRENT_S,
    wait: Callable[[], None] = rest,
    *,
    format: int = max(formats.LEVEL, formats.CARRIED),
    what: str = "savepoints",
) -> None:
    """Returns once every process of the cluster reads the format. Raises CommandFailed, which names the feature of the
    format.
    """
    assigned, until_s = Partition(door.topics.assignments, 0), time.monotonic() + timeout_s
    while formats.written(read_standings(door.log, assigned).assigned.format) < format:
        if time.monotonic() >= until_s:
            hint = "end them, or start them from this release; `holdfast workers` lists workers"
            raise CommandFailed(f"processes of the cluster are of a release that knows no {what}", hint)
        wait()

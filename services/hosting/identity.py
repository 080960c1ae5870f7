"""The identity of a process that hosts copies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """An incarnation of a worker or a Spark driver.

    Attributes:
        worker: name of the process, kept over restarts.
        incarnation: name of this life of the process.
        zone: failure domain.
        slots: number of units up to which the worker is not full.
        hosts: kind of units that the process takes; empty for units of workers.
        standbys: most standbys that the worker takes; -1 for no limit.
    """

    worker: str
    incarnation: str
    zone: str = ""
    slots: int = 8
    hosts: str = ""
    standbys: int = -1

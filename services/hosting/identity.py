"""Identity of a process that hosts copies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """An incarnation of a worker or a Spark driver.

    worker: its name, kept over restarts.
    slots: units it takes before it counts as full.
    standbys: that it takes at most; -1: as many as are given.
    hosts: the units it takes; empty: those of workers.
    """

    worker: str
    incarnation: str
    zone: str = ""
    slots: int = 8
    hosts: str = ""
    standbys: int = -1

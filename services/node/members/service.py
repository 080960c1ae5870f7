"""The services of a cluster, by name. Apart from lineup.py, which the command line need not load for them."""

from __future__ import annotations

from enum import StrEnum


class Service(StrEnum):
    """Services that a supervisor may run alone, as in a container."""

    WORKER = "worker"
    CONTROLLER = "controller"
    RECOVERY = "recovery"
    SPARK = "spark"

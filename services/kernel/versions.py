"""Versions of what the bytes of a task's output depend on: a plan pins them, a worker with others refuses its units.

Source: PROTOCOL 0.2 and 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTIONS = {"holdfast": "holdfast-streams", "polars": "polars", "pyarrow": "pyarrow"}


@cache
def library_versions() -> dict[str, str]:
    """Version by name, of this process."""
    found = {name: _version(distribution) for name, distribution in DISTRIBUTIONS.items()}
    return found | {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}


def differences(planned: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Which versions a worker has that are not the plan's, and what to do; empty if there are none."""
    if dict(planned) == dict(here):
        return ""
    names = [name for name in sorted({*planned, *here}) if planned.get(name) != here.get(name)]
    different = [f"{name} {planned.get(name)} (here {here.get(name)})" for name in names]
    return f"the plan pins {', '.join(different)}: start this worker in an environment with the plan's versions"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "source"

"""Versions of what the bytes of a task's output depend on: a plan pins them, a worker with others refuses its units.

Source: PROTOCOL 0.2 and 1.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTIONS = {"holdfast": "holdfast-streams", "polars": "polars", "pyarrow": "pyarrow"}


@cache
def library_versions() -> dict[str, str]:
    """Version by name, of this process."""
    found = {name: _version(distribution) for name, distribution in DISTRIBUTIONS.items()}
    return found | {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "source"

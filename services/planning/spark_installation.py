"""Checks whether Spark is installed. pyspark and pandas are the extra `spark` of the package; other jobs do not need
them."""

from __future__ import annotations

import importlib.util

PACKAGES = ("pyspark", "pandas")
COMMAND = "pip install 'holdfast-streams[spark]'"
WHERE = f"{COMMAND}, on every host of the cluster and where commands are typed"


def missing() -> str:
    """A text with the packages that are missing here; empty if Spark is installed. Imports neither of them."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"Spark is not installed here: there is no {' and no '.join(absent)}" if absent else ""

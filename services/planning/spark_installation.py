"""Spark's installation: pyspark and pandas are the extra `spark` of the package; other jobs do without."""

from __future__ import annotations

import importlib.util

PACKAGES = ("pyspark", "pandas")
COMMAND = "pip install 'holdfast-streams[spark]'"
WHERE = f"{COMMAND}, on every host of the cluster and where commands are typed"


def missing() -> str:
    """Packages that are missing here, for people; empty if Spark is installed. Imports nothing."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"Spark is not installed here: there is no {' and no '.join(absent)}" if absent else ""

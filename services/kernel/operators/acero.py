"""Loads the engine by which pyarrow groups rows; `Table.group_by` would do so within the first batch: 0.2 to 1.7 s.

The engine joins datasets as well, and goes without where pyarrow.dataset cannot be imported. That module imports pandas
wherever it is installed, as it is beside Spark: 0.4 CPU seconds of every start, for nothing that is used here. So it is
hidden while the engine is loaded; whoever wants it afterwards imports it as always.
"""

from __future__ import annotations

import importlib
import sys

_DATASET = "pyarrow.dataset"


def load() -> None:
    """Once is enough. Hides nothing from a process that uses datasets already."""
    hides = _DATASET not in sys.modules
    if hides:
        sys.modules[_DATASET] = None  # type: ignore[assignment]  # as good as not installed
    try:
        importlib.import_module("pyarrow.acero")
    finally:
        if hides:
            del sys.modules[_DATASET]

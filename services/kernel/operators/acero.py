"""Loads pyarrow's engine for grouping at start-up; `Table.group_by` would load it within the first batch: 0.2 to 1.7 s.

The engine also joins datasets, but works without pyarrow.dataset. That module imports pandas if it is installed (as it
is beside Spark): 0.4 CPU seconds of every start, without any use here. So the module is hidden while the engine is
loaded; a later import of it works as usual.
"""

from __future__ import annotations

import importlib
import sys

_DATASET = "pyarrow.dataset"


def load() -> None:
    """Loads the engine; later calls have no effect. Hides no module from a process that already uses datasets."""
    hides = _DATASET not in sys.modules
    if hides:
        sys.modules[_DATASET] = None  # type: ignore[assignment]  # as good as not installed
    try:
        importlib.import_module("pyarrow.acero")
    finally:
        if hides:
            del sys.modules[_DATASET]

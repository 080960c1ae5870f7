"""The console's installation: NiceGUI is the extra `console` of the package; all else does without."""

from __future__ import annotations

import importlib.util

YIELDS = 5
"""Niceness on top of its parent's: where both want the same processor, a worker gets three times as much."""

COMMAND = "pip install 'holdfast-streams[console]'"


def missing() -> str:
    """Packages that are missing here, for people; empty if the console can run. Imports nothing."""
    return "" if importlib.util.find_spec("nicegui") else "the console is not installed here: there is no nicegui"

"""Plugins: the modules that users' operators may come from, as HOLDFAST_PLUGINS names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

VARIABLE = "HOLDFAST_PLUGINS"


def modules_of(plugins: str) -> list[str]:
    """plugins: names, comma separated."""
    return [name.strip() for name in plugins.split(",") if name.strip()]


def from_folder(modules: Sequence[str] | None) -> None:
    """Modules of users are found in the folder in which the command was given, before all others.

    Without any, no file there takes the place of a library's module.

    Args:
        modules: that their code may come from; None: any.
    """
    folder = os.getcwd()
    if (modules is None or modules) and folder not in sys.path:
        sys.path.insert(0, folder)

"""Plugins: the modules that users' operators may come from, as HOLDFAST_PLUGINS names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

VARIABLE = "HOLDFAST_PLUGINS"


def modules_of(plugins: str) -> list[str]:
    """The module names in a comma-separated list."""
    return [name.strip() for name in plugins.split(",") if name.strip()]


def from_folder(modules: Sequence[str] | None) -> None:
    """Adds the working directory to the front of sys.path, so that modules of users there are found first.

    An empty list adds nothing, so that no file there can replace a library's module.

    Args:
        modules: modules that users' code may come from; None for any.
    """
    folder = os.getcwd()
    if (modules is None or modules) and folder not in sys.path:
        sys.path.insert(0, folder)

"""Plugins: the modules that users' operators may come from, as HOLDFAST_PLUGINS names them."""

from __future__ import annotations

VARIABLE = "HOLDFAST_PLUGINS"


def modules_of(plugins: str) -> list[str]:
    """plugins: names, comma separated."""
    return [name.strip() for name in plugins.split(",") if name.strip()]

"""Messages of benches while they measure: to stderr, since their results go to stdout."""

from __future__ import annotations

from holdfast.services.cli.terminal import console


def say(text: str) -> None:
    """Prints the text unchanged: brackets in it are no markup."""
    console(stderr=True).print(text, markup=False)

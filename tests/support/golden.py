"""Stories of state machines as text files that a person reads: a step a line, beside the tests in `stories/`."""

from __future__ import annotations

from pathlib import Path


def golden(test: str, name: str) -> list[str]:
    """Lines of the story. A changed rule shows as a difference of the file, which is then mended by hand.

    test: `__file__` of the test.
    """
    return Path(test).with_name("stories").joinpath(f"{name}.story").read_text(encoding="utf-8").splitlines()

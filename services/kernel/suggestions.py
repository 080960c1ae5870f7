"""The hint that names the nearest of the words that would have been right.

Source: JOBS "Every error of a job file is reported at once, each with its path and a hint".
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 12


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """A hint, empty if nothing is near."""
    by_lower = {option.lower(): option for option in options}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean '{by_lower[near[0]]}'?" if near else ""


def suggest(word: str, options: Iterable[str]) -> str:
    """A hint in any case: the nearest option, or all of them where they are few."""
    known = list(options)
    if hint := did_you_mean(word, known):
        return hint
    return f"known: {', '.join(known)}" if 0 < len(known) <= _SHOWN else ""

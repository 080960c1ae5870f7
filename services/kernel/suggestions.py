"""Hints that name the nearest known word.

Source: JOBS "Every error of a job file is reported at once, each with its path and a hint".
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 12


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint for the nearest option; empty if none is near."""
    by_lower = {option.lower(): option for option in options}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean '{by_lower[near[0]]}'?" if near else ""


def misspelt(word: str, options: Iterable[str]) -> str:
    """The hint of did_you_mean, but only for a word with few wrong letters, for names of functions."""
    by_lower = {option.lower(): option for option in options}
    near = get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)
    found = [one for one in near if _edits(word.lower(), one) <= max(1, len(word) // 3)]
    return f"did you mean '{by_lower[found[0]]}'?" if found else ""


def _edits(one: str, other: str) -> int:
    """The number of edits between two words: a letter added, removed, changed, or swapped with the next one."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            least = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


def suggest(word: str, options: Iterable[str]) -> str:
    """The hint for the nearest option, or a list of all options if they are few."""
    known = list(options)
    if hint := did_you_mean(word, known):
        return hint
    return f"known: {', '.join(known)}" if 0 < len(known) <= _SHOWN else ""

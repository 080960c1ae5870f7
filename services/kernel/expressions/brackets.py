"""Positions of brackets and commas in a text, outside quoted texts."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")


def blanked(text: str) -> str:
    """The text with underscores in place of quoted texts, so that positions stay the same."""
    return _QUOTED.sub(lambda found: "'" + "_" * (len(found[0]) - 2) + "'", text)


def closing(blank: str, begin: int) -> int:
    """The position after the closing bracket; beyond the end if there is none."""
    depth = 1
    for place in range(begin, len(blank)):
        depth += (blank[place] in "([") - (blank[place] in ")]")
        if depth == 0:
            return place + 1
    return len(blank) + 1


def split(text: str, blank: str, begin: int, end: int) -> list[str]:
    """The texts between the commas of a part of the text."""
    found, depth = list[str](), 0
    for place in range(begin, min(end, len(blank))):
        if blank[place] == "," and depth == 0:
            found.append(text[begin:place].strip())
            begin = place + 1
        depth += (blank[place] in "([") - (blank[place] in ")]")
    return [one for one in (*found, text[begin:end].strip()) if one]

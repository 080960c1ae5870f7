"""Numbers with their nouns, for messages: `1 unit`, `2 units`, `1,000 queries`."""

from __future__ import annotations


def plural(count: int, noun: str, several: str = "") -> str:
    """The number, with thousands parted by commas, and the noun in its form.

    Args:
        several: the noun where it is not one; else `noun` with an s.
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"

"""Words and numbers in messages: `1 unit`, `2 units`, `1,000 queries`; `an int`, `a float`; `34560000`."""

from __future__ import annotations


def plural(count: int, noun: str, several: str = "") -> str:
    """The number, with commas between thousands, and the noun in its singular or plural form.

    Args:
        several: the plural of the noun; default: the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def with_article(word: str) -> str:
    """The word with its article: `an int`, `a list<int>`."""
    return f"{'an' if word[:1].lower() in tuple('aeio') else 'a'} {word}"


def digits(number: float) -> str:
    """The number without an exponent, with six decimals at most."""
    text = f"{number:.6f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

"""The refusal of an expression that a stream cannot have, and of a pattern that is no regular expression."""

from __future__ import annotations

import re

import polars as pl


class Refused(ValueError):
    """An error for an expression that a stream cannot have; the text has the replacement."""


def check_pattern(pattern: str) -> None:
    """Checks a literal pattern when a job is checked, instead of at each row.

    Raises:
        Refused: the pattern is invalid; the message has the mistake.
    """
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.PolarsError as error:
        raise Refused(f"has '{pattern}', which is no regular expression: {what_is_wrong(str(error))}") from None


def what_is_wrong(error: str) -> str:
    """The message of polars about an invalid regular expression; the first line of another error."""
    found = _WRONG_REGEX.search(error)
    return found[1] if found else error.splitlines()[0]


_WRONG_REGEX = re.compile(r"regex parse error:.*?^error: ([^\n]*)", re.DOTALL | re.MULTILINE)

"""The refusal of an expression that a stream cannot have, and of a pattern that is no regular expression."""

from __future__ import annotations

import re

import polars as pl


class Refused(ValueError):
    """An error for an expression that a stream cannot have; the text has the replacement."""


def check_pattern(pattern: str) -> None:
    """A pattern that is written out is looked at when a job is checked, and not at each row.

    Raises:
        Refused: with what is wrong with it.
    """
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.PolarsError as error:
        raise Refused(f"has '{pattern}', which is no regular expression: {what_is_wrong(str(error))}") from None


def what_is_wrong(error: str) -> str:
    """The message of polars about a text that is no regular expression; of another error its first line."""
    found = _WRONG_REGEX.search(error)
    return found[1] if found else error.splitlines()[0]


_WRONG_REGEX = re.compile(r"regex parse error:.*?^error: ([^\n]*)", re.DOTALL | re.MULTILINE)

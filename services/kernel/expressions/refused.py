"""The refusal of an expression that a stream cannot have, and of a pattern that is no regular expression."""

from __future__ import annotations

import polars as pl


class Refused(ValueError):
    """An expression that a stream cannot have; the text says what to use instead."""


def check_pattern(pattern: str) -> None:
    """A pattern that is written out is looked at when a job is checked, and not at each row.

    Raises:
        Refused: with what is wrong with it.
    """
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.PolarsError as error:
        raise Refused(f"has '{pattern}', which is no regular expression: {str(error).splitlines()[-1]}") from None

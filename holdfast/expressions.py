"""Aggregates of a job in Python: each function gives the text that a job file has in the same place.

`sum("distance")` is the text `sum(distance)`. The argument is a column or an expression of the job file. Aggregates
that have no function here are written as text: `aggregate={"n": "count()"}`.
"""

from __future__ import annotations


def count(expression: str = "") -> str:
    """Number of rows, or of values of an expression that are not null."""
    return f"count({expression})"


def sum(expression: str) -> str:
    """The sum of the values."""
    return f"sum({expression})"


def mean(expression: str) -> str:
    """The mean of the values."""
    return f"mean({expression})"


def min(expression: str) -> str:
    """The smallest value."""
    return f"min({expression})"


def max(expression: str) -> str:
    """The largest value."""
    return f"max({expression})"


def first(expression: str) -> str:
    """The value with the smallest event time."""
    return f"first({expression})"


def last(expression: str) -> str:
    """The value with the largest event time."""
    return f"last({expression})"


def count_distinct(expression: str) -> str:
    """Number of different values."""
    return f"count_distinct({expression})"


def quantile(expression: str, share: float) -> str:
    """The value below which a share of the values lies. share: from 0 to 1."""
    return f"quantile({expression}, {share})"

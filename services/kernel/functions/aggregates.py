"""Aggregates: functions of many rows, for `aggregate` operators."""

from __future__ import annotations

from services.kernel.functions.function import Function

EXAMPLE_ROWS = {"v": [1, 2, 2, None], "w": [0.5, 1.5, 2.0, 4.0], "s": ["a", "b", "b", "c"]}
"""What the examples aggregate, by column, in the order of event time."""

AGGREGATES = (
    Function("count([value: any]) -> int", "How many rows there are; with a value, in how many it is not null.",
             "count()", 4),
    Function("sum(value: number) -> number", "The sum; of floats the exact sum, rounded once.", "sum(v)", 5),
    Function("mean(value: number) -> float", "The exact sum by the count.", "mean(w)", 2.0),
    Function("min(value: any) -> any", "The smallest value.", "min(v)", 1),
    Function("max(value: any) -> any", "The largest value.", "max(v)", 2),
    Function("first(value: any) -> any", "The value of the earliest event time that has one.", "first(s)", "a"),
    Function("last(value: any) -> any", "The value of the newest event time that has one.", "last(v)", 2),
    Function("count_distinct(value: any) -> int",
             "How many values there are: exact up to 10,000 of a key, to 1 % beyond.", "count_distinct(v)", 2),
    Function("quantile(value: number, share: digit) -> float",
             "The value at a share of the rows, from 0 to 1: exact up to 10,000 values of a key, to 1 % beyond.",
             "quantile(w, 0.5)", 1.75),
)  # fmt: skip

"""Aggregates: functions of many rows, for `aggregate` operators."""

from __future__ import annotations

from holdfast.services.kernel.functions.function import Function

EXAMPLE_ROWS = {"v": [1, 2, 2, None], "w": [0.5, 1.5, 2.0, 4.0], "s": ["a", "b", "b", "c"]}
"""Rows that the examples aggregate, by column, in the order of event time."""

AGGREGATES = (
    Function("count([value: any]) -> int",
             "How many rows there are; with a value, in how many it is not null; count(DISTINCT value) is "
             "count_distinct.",
             "count()", 4),
    Function("count_if(condition: bool) -> int", "For how many rows a condition is true.", "count_if(v = 2)", 2,
             ("countif",)),
    Function("sum(value: number) -> number", "The sum; of floats the exact sum, rounded once.", "sum(v)", 5),
    Function("mean(value: number) -> float", "The exact sum by the count.", "mean(w)", 2.0, ("avg", "average")),
    Function("min(value: any) -> any", "The smallest value; of bools, whether all are true.", "min(v)", 1,
             ("bool_and", "every", "logical_and")),
    Function("max(value: any) -> any", "The largest value; of bools, whether one is true.", "max(v)", 2,
             ("bool_or", "some", "logical_or")),
    Function("first(value: any) -> any", "The value of the earliest event time that has one.", "first(s)", "a",
             ("any_value", "first_value", "earliest", "earliest_by_offset")),
    Function("last(value: any) -> any", "The value of the newest event time that has one.", "last(v)", 2,
             ("last_value", "latest", "latest_by_offset")),
    Function("max_by(value: any, by: any) -> any",
             "The value where another one is the largest; of several the smallest value.", "max_by(s, v)", "b",
             ("arg_max", "argmax")),
    Function("min_by(value: any, by: any) -> any",
             "The value where another one is the smallest; of several the smallest value.", "min_by(s, w)", "a",
             ("arg_min", "argmin")),
    Function("var_samp(value: number) -> float",
             "The variance of a sample, from exact sums, rounded once; null of fewer than two values.",
             "var_samp(v)", 0.3333333333333333, ("variance", "var")),
    Function("var_pop(value: number) -> float", "The variance of all values, from exact sums.", "var_pop(w)",
             1.625),
    Function("stddev_samp(value: number) -> float", "The standard deviation of a sample, the root of var_samp.",
             "stddev_samp(v)", 0.5773502691896257, ("stddev", "stdev", "std")),
    Function("stddev_pop(value: number) -> float", "The standard deviation of all values, the root of var_pop.",
             "stddev_pop(v)", 0.4714045207910317),
    Function("count_distinct(value: any) -> int",
             "How many values there are: exact up to 10,000 of a key, to 1 % beyond.", "count_distinct(v)", 2,
             ("approx_count_distinct",)),
    Function("quantile(value: number, share: digit) -> float",
             "The value at a share of the rows, from 0 to 1: exact up to 10,000 values of a key, to 1 % beyond.",
             "quantile(w, 0.5)", 1.75, ("approx_percentile", "approx_quantile", "percentile_approx", "percentile")),
    Function("median(value: number) -> float", "The value in the middle, quantile(value, 0.5).", "median(w)", 1.75),
    Function("collect_list(value: any) -> list",
             "The values by event time, those of one time by size: the first 1,000 of a key.", "collect_list(v)",
             [1, 2, 2], ("array_agg", "list")),
    Function("collect_set(value: any) -> list", "The distinct values by size: the 1,000 smallest of a key.",
             "collect_set(s)", ["a", "b", "c"]),
    Function("string_agg(value: text, ['between']) -> text",
             "The values of collect_list with a text between them, a comma if none is said.", "string_agg(s, '-')",
             "a-b-b-c", ("listagg", "group_concat")),
)  # fmt: skip

"""Functions of values of any type, of lists and of structs."""

from __future__ import annotations

from holdfast.services.kernel.functions.function import Function

_LIST = "STRING_TO_ARRAY('c,a,a', ',')"
VALUES = (
    Function("CAST(value AS type) -> type",
             "A value as another type: BIGINT, DOUBLE, BOOLEAN, VARCHAR, DECIMAL(p, s), TIMESTAMP or DATE; null where "
             "it does not fit.",
             "CAST('12' AS BIGINT)", 12, ("TRY_CAST",)),
    Function("CASE WHEN condition THEN value [ELSE value] END -> any", "The value of the first condition that is true.",
             "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END", "b"),
    Function("COALESCE(value: any...) -> any", "The first value that is not null.",
             "COALESCE(TRY_CAST('x' AS BIGINT), 7)", 7),
    Function("IFNULL(value: any, other: any) -> any", "The value, or the other one where it is null.",
             "IFNULL(TRY_CAST('x' AS BIGINT), 7)", 7, ("NVL",)),
    Function("NULLIF(value: any, other: any) -> any", "The value; null where it equals the other.", "NULLIF(3, 3)",
             None),
    Function("IF(condition: bool, one: any, other: any) -> any", "One value where the condition holds, else the other.",
             "IF(1 > 2, 'a', 'b')", "b", ("IIF",)),
    Function("GREATEST(value: any...) -> any", "The largest of the values that are not null.", "GREATEST(1, 3, 2)", 3),
    Function("LEAST(value: any...) -> any", "The smallest of the values that are not null.", "LEAST(1, 3, 2)", 1),
    Function("LIST_VALUE(value: any...) -> list", "A list of values of one type; also `ARRAY[a, b]`.",
             "LIST_VALUE(1, 2)", [1, 2], ("MAKE_ARRAY",)),
    Function("NAMED_STRUCT('name', value: any...) -> struct", "A struct of names and values, in turn.",
             "NAMED_STRUCT('a', 1, 'b', 'x')", {"a": 1, "b": "x"}),
    Function("ARRAY_LENGTH(list: list) -> int", "The number of items.", f"ARRAY_LENGTH({_LIST})", 3,
             ("CARDINALITY", "LIST_LENGTH")),
    Function("ARRAY_GET(list: list, n: int) -> any", "The n-th item, from 1, or from the end, -1; also `list[1]`.",
             f"ARRAY_GET({_LIST}, 1)", "c", ("ELEMENT_AT", "LIST_EXTRACT")),
    Function("ARRAY_CONTAINS(list: list, item: any) -> bool", "Whether an item is in the list.",
             f"ARRAY_CONTAINS({_LIST}, 'a')", True, ("LIST_CONTAINS",)),
    Function("ARRAY_SUM(list: list) -> number", "The sum of the items.", "ARRAY_SUM(LIST_VALUE(1, 2))", 3,
             ("LIST_SUM",)),
    Function("ARRAY_MEAN(list: list) -> float", "The mean of the items.", "ARRAY_MEAN(LIST_VALUE(1, 2))", 1.5,
             ("LIST_AVG",)),
    Function("ARRAY_LOWER(list: list) -> any", "The smallest item.", f"ARRAY_LOWER({_LIST})", "a", ("LIST_MIN",)),
    Function("ARRAY_UPPER(list: list) -> any", "The largest item.", f"ARRAY_UPPER({_LIST})", "c", ("LIST_MAX",)),
    Function("ARRAY_REVERSE(list: list) -> list", "The items from the last to the first.", f"ARRAY_REVERSE({_LIST})",
             ["a", "a", "c"], ("LIST_REVERSE",)),
    Function("ARRAY_UNIQUE(list: list) -> list", "Each item once, in the order in which they come first.",
             f"ARRAY_UNIQUE({_LIST})", ["c", "a"], ("LIST_DISTINCT",)),
    Function("ARRAY_TO_STRING(list: list, between: text) -> text", "The items with a text between them.",
             f"ARRAY_TO_STRING({_LIST}, '+')", "c+a+a"),
    Function("LIST_SORT(list: list) -> list", "The items in ascending order, nulls last.", f"LIST_SORT({_LIST})",
             ["a", "a", "c"], ("ARRAY_SORT",)),
    Function("LIST_CONCAT(one: list, other: list) -> list", "The items of both lists.",
             "LIST_CONCAT(LIST_VALUE(1), LIST_VALUE(2))", [1, 2], ("ARRAY_CONCAT",)),
    Function("LIST_SLICE(list: list, from: int, to: int) -> list", "The items from a place to another, from 1.",
             f"LIST_SLICE({_LIST}, 1, 2)", ["c", "a"], ("ARRAY_SLICE",)),
)  # fmt: skip

"""Functions and predicates of SQL that polars' parser misreads, and their intended meanings.

A pair has polars' tree for the SQL on the left, and an expression with the value that SQL defines for it. Parts are
columns whose names give their types, `_flag`, `_text` and so on (operands.py). rules.py finds the tree of polars in
that of an expression.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from holdfast.services.kernel.expressions.sql_text import FALSE, TRUE

Node = Any
"""A node of the tree: a text, or a dictionary with its kind as the only key."""
_TEXT, _PART, _COUNT, _FROM = (pl.col(name) for name in ("_text", "_part", "_count", "_from"))
_FLAG, _MOMENT = pl.col("_flag"), pl.col("_moment")
_LENGTH = _TEXT.str.len_chars().cast(pl.Int64)
_AT = _TEXT.str.find(_PART, literal=True)
_BEFORE = _TEXT.cast(pl.Binary).bin.slice(0, _AT).cast(pl.String)
_POSITION = (
    pl.when(_AT.is_not_null())
    .then(_BEFORE.str.len_chars().cast(pl.Int64) + 1)
    .when(_TEXT.is_not_null() & _PART.is_not_null())
    .then(0)
)
_LEFT = pl.when(_COUNT >= 0).then(_COUNT).otherwise((_LENGTH + _COUNT).clip(0))
_RIGHT = pl.when(_COUNT >= 0).then((_LENGTH - _COUNT).clip(0)).when(_COUNT >= -_LENGTH).then(-_COUNT).otherwise(_LENGTH)
_BEGIN = pl.when(_FROM > 1).then(_FROM - 1).otherwise(0)
_MANY = _COUNT.clip(0)
_SPAN = pl.when(_FROM > 0).then(_MANY).otherwise((_MANY + _FROM.clip(-(2**62)) - 1).clip(0))
_LIST, _ITEM = pl.col("_list"), pl.col("_item")
_AT_PLACE = pl.when(_COUNT > 0).then(_COUNT - 1).when(_COUNT < 0).then(_COUNT.clip(-(2**62)))
MOST_LETTERS = 1_000_000
"""The limit of a text made by LPAD and RPAD."""
_EPOCH = _MOMENT.cast(pl.Datetime("us")).to_physical().cast(pl.Float64)


def tree(expression: pl.Expr) -> Node:
    return json.loads(expression.meta.serialize(format="json"))


def _sql(text: str) -> Node:
    """The tree of an SQL text, in which 77 matches any number."""
    return filled_literal(tree(pl.sql_expr(text)))


def filled_literal(node: Node) -> Node:
    if node == {"Literal": {"Dyn": {"Int": 77}}}:
        return {"Column": "_count"}
    if isinstance(node, dict):
        return {name: filled_literal(value) for name, value in node.items()}
    return [filled_literal(one) for one in node] if isinstance(node, list) else node


def _known(value: pl.Expr, *parts: pl.Expr) -> pl.Expr:
    return pl.when(pl.all_horizontal(part.is_not_null() for part in parts)).then(value)


ITEM = tree(pl.sql_expr("_list[_item]"))
"""The item of a list, or the value of a map, at a place that is no literal number."""
NEAR = tree(pl.col("_index").clip(-(2**62)))
"""The position in a list, never the least 64-bit integer: at it polars panics in a batch of one row."""
PADDED = tree(pl.when(_COUNT <= MOST_LETTERS).then(_COUNT.clip(0)))
"""The length for LPAD and RPAD: polars raises below 0, and a record could request more than the memory holds."""


def _part_at(index: pl.Expr) -> pl.Expr:
    return _TEXT.str.split(_PART).list.get(index, null_on_oob=True).fill_null("")


MEANINGS: list[tuple[Node, Node]] = [
    (_sql("NOT _flag"), tree(~_FLAG)),  # polars casts anything to true or false
    (tree(pl.sql_expr(TRUE)), tree(pl.lit(True))),
    (tree(pl.sql_expr(FALSE)), tree(pl.lit(False))),
    (_sql("_flag IS TRUE"), tree(_FLAG.eq_missing(True))),
    (_sql("_flag IS FALSE"), tree(_FLAG.eq_missing(False))),
    # by way of nanoseconds, of which 64 bits hold the years 1677 to 2262
    (_sql("EXTRACT(EPOCH FROM _moment)"), tree(_EPOCH / (pl.lit(1e6) + 0.0 * _EPOCH))),
    # a pattern, and bytes
    (_sql("STRPOS(_text, _part)"), tree(_POSITION)),
    # for a null length, polars gives the whole text; for RIGHT('ab', 3), the last letter
    (_sql("LEFT(_text, _count)"), tree(_known(_TEXT.str.slice(0, _LEFT), _COUNT))),
    (_sql("RIGHT(_text, _count)"), tree(_known(_TEXT.str.slice(_RIGHT), _COUNT))),
    (_sql("RIGHT(_text, 77)"), tree(_known(_TEXT.str.slice(_RIGHT), _COUNT))),
    (_sql("SUBSTR(_text, _from)"), tree(_known(_TEXT.str.slice(_BEGIN), _FROM))),
    # polars makes an empty text, the whole text or false of a null separator, null letters or a null item
    (_sql("SPLIT_PART(_text, _part, _count)"), tree(_known(_part_at(_AT_PLACE), _TEXT, _PART, _COUNT))),
    (
        _sql("SPLIT_PART(_text, _part, 78)"),
        tree(_known(_part_at(_COUNT), _TEXT, _PART)),
    ),  # the tree has 77, as it counts from 0
    (_sql("LTRIM(_text)"), tree(_TEXT.str.strip_chars_start())),
    (_sql("RTRIM(_text)"), tree(_TEXT.str.strip_chars_end())),
    (_sql("LTRIM(_text, _part)"), tree(_known(_TEXT.str.strip_chars_start(_PART), _PART))),
    (_sql("RTRIM(_text, _part)"), tree(_known(_TEXT.str.strip_chars_end(_PART), _PART))),
    (
        _sql("ARRAY_CONTAINS(_list, _item)"),
        tree(pl.when(_ITEM.is_not_null() | (_LIST.list.len() == 0)).then(_LIST.list.contains(_ITEM))),
    ),
    (_sql("SUBSTR(_text, _from, _count)"), tree(_known(_TEXT.str.slice(_BEGIN, _SPAN), _FROM, _COUNT))),
]


def meant(node: Node) -> tuple[Node, dict[str, Node]] | None:
    """The template of the node's intended meaning, and its parts; None if polars reads the node correctly."""
    for found, meaning in MEANINGS:
        if (parts := matched(found, node)) is not None:
            return meaning, parts
    return None


def matched(template: Node, node: Node) -> dict[str, Node] | None:
    """The nodes in place of the template's columns; None if the node does not match."""
    if isinstance(template, dict):
        if isinstance(name := template.get("Column"), str):
            return {name: node}
        if not isinstance(node, dict) or node.keys() != template.keys():
            return None
        pairs = [(template[name], node[name]) for name in template]
    elif isinstance(template, list):
        if not isinstance(node, list) or len(node) != len(template):
            return None
        pairs = list(zip(template, node, strict=True))
    else:
        return {} if template == node and type(template) is type(node) else None
    found: dict[str, Node] = {}
    for one, other in pairs:
        parts = matched(one, other)
        if parts is None or any(found.get(name, part) != part for name, part in parts.items()):
            return None
        found |= parts
    return found

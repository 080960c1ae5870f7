"""Ranks rows: ROW_NUMBER() with a bound, ORDER BY with LIMIT, and DISTINCT, which keeps the first of equal rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from holdfast.services.kernel.operators.top import RANK
from holdfast.services.kernel.operators.windows import END
from holdfast.services.planning.sql.grouping import Rewrite
from holdfast.services.planning.sql.items import Item
from holdfast.services.planning.sql.relation import Relation, quoted
from holdfast.services.planning.sql.statement import Statement

if TYPE_CHECKING:
    from holdfast.services.planning.sql.planner import Planner


def row_number(node: exp.Expr | None) -> exp.Window | None:
    """The expression if it is ROW_NUMBER() OVER (...), otherwise None."""
    return node if isinstance(node, exp.Window) and isinstance(node.this, exp.RowNumber) else None


def bound_of(condition: exp.Expr, name: str | None) -> tuple[exp.Expr, int] | None:
    """The expression bounded by `<= k`, `< k` or `= 1`, and k; None if the condition is no such bound. `name` restricts
    it to a column of this name."""
    flipped = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}
    kind, left, right = type(condition), condition.args.get("this"), condition.args.get("expression")
    if isinstance(left, exp.Literal) and kind in flipped:
        kind, left, right = flipped[kind], right, left
    if kind not in (exp.LTE, exp.LT, exp.EQ) or not isinstance(right, exp.Literal) or not right.name.isdecimal():
        return None
    if name is not None and not (isinstance(left, exp.Column) and left.name == name):
        return None
    k = int(right.name) - (kind is exp.LT)
    return (left, k) if left is not None and k >= 1 and (kind is not exp.EQ or k == 1) else None


def ranked(planner: Planner, relation: Relation, rewrite: Rewrite, window: exp.Window, k: int) -> Relation:
    """The rows with a rank up to k, with a column `rank`."""
    statement, at = planner.statement, planner.statement.at(window)
    order = window.args.get("order")
    if order is None:
        raise statement.refused(window, "ROW_NUMBER() has no order", "OVER (PARTITION BY ... ORDER BY value DESC)")
    if window.args.get("spec") is not None:
        raise statement.refused(window, "ROW_NUMBER() with ROWS or RANGE is not there", "leave the frame out")
    nodes = list(window.args.get("partition_by") or ())
    texts = [rewrite(one) for one in nodes]
    by = _by(statement, order, "ROW_NUMBER()")
    relation, columns = _as_columns(planner, relation, [*texts, rewrite(by.this)], [*nodes, by.this], at)
    *key, value = columns
    if relation.stream.windowed and END not in key:
        hint = "PARTITION BY window_start, window_end; or rank rows that are no windows"
        raise statement.refused(window, "ranks rows of several windows together", hint)
    return _top(planner, relation, by, value, k, [one for one in key if one not in _bounds(relation)], at)


def _bounds(relation: Relation) -> tuple[str, ...]:
    return ("window_start", "window_end") if relation.stream.windowed else ()


def limited(planner: Planner, relation: Relation, node: exp.Expr, chosen: Sequence[Item] = ()) -> Relation:
    """ORDER BY value DESC LIMIT k: the largest rows so far, with a column `rank`.

    Args:
        chosen: columns of the SELECT that has the order; none of a union or a subquery.
    """
    statement, limit, order = planner.statement, node.args.get("limit"), node.args.get("order")
    if node.args.get("offset") is not None:
        raise statement.refused(node.args["offset"], "OFFSET is not there", "rank the rows: ROW_NUMBER() ... AS rank")
    if limit is None and order is None:
        return relation
    at = statement.word(r"\bORDER BY" if order is not None else r"\bLIMIT\b", order or limit)
    if limit is None:
        raise statement.refused(at, "a stream has no end at which it could be sorted", "ORDER BY value DESC LIMIT 10")
    number = limit.args.get("expression")
    if order is None or not isinstance(number, exp.Literal) or not number.name.isdecimal():
        raise statement.refused(at, "LIMIT needs an order and a whole number", "ORDER BY value DESC LIMIT 10")
    if relation.stream.windowed:
        hint = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY value DESC) <= 10 ranks each window"
        raise statement.refused(at, "sorts rows of several windows together", hint)
    by = _by(statement, order, "LIMIT")
    name = relation.scopes[""].get(_ordered_by(by.this, chosen, len(node.args.get("joins") or ())))
    if not isinstance(name, str):
        raise statement.refused(by.this, "is no column of SELECT", "give it a name there, and order by that")
    return _top(planner, relation, by, name, int(number.name), [], at)


def _ordered_by(node: exp.Expr, chosen: Sequence[Item], joins: int) -> str:
    """The name of the column of SELECT that ORDER BY names, by its own name or by its expression; empty if none."""
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return node.name
    same = [one.name for one in chosen if one.node == node]
    stars = [one.name for one in chosen if one.node is None and not joins]
    if not same and isinstance(node, exp.Column) and node.name in stars:
        return node.name
    return same[0] if same else ""


def _by(statement: Statement, order: exp.Expr, of: str) -> exp.Ordered:
    first, *others = order.expressions
    if others:
        hint = "rows that are equal in it are ranked by their other columns, the smallest first"
        raise statement.refused(others[0], f"{of} orders by one value", hint)
    assert isinstance(first, exp.Ordered)
    if first.args.get("nulls_first"):
        raise statement.refused(first, "NULLS FIRST is not there", "leave it out: null is last in both orders")
    return first


def _top(
    planner: Planner, relation: Relation, by: exp.Ordered, value: str, k: int, key: Sequence[str], at: int
) -> Relation:
    asked: dict[str, Any] = {"k": k, "by": value, **({} if by.args.get("desc") else {"order": "ascending"})}
    raw = {"top": asked, **({"key": list(key)} if key else {}), "input": relation.producer}
    # beside other columns of SELECT; where a rank is an item of it, the item names it
    names = {alias: {**some, RANK: RANK} if alias == "" else some for alias, some in relation.scopes.items()}
    return planner.chain.add("top", raw, [relation], at, {"top.by": planner.statement.at(by)}, names)


def _as_columns(
    planner: Planner, relation: Relation, texts: Sequence[str], nodes: Sequence[exp.Expr], at: int
) -> tuple[Relation, list[str]]:
    """The relation with each expression as a column, and the names of these columns. A select computes expressions that
    are not columns."""
    found, items, places = list[str](), list[str](), dict[str, int]()
    for text, node in zip(texts, nodes, strict=True):
        column = text.strip('"')
        if column not in relation.fields:
            column = f"by{len(items) + 1}"
            while column in relation.fields:
                column += "_"
            items.append(f"{text} AS {column}")
            places[f"select[{len(items)}]"] = planner.statement.at(node)
        found.append(column)
    if items:
        raw = {"select": ["*", *items], "input": relation.producer}
        relation = planner.chain.add("ranked", raw, [relation], at, places, relation.scopes)
    return relation, found


def distinct(planner: Planner, relation: Relation, at: int) -> Relation:
    """The rows without duplicates: the first row of equal ones."""
    if relation.changing or relation.stream.changes:
        message = f"rows of {relation.producer} replace each other, and DISTINCT takes each as one more"
        raise planner.statement.refused(at, message, "leave DISTINCT out: rows of one key are one row")
    columns, count = list(relation.fields), "occurrences"
    while count in columns:
        count += "_"
    counting = {"aggregate": {count: "count()"}, "key": columns, "emit": "each", "input": relation.producer}
    counted = planner.chain.add("distinct", counting, [relation], at)
    first = planner.chain.add("first", {"filter": f"{count} = 1", "input": counted.producer}, [counted], at)
    items = [quoted(name, bare=True) for name in columns]
    return planner.chain.add("rows", {"select": items, "input": first.producer}, [first], at, scopes=relation.scopes)


def item_of(items: Sequence[Item]) -> Item | None:
    """The item that is ROW_NUMBER() OVER (...); None if there is none."""
    return next((one for one in items if row_number(one.node) is not None), None)

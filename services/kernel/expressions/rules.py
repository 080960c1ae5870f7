"""What a stream asks of polars' SQL beyond SQL: one value a row, the same at each replay, and none that surprises.

An expression is rewritten as the tree that polars serialises:
- a divisor of zero becomes null (polars: infinity, NaN or an error), and a quotient is that of its row alone;
- a cast or a parse that fails gives null (polars: an error that would stop the job at one odd row);
- integers have 64 bits, floats too (polars: EXTRACT(hour FROM t) * 100 is -4 at eleven at night, in 8 bits);
- an integer of more than 64 bits becomes null (polars: another number, its lowest 64 bits);
- 1.5 is a float, unless the expression reads a decimal (polars: a decimal, so a * 1.5 were one);
- times are UTC, and compare with texts, t > '2013-01-01'.
Refused is what looks at other rows, also to guess a format. Source: JOBS "Expressions", PROTOCOL 4.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from services.kernel.codecs import timestamps

Node = Any
"""A node of the tree: text, or a dictionary whose one key is its kind."""
_OTHER_ROWS = ("Agg", "Over", "Rolling", "Explode", "Window")
_DIVISIONS = ("Div", "Rem", "IntDiv", "RustDivide", "TrueDivide", "FloorDivide", "Modulus")
_REMAINDERS = ("Rem", "Modulus")
_GROWING = ("Plus", "Add", "Minus", "Sub", "Multiply", "Mul")
"""Of integers of 64 bits they may give one that has more; of 128 bits they never do."""
_COMPARISONS = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "EqValidity", "NotEqValidity")
_TOTAL, _TOTAL_OF_SQL = ("Abs", "Boolean", "Coalesce"), {"Binary", "IsIn"}
"""Functions that give a value for everything."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = pl.Datetime("us", "UTC")


class Refused(ValueError):
    """An expression that a stream cannot have; the text says what to use instead."""


def adapted(expression: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """The expression under the rules above. Raises Refused, or a PolarsError for types that do not fit."""
    tree = json.loads(expression.meta.serialize(format="json"))
    rules = _Rules(schema, tree)
    return _expression(rules.usual(rules.node(tree)))


class _Rules:
    def __init__(self, schema: Mapping[str, pl.DataType], tree: Node) -> None:
        self._rows = pl.DataFrame(schema=dict(schema)).lazy()
        self._exact = any(isinstance(schema.get(name), pl.Decimal) for name in _columns(tree))

    def node(self, node: Node) -> Node:
        """Rewrites from the leaves up."""
        if node == "Len":
            raise Refused("counts rows: use an aggregate operator")
        if isinstance(node, list):
            return [self.node(item) for item in node]
        if not isinstance(node, dict):
            return node
        if any(kind in _OTHER_ROWS for kind in node):
            raise Refused("looks at other rows: use an aggregate or top operator")
        if "Literal" in node:
            return self._literal(node)
        node = {name: self.node(value) for name, value in node.items()}
        for kind, rule in _RULES.items():
            if kind in node:
                return rule(self, node)
        return node

    def type_of(self, node: Node) -> pl.DataType:
        return self._rows.select(_value=_expression(node)).collect_schema()["_value"]

    # -- rules by kind of node ----------------------------------------------------------------------------------------

    def _literal(self, node: Node) -> Node:
        value = node["Literal"].get("Scalar") if isinstance(node["Literal"], dict) else None
        if not isinstance(value, dict):
            return node
        if "Decimal" in value and not self._exact:
            digits, _, scale = value["Decimal"]
            return _tree(pl.lit(float(Decimal(digits).scaleb(-scale))))
        if "Datetime" in value and value["Datetime"][1:] == ["Microseconds", None]:
            return _moment(value["Datetime"][0])
        return node

    def _cast(self, node: Node) -> Node:
        cast = node["Cast"] | {"options": "NonStrict"}
        if cast["dtype"] == {"Literal": "Int32"}:
            cast["dtype"] = {"Literal": "Int64"}
        return self.usual({"Cast": cast})

    def _function(self, node: Node) -> Node:
        function = node["Function"]["function"]
        binary = function.get("Sql") if isinstance(function, dict) else None
        if isinstance(binary, dict) and "Binary" in binary:
            left, right = node["Function"]["input"]
            rebuilt = lambda one, two: {"Function": node["Function"] | {"input": [one, two]}}  # noqa: E731
            return self.usual(self._operation(binary["Binary"], left, right, rebuilt))
        if isinstance(function, dict) and "Strptime" in (function.get("StringExpr") or ()):
            node = _lenient_parse(node)
        elif function == "Abs" and self.type_of(node).is_integer():
            node = {"Function": node["Function"] | {"input": [_cast(node["Function"]["input"][0], pl.Int128())]}}
        elif isinstance(function, dict) and "Pow" in function and self.type_of(node).is_integer():
            base, exponent = node["Function"]["input"]
            node = _filled(_POWER, _base=base, _exponent=exponent)
        return self.usual(node)

    def _binary(self, node: Node) -> Node:
        binary = node["BinaryExpr"]
        rebuilt = lambda one, two: {"BinaryExpr": binary | {"left": one, "right": two}}  # noqa: E731
        return self.usual(self._operation(binary["op"], binary["left"], binary["right"], rebuilt))

    def _operation(self, operation: str, left: Node, right: Node, rebuilt: Callable[[Node, Node], Node]) -> Node:
        if operation in _COMPARISONS:
            return rebuilt(self._comparable(left, right), self._comparable(right, left))
        if operation in _GROWING and self.type_of(rebuilt(left, right)).is_integer():
            left, right = (_cast(one, pl.Int128()) for one in (left, right))
        if operation not in _DIVISIONS:
            return rebuilt(left, right)
        divided = rebuilt(left, _filled(_NULL_IF_ZERO, _divisor=right, _dividend=left))
        kind = self.type_of(divided)
        if kind.is_integer() and operation not in _REMAINDERS:
            return rebuilt(left, _filled(_NULL_IF_NO_QUOTIENT, _divisor=right, _dividend=left))
        if not kind.is_float():
            return divided
        return rebuilt(left, _filled(_NULL_IF_ZERO_IN_EVERY_ROW, _divisor=right, _dividend=left))

    def _comparable(self, node: Node, other: Node) -> Node:
        """A text beside a time is a time."""
        text = _text(node)
        if text is None or _text(other) is not None:
            return node
        kind = self.type_of(other)
        if not isinstance(kind, pl.Datetime) and kind != pl.Date:
            return node
        us = timestamps.parse([text])[0]
        if us is None:
            raise Refused(f"compares a time with '{text}', which is none")
        return _moment(us)

    def usual(self, node: Node) -> Node:
        """Integers and floats of 64 bits, and times in UTC."""
        kind = self.type_of(node)
        if kind.is_integer() and kind != pl.Int64:
            return _cast(node, pl.Int64())
        if kind.is_float() and kind != pl.Float64:
            return _cast(node, pl.Float64())
        if isinstance(kind, pl.Datetime) and kind != _TIMESTAMP:
            return _cast(node, _TIMESTAMP)
        return node


_RULES: dict[str, Callable[[_Rules, Node], Node]] = {
    "Cast": _Rules._cast,
    "Function": _Rules._function,
    "BinaryExpr": _Rules._binary,
}


def _columns(node: Node) -> list[str]:
    if isinstance(node, dict):
        found = [node["Column"]] if isinstance(node.get("Column"), str) else []
        return found + [name for value in node.values() for name in _columns(value)]
    return [name for item in node for name in _columns(item)] if isinstance(node, list) else []


def may_fail(expression: pl.Expr) -> bool:
    """Whether the values of a row may make it raise. Under the rules above only functions do, such as a pattern that is
    no regular expression; of a function that is not known to give a value for everything it is assumed.
    """
    return any(not _total(function) for function in _functions(_tree(expression)))


def _functions(node: Node) -> Iterator[Node]:
    if isinstance(node, dict):
        if "Function" in node:
            yield node["Function"]["function"]
        yield from (one for value in node.values() for one in _functions(value))
    elif isinstance(node, list):
        yield from (one for item in node for one in _functions(item))


def _total(function: Node) -> bool:
    if isinstance(function, str):
        return function in _TOTAL
    sql = function.get("Sql") or {}
    return any(name in _TOTAL for name in function) or (isinstance(sql, dict) and bool(sql.keys() & _TOTAL_OF_SQL))


def _expression(tree: Node) -> pl.Expr:
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _tree(expression: pl.Expr) -> Node:
    return json.loads(expression.meta.serialize(format="json"))


def _moment(us: int) -> Node:
    return _tree(pl.lit(_EPOCH + timedelta(microseconds=us), dtype=_TIMESTAMP))


def _text(node: Node) -> str | None:
    literal = node.get("Literal") if isinstance(node, dict) else None
    scalar = literal.get("Scalar") if isinstance(literal, dict) else None
    return scalar.get("String") if isinstance(scalar, dict) else None


def _cast(node: Node, kind: pl.DataType) -> Node:
    return _filled(_tree(pl.col("_value").cast(kind, strict=False)), _value=node)


_NULL_IF_ZERO = _tree(pl.sql_expr("NULLIF(_divisor, 0)"))
_LEAST = (pl.col("_divisor") == -1) & (pl.col("_dividend") == -(2**63))
_NULL_IF_NO_QUOTIENT = _tree(pl.when((pl.col("_divisor") != 0) & ~_LEAST).then(pl.col("_divisor")))
"""By -1 the least integer has a quotient of more than 64 bits, at which polars raises."""
_FINITE = pl.col("_dividend").cast(pl.Float64).is_finite().cast(pl.Float64)
_NULL_IF_ZERO_IN_EVERY_ROW = _tree(pl.sql_expr("NULLIF(_divisor, 0)") + 0.0 * _FINITE)
"""A column as long as the dividend. By a single value polars multiplies with the reciprocal, except in batches of one
row: 7.3 / 60 would depend on the batch, in the last digit (measured: one quotient in ten)."""


_ABOUT = pl.col("_base").cast(pl.Float64).pow(pl.col("_exponent").cast(pl.Float64))
_EXPONENT = pl.when(pl.col("_exponent") < 64).then(pl.col("_exponent")).otherwise(64 + pl.col("_exponent") % 2)
"""As good as the exponent where the power is small: then the base is 0, 1 or -1. Polars raises beyond 32 bits."""
_SMALL_ENOUGH = pl.when((pl.col("_exponent") >= 0) & (_ABOUT.abs() < 1e19)).then(_EXPONENT)
_POWER = _tree(pl.col("_base").cast(pl.Int128).pow(_SMALL_ENOUGH))
"""Of integers: exact while it has 64 bits, or a few more; null below 0, where polars raises, and far beyond."""


def _filled(template: Node, **parts: Node) -> Node:
    """The template with these parts in place of the columns of their names."""
    if isinstance(template, dict):
        if (name := template.get("Column")) in parts:
            return parts[name]
        return {name: _filled(value, **parts) for name, value in template.items()}
    return [_filled(item, **parts) for item in template] if isinstance(template, list) else template


def _lenient_parse(node: Node) -> Node:
    kind, options = node["Function"]["function"]["StringExpr"]["Strptime"]
    if options["format"] is None:
        raise Refused("guesses a format from other rows: use STRPTIME(text, '%Y-%m-%d')")
    function = {"StringExpr": {"Strptime": [kind, options | {"strict": False}]}}
    return {"Function": node["Function"] | {"function": function}}

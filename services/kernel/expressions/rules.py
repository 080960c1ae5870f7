"""Rules for expressions of a stream beyond SQL: one value a row, the same at each replay, and none that surprises.

An expression is rewritten as the tree that polars serialises:
- a divisor of zero becomes null (polars: infinity, NaN or an error), and a quotient is that of its row alone;
- a cast or a parse that fails gives null (polars: an error that would stop the job at one odd row); texts become times,
  dates and truth values, and what does not fit a decimal is rounded as ROUND does, half away from zero (casts.py);
- a float that is computed and is not finite is null: outside its domain a function has no value. NaN is none, too;
- a time or date outside the years 1 to 9999 is null;
- IS TRUE and its kin are never null (polars: a comparison), POSITION counts letters and takes no pattern;
- integers have 64 bits, floats too (polars: EXTRACT(hour FROM t) * 100 is -4 at eleven at night, in 8 bits);
- an integer of more than 64 bits becomes null (polars: another number, its lowest 64 bits);
- 1.5 is a float, unless the expression reads a decimal (polars: a decimal, so a * 1.5 were one);
- times are UTC, and compare with texts, t > '2013-01-01'.
Expressions that look at other rows are refused, also to guess a format. Source: JOBS "Expressions", PROTOCOL 4.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs import timestamps
from holdfast.services.kernel.codecs.maps import is_map, value_of
from holdfast.services.kernel.codecs.plain_values import inside
from holdfast.services.kernel.expressions import casts, decimals, operands, own_functions
from holdfast.services.kernel.expressions.meanings import ITEM, NEAR, PADDED, Node, matched, meant, tree
from holdfast.services.kernel.expressions.operands import ANY_WORDS, Words
from holdfast.services.kernel.expressions.own_values import Hashing
from holdfast.services.kernel.expressions.refused import Refused, check_pattern
from holdfast.services.kernel.expressions.sample_rows import no_rows
from holdfast.services.kernel.expressions.type_words import in_words, item_of
from holdfast.services.kernel.functions.catalogue import BY_NAME

_OTHER_ROWS = ("Agg", "Over", "Rolling", "Explode", "Window")
_DIVISIONS = ("Div", "Rem", "IntDiv", "RustDivide", "TrueDivide", "FloorDivide", "Modulus")
_REMAINDERS = ("Rem", "Modulus")
_GROWING = ("Plus", "Add", "Minus", "Sub", "Multiply", "Mul")
"""Operators that may give more than 64 bits for 64-bit integers, but never for 128-bit ones."""
_MINUS = ("Minus", "Sub")
_PLUS = ("Plus", "Add")
_SUMS = (*_PLUS, *_MINUS)
_KEEPING = ("Abs", "Log", "Floor", "Ceil", {"Pow": "Sqrt"})
"""Functions whose result is never finite for an argument that is not."""
_CHOOSING = ("Coalesce", "FillNull", "MaxHorizontal", "MinHorizontal")
"""Functions that return one of their arguments."""
_TOTAL, _TOTAL_OF_SQL = ("Abs", "Boolean", "Coalesce"), {"Binary", "IsIn"}
"""Functions that give a value for every argument."""
OF_NUMBERS = {"Ceil", "Exp", "Floor", "Log", "MaxHorizontal", "MinHorizontal", "Pow", "Round", "Sign"}
"""Functions that give a value, or null, for every number."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000


def adapted(expression: pl.Expr, schema: Mapping[str, pl.DataType], *, words: Words = ANY_WORDS) -> pl.Expr:
    """The expression under the rules above. Raises Refused, or a PolarsError for types that do not fit.

    words: the operators in the text, which the tree does not distinguish.
    """
    root = tree(expression)
    if "Alias" in root:  # polars reads `n > 1_000` as the condition n > 1 under the name _000
        raise Refused(_ends_in(root["Alias"][1]))
    rules = _Rules(schema, root, words)
    return rules.whole(rules.typed(_checked(rules.node(root))))


def _ends_in(name: str) -> str:
    if name.startswith("_") and name.strip("_").isdigit():
        return f"has a number with '_' in it: write the digits alone, without '{name[0]}'"
    return f"ends in '{name}', which belongs to nothing: an operator is missing before it, or it is a name to leave out"


class _Rules:
    def __init__(self, schema: Mapping[str, pl.DataType], root: Node, words: Words) -> None:
        self._words = words
        self._rows = no_rows(schema)
        self._exact = any(isinstance(schema.get(name), pl.Decimal) for name in _columns(root))
        self._hashed: dict[str, pl.Expr] = {}

    def node(self, node: Node) -> Node:
        """Rewrites a node from the leaves up."""
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
        if isinstance(node.get("Column"), str):
            return _Unchecked(node, _NULL_IF_NAN) if self.type_of(node).is_float() else node
        if (call := own_functions.call_of(node)) is not None:
            return self._own(call)
        if (at := matched(ITEM, node)) is not None and is_map(self.type_of(self.node(at["_list"]))):
            return self._own(own_functions.Call(BY_NAME["MAP_GET"], [at["_list"], at["_item"]]))
        if (found := meant(node)) is not None:
            template, parts = found
            given = {name: _checked(self.node(part)) for name, part in parts.items()}
            operands.check_parts({name: self.type_of(one) for name, one in given.items()})
            return self.usual(_filled(template, **given))
        if _is_concatenation(node):
            sides = {side: _checked(self.node(node["BinaryExpr"][side])) for side in ("left", "right")}
            return {"BinaryExpr": node["BinaryExpr"] | sides}
        if "Eval" in node:  # Eval works on elements, and the schema describes columns
            items = _checked(self.node(node["Eval"]["expr"]))
            operands.check_list(self.type_of(items))
            return {"Eval": node["Eval"] | {"expr": items}}
        if _is_exact(node):
            return self._cast(node)
        node = {name: self.node(value) for name, value in node.items()}
        for kind, rule in _RULES.items():
            if isinstance(node.get(kind), dict):
                return rule(self, node)
        return _checked_parts(node) if _is_expression(node) else node

    def type_of(self, node: Node) -> pl.DataType:
        return self._rows.select(_value=_expression(node)).collect_schema()["_value"]

    def whole(self, node: Node) -> pl.Expr:
        """The expression of a tree, with its hashes computed by Python, which have no tree."""
        used = [name for name in dict.fromkeys(_columns(node)) if name in self._hashed]
        if not used:
            return _expression(node)
        outer = _expression(_filled(node, **{name: {"Field": [name]} for name in used}))
        given = pl.struct(self._hashed[name].alias(name) for name in used)
        return given.struct.with_fields(outer.alias("_value")).struct.field("_value")

    # -- rules by kind of node ----------------------------------------------------------------------------------------

    def _literal(self, node: Node) -> Node:
        literal = node["Literal"] if isinstance(node["Literal"], dict) else {}
        if literal.get("Dyn", {}) == {"Float": None}:
            raise Refused("holds a number that is larger than any float")
        value = literal.get("Scalar")
        if not isinstance(value, dict):
            return node
        if "Decimal" in value:
            digits, _, scale = value["Decimal"]
            if scale == 0:  # an integer of more digits than polars takes for one, such as the least of 64 bits
                return tree(pl.lit(int(digits), dtype=pl.Int64 if -(2**63) <= int(digits) < 2**63 else pl.Int128))
            return node if self._exact else tree(pl.lit(float(Decimal(digits).scaleb(-scale))))
        if "Datetime" in value and value["Datetime"][1:] == ["Microseconds", None]:
            return _moment(value["Datetime"][0])
        return node

    def _own(self, call: own_functions.Call) -> Node:
        given = [_checked(self.node(one)) for one in call.arguments]
        made = own_functions.built(call, [self.type_of(one) for one in given])
        if isinstance(made, Hashing):
            return self._hash(made, given[0])
        return self.usual(_filled(tree(made), **{f"_{index}": one for index, one in enumerate(given)}))

    def _hash(self, hashing: Hashing, text: Node) -> Node:
        """A column that `whole` later replaces by the hash."""
        name = f"_hash_{len(self._hashed)}"
        text = _cast(text, pl.String())
        self._hashed[name] = self.whole(text).map_batches(hashing.of, return_dtype=hashing.kind, is_elementwise=True)
        self._rows = self._rows.with_columns(pl.lit(None, dtype=hashing.kind).alias(name))
        return {"Column": name}

    def _cast(self, node: Node) -> Node:
        cast = node["Cast"] | {"options": "NonStrict"}
        if cast["dtype"] == {"Literal": "Int32"}:
            cast["dtype"] = {"Literal": "Int64"}
        given, wanted = self.type_of(cast["expr"]), self.type_of({"Cast": cast})
        if not (wanted.is_numeric() or given.is_integer()):
            cast["expr"] = _checked(cast["expr"])
        casts.check(given, wanted, _text(cast["expr"]) if node["Cast"]["options"] == "Strict" else None)
        template = casts.cast(given, wanted)
        return self.usual({"Cast": cast} if template is None else _filled(tree(template), _value=cast["expr"]))

    def _function(self, node: Node) -> Node:
        function = node["Function"]["function"]
        if isinstance(function, dict) and "Range" in function:
            raise Refused("makes a list as long as a record says, which no memory holds")
        kinds = [self.type_of(one) for one in node["Function"]["input"]]
        operands.check_function(function, kinds)
        if function not in _KEEPING:
            node = _checked_parts(node)
        binary = function.get("Sql") if isinstance(function, dict) else None
        if function in _CHOOSING:
            self._check_families(node["Function"]["input"])
            given = [self._as_decimal(one, self.type_of(node)) for one in node["Function"]["input"]]
            return self.typed({"Function": node["Function"] | {"input": given}})
        if function in ("Floor", "Ceil") and isinstance(kind := self.type_of(node["Function"]["input"][0]), pl.Decimal):
            return self._guarded(node, decimals.stepping(function, kind))
        if function == {"StringExpr": "Slice"} and node["Function"]["input"][2] != _NO_LENGTH:
            text, begin, length = node["Function"]["input"]
            return _filled(_CUT, _text=text, _from=begin, _count=length)
        if binary == "ToFloat" and self.type_of(node["Function"]["input"][0]) == pl.Float64:
            return node["Function"]["input"][0]
        if isinstance(binary, dict) and "Binary" in binary:
            left, right = node["Function"]["input"]
            if binary["Binary"] == "IntDiv":
                operands.check_operator("IntDiv", kinds[0], kinds[1], self._words)
            if binary["Binary"] == "IntDiv" and any(self.type_of(one).is_float() for one in (left, right)):
                return _filled(_WHOLE_QUOTIENT, _dividend=left, _divisor=right)
            rebuilt = lambda one, two: {"Function": node["Function"] | {"input": [one, two]}}  # noqa: E731
            return self.usual(self._operation(binary["Binary"], left, right, rebuilt))
        if isinstance(binary, dict) and "IsIn" in binary:
            return self._is_in(node)
        if isinstance(binary, dict) and "Round" in binary:
            digits, kind = binary["Round"]["decimals"], self.type_of(node["Function"]["input"][0])
            if isinstance(kind, pl.Decimal):
                return self._guarded(node, decimals.rounding(digits, kind))
            if self.type_of(node).is_float():
                rounded = pl.col("_value").round(digits, mode="half_away_from_zero")
                return self.usual(_filled(tree(rounded), _value=node["Function"]["input"][0]))
        if isinstance(function, dict) and isinstance(function.get("TemporalExpr"), dict) and kinds[0] == pl.Date:
            node = {"Function": node["Function"] | {"input": [_cast(node["Function"]["input"][0], pl.Datetime("us"))]}}
        elif (
            isinstance(function, dict) and isinstance(function.get("ListExpr"), dict) and "Get" in function["ListExpr"]
        ):
            items, index = node["Function"]["input"]
            near = _filled(NEAR, _index=index) if _columns(index) else index
            node = {"Function": node["Function"] | {"input": [items, near]}}
        elif isinstance(function, dict) and isinstance(function.get("StringExpr"), dict):
            node = self._text_function(node)
        elif function == "Abs" and self.type_of(node).is_integer():
            node = {"Function": node["Function"] | {"input": [_cast(node["Function"]["input"][0], pl.Int128())]}}
        elif isinstance(function, dict) and "Pow" in function and self.type_of(node).is_integer():
            base, exponent = node["Function"]["input"]
            node = _filled(_POWER, _base=base, _exponent=exponent)
        return self.usual(node)

    @staticmethod
    def _guarded(node: Node, fits: pl.Expr | None) -> Node:
        """A function of one decimal; null if the result has too many digits."""
        if fits is None:
            return node
        (value,) = node["Function"]["input"]
        return {"Function": node["Function"] | {"input": [_filled(tree(fits), _value=value)]}}

    def _as_decimal(self, node: Node, kind: pl.DataType) -> Node:
        """A value in the common type of several values, if it is a decimal: null for too many digits."""
        return _cast(node, kind) if isinstance(kind, pl.Decimal) and self.type_of(node) != kind else node

    def _choice(self, node: Node) -> Node:
        node, kind = _checked_parts(node), self.type_of(node)
        self._check_families([node["Ternary"][part] for part in ("truthy", "falsy")])
        chosen = {part: self._as_decimal(node["Ternary"][part], kind) for part in ("truthy", "falsy")}
        return {"Ternary": node["Ternary"] | chosen}

    def _text_function(self, node: Node) -> Node:
        """A function of texts: a failing parse gives null; a literal pattern is checked now, and not at each row."""
        ((name, options),) = node["Function"]["function"]["StringExpr"].items()
        value, *more = node["Function"]["input"]
        if name in ("PadStart", "PadEnd"):
            return {"Function": node["Function"] | {"input": [value, _filled(PADDED, _count=more[0])]}}
        if name == "ConcatHorizontal":
            input = [self._as_text(one) for one in node["Function"]["input"]]
            return {"Function": node["Function"] | {"input": input}}
        if name == "Strptime":
            kind, how = options
            if self.type_of(value) != pl.String and how["format"] is not None:
                raise pl.exceptions.InvalidOperationError("a text is parsed")
            if how["format"] is None and self.type_of(value).is_temporal():  # DATE(t)
                return _cast(value, pl.Date() if kind == {"Literal": "Date"} else casts.TIMESTAMP)
            if how["format"] is None:
                raise Refused("guesses a format from other rows: use CAST, or STRPTIME(text, '%Y-%m-%d')")
            function = {"StringExpr": {name: [kind, how | {"strict": False}]}}
            return {"Function": node["Function"] | {"function": function}}
        if name == "Contains" and not options["literal"] and (pattern := _text(more[0])) is not None:
            check_pattern(pattern)
        return node

    def _as_text(self, node: Node) -> Node:
        """A time as the text that CAST gives; other values unchanged."""
        template = casts.cast(self.type_of(node), pl.String())
        return node if template is None else _filled(tree(template), _value=node)

    def _binary(self, node: Node) -> Node:
        binary = node["BinaryExpr"]
        rebuilt = lambda one, two: {"BinaryExpr": binary | {"left": one, "right": two}}  # noqa: E731
        return self.usual(self._operation(binary["op"], binary["left"], binary["right"], rebuilt))

    def _operation(self, operation: str, left: Node, right: Node, rebuilt: Callable[[Node, Node], Node]) -> Node:
        if operation in operands.COMPARISONS:
            left, right = self._comparable(left, right), self._comparable(right, left)
            if operation not in operands.NULL_SAFE and pl.Null in (self.type_of(left), self.type_of(right)):
                raise Refused("compares with NULL, which is true for no row: write IS NULL or IS NOT NULL")
        operands.check_operator(operation, self.type_of(left), self.type_of(right), self._words)
        if operation in _GROWING:
            kind = self.type_of(rebuilt(left, right))
            if kind.is_integer():
                left, right = (_cast(one, pl.Int128()) for one in (left, right))
            elif operation in _MINUS and kind.is_float() and left == _ZERO:
                return _filled(_NEGATED, _value=right)  # polars gives -0.0 for 0 - 0.0, but 0.0 in a batch of one row
            elif kind.is_float() and (found := _beside_zero(operation, left, right)) is not None:
                return found
            return rebuilt(self._fitting(operation, left, right, kind), right)
        if operation not in _DIVISIONS:
            return rebuilt(_checked(left), _checked(right))
        if not self._is_column(right):
            right = _checked(right)
        kind = self.type_of(rebuilt(left, right))
        if kind.is_float():  # by zero it is not finite, and so null
            divisor = right if _columns(right) else _filled(_IN_EVERY_ROW, _divisor=right, _dividend=left)
            return rebuilt(left, divisor)
        template = _NULL_IF_NO_QUOTIENT if kind.is_integer() and operation not in _REMAINDERS else _NULL_IF_ZERO
        divisor = _filled(template, _divisor=right, _dividend=left)
        return rebuilt(self._fitting(operation, left, right, kind), divisor)

    def _check_families(self, nodes: Sequence[Node]) -> None:
        """Refuses a choice between a text, a time and a number; beside whole numbers a truth value counts as one."""
        families = dict[str, pl.DataType]()
        kinds = [self.type_of(node) for node in nodes]
        exact = not any(kind.is_float() or isinstance(kind, pl.Decimal) for kind in kinds)
        for kind in kinds:
            if kind != pl.Null:
                families.setdefault("number" if kind == pl.Boolean and exact else _family(kind), kind)
        if len(families) > 1:
            said = " and ".join(map(in_words, families.values()))
            plain = not any(kind.is_nested() for kind in families.values())
            hint = "CAST(... AS VARCHAR) for what is no text" if "text" in families else "CAST for one of them"
            hint = hint if plain else "values of one type"
            raise Refused(f"chooses between {said}, which are no values of one type: write {hint}")

    def _fitting(self, operation: str, left: Node, right: Node, result: pl.DataType) -> Node:
        """The left operand; for decimals, null if the result would have too many digits."""
        if not isinstance(result, pl.Decimal):
            return left
        fits = decimals.fitting(operation, self.type_of(left), self.type_of(right), result)
        return left if fits is None else _filled(tree(fits), _left=left, _right=right)

    @staticmethod
    def _is_column(node: Node) -> bool:
        return isinstance(node, dict) and "Column" in node

    def _comparable(self, node: Node, other: Node) -> Node:
        """Both sides for a comparison: a text beside a time becomes a time."""
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
        """The result in the types of a stream: floats are marked for a check, times outside the years 1 to 9999 are
        null.
        """
        node = self.typed(node)
        kind = self.type_of(node)
        if kind.is_float():
            return _Unchecked(node, _NULL_IF_NOT_FINITE)
        if isinstance(kind, pl.Datetime) or kind == pl.Date:
            return _filled(_WITHIN_CALENDAR[pl.Date if kind == pl.Date else pl.Datetime], _value=node)
        return node

    def typed(self, node: Node) -> Node:
        """The node with integers and floats of 64 bits, and times in UTC."""
        kind = self.type_of(node)
        if kind.is_integer() and kind != pl.Int64:
            return _cast(node, pl.Int64())
        if kind.is_float() and kind != pl.Float64:
            return _cast(node, pl.Float64())
        if isinstance(kind, pl.Datetime) and kind != casts.TIMESTAMP:
            return _cast(node, casts.TIMESTAMP)
        return node

    def _is_in(self, node: Node) -> Node:
        """The list of IN in the type of the value to find; beside a time its texts become times."""
        value, among = node["Function"]["input"]
        kind = self.type_of(value)
        if not (isinstance(among.get("Literal"), dict) and "Series" in among["Literal"]):
            return self.usual(node)
        listed = pl.select(_expression(among)).to_series()[0]
        if listed.dtype == pl.String and (isinstance(kind, pl.Datetime) or kind == pl.Date):
            listed = self._moments(listed, kind)
        elif isinstance(listed.dtype, pl.Decimal) and (kind.is_integer() or kind.is_float()):
            listed = _numbers(listed, kind)
        if not operands.comparable(kind, listed.dtype) and pl.Null not in (kind, listed.dtype):
            raise Refused(f"looks for {in_words(kind)} among values of which each is {in_words(listed.dtype)}")
        given = tree(pl.lit(pl.Series([listed])))
        return {"Function": node["Function"] | {"input": [value, given]}}

    def _moments(self, texts: pl.Series, kind: pl.DataType) -> pl.Series:
        us = timestamps.parse(texts.to_list())
        if us.null_count() > texts.null_count():
            wrong = texts.filter(us.is_null() & texts.is_not_null())[0]
            raise Refused(f"compares a time with '{wrong}', which is none")
        if kind == pl.Date:  # a time of day is in no date
            return us.filter((us % _DAY_US == 0) | us.is_null()).cast(pl.Datetime("us")).cast(pl.Date)
        return us.cast(casts.TIMESTAMP)


def _beside_zero(operation: str, left: Node, right: Node) -> Node | None:
    """The sum of a column and a single zero, or the difference; None for other operands. Polars leaves the zero out,
    except in batches of one row: the sign of -0.0 + 0 would depend on the batch.
    """
    if operation in _PLUS and _is_zero(right) and _columns(left):
        return _filled(_PLUS_ZERO, _value=left)
    if not _is_zero(left) or not _columns(right):
        return None
    return _filled(_PLUS_ZERO if operation in _PLUS else _FROM_ZERO, _value=right) if operation in _SUMS else None


def _is_zero(node: Node) -> bool:
    return not _columns(node) and pl.select(_expression(node)).item() == 0


class _Unchecked(dict[str, Any]):
    """A float that may be NaN, or infinite if it was computed.

    Sums and quotients pass these values on and are checked once; any other use first replaces them by null.

    check: the template of the check.
    """

    def __init__(self, node: Node, check: Node) -> None:
        super().__init__(node)
        self.check = check


def _checked(node: Node) -> Node:
    return _filled(node.check, _value=dict(node)) if isinstance(node, _Unchecked) else node


def _checked_parts(node: Node) -> Node:
    """The node with checked parts, for a rule that uses the values of its parts."""
    if isinstance(node, list):
        return [_checked_part(one) for one in node]
    return {name: _checked_part(value) for name, value in node.items()}


def _checked_part(part: Node) -> Node:
    if isinstance(part, _Unchecked):
        return _checked(part)
    return _checked_parts(part) if isinstance(part, list | dict) and not _is_expression(part) else part


def _is_expression(node: Node) -> bool:
    """True for a kind of expression: its name begins with a capital, names of parts do not."""
    return isinstance(node, dict) and any(name[:1].isupper() for name in node)


_RULES: dict[str, Callable[[_Rules, Node], Node]] = {
    "Cast": _Rules._cast,
    "Function": _Rules._function,
    "BinaryExpr": _Rules._binary,
    "Ternary": _Rules._choice,
}


def _family(kind: pl.DataType) -> str:
    if kind.is_numeric():
        return "number"
    if is_map(kind):
        return f"map of {_family(value_of(kind))}"
    if isinstance(kind, pl.List):
        return f"list of {_family(item_of(kind))}"
    return "text" if kind == pl.String else "time" if isinstance(kind, pl.Datetime) or kind == pl.Date else str(kind)


def _columns(node: Node) -> list[str]:
    if isinstance(node, dict):
        found = [node["Column"]] if isinstance(node.get("Column"), str) else []
        return found + [name for value in node.values() for name in _columns(value)]
    return [name for item in node for name in _columns(item)] if isinstance(node, list) else []


def may_fail(expression: pl.Expr, total: Container[str] = ()) -> bool:
    """True if the expression may raise for some values of a row. Under the rules above only functions may, for example
    for an invalid regular expression; a function counts as one that may raise unless it is known to give a value for
    every argument.

    total: names of functions that give a value for all arguments here.
    """
    return any(not _total(one) and _name(one) not in total for one in _functions(tree(expression)))


def _name(function: Node) -> str:
    """The polars name of a function: its family, or its own name in the family `Sql`."""
    if isinstance(function, dict):
        ((family, own),) = function.items()
        return _name(own) if family == "Sql" else family
    return str(function)


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


def _moment(us: int) -> Node:
    return tree(pl.lit(_EPOCH + timedelta(microseconds=us), dtype=casts.TIMESTAMP))


def _text(node: Node) -> str | None:
    literal = node.get("Literal") if isinstance(node, dict) else None
    scalar = literal.get("Scalar") if isinstance(literal, dict) else None
    return scalar.get("String") if isinstance(scalar, dict) else None


def _cast(node: Node, kind: pl.DataType) -> Node:
    return _filled(tree(pl.col("_value").cast(kind, strict=False)), _value=node)


_NULL_IF_ZERO = tree(pl.sql_expr("NULLIF(_divisor, 0)"))
_LEAST = (pl.col("_divisor") == -1) & (pl.col("_dividend") == -(2**63))
_NULL_IF_NO_QUOTIENT = tree(pl.when((pl.col("_divisor") != 0) & ~_LEAST).then(pl.col("_divisor")))
"""The quotient of the least integer and -1 has more than 64 bits, at which polars raises."""
_IN_EVERY_ROW = tree(pl.col("_divisor") + 0.0 * pl.col("_dividend").cast(pl.Float64))
"""A column as long as the dividend. For a single divisor polars multiplies by the reciprocal, except in batches of one
row: 7.3 / 60 would depend on the batch, in the last digit (measured: one quotient in ten).
"""


_ABOUT = pl.col("_base").cast(pl.Float64).pow(pl.col("_exponent").cast(pl.Float64))
_EXPONENT = pl.when(pl.col("_exponent") < 64).then(pl.col("_exponent")).otherwise(64 + pl.col("_exponent") % 2)
"""The exponent, from 64 on replaced by 64 or 65 with its parity: then only a base of 0, 1 or -1 has a small power.
Polars raises beyond 32 bits.
"""
_SMALL_ENOUGH = pl.when((pl.col("_exponent") >= 0) & (_ABOUT.abs() < 1e19)).then(_EXPONENT)
_POWER = tree(pl.col("_base").cast(pl.Int128).pow(_SMALL_ENOUGH))
"""The power of integers: exact up to 64 bits, or a few more; null for a negative exponent, where polars raises, and far
beyond.
"""


def _is_exact(node: Node) -> bool:
    """True for a literal such as CAST(1.025 AS DECIMAL(10,2)), which has exactly the written digits."""
    cast = node.get("Cast")
    if not isinstance(cast, dict) or "Decimal" not in (cast["dtype"].get("Literal") or ()):
        return False
    scalar = (cast["expr"].get("Literal") or {}).get("Scalar") if isinstance(cast["expr"], dict) else None
    return isinstance(scalar, dict) and "Decimal" in scalar


def _is_concatenation(node: Node) -> bool:
    """True for the tree of `a || b`."""
    binary = node.get("BinaryExpr") or {}
    sides = [binary.get(side) for side in ("left", "right")]
    texts = [isinstance(one, dict) and one.get("Cast", {}).get("dtype") == {"Literal": "String"} for one in sides]
    return binary.get("op") == "Plus" and all(texts)


_NO_LENGTH = {"Literal": {"Scalar": {"Null": "Null"}}}
_CUT = tree(
    pl.when(pl.col("_count").is_not_null()).then(pl.col("_text").str.slice(pl.col("_from"), pl.col("_count").clip(0)))
)
"""The slice of a text, null for a null length: polars returns the whole text."""
_WHOLE_QUOTIENT = tree((pl.col("_dividend") / pl.col("_divisor")).cast(pl.Int64, strict=False))
_ZERO = {"Literal": {"Dyn": {"Int": 0}}}
_FLOAT = pl.col("_value").cast(pl.Float64)
_PLUS_ZERO = tree(pl.when(pl.col("_value") == 0).then(0.0).otherwise(_FLOAT))
_FROM_ZERO = tree(pl.when(pl.col("_value") == 0).then(0.0).otherwise(-_FLOAT))
_NEGATED = tree(-pl.col("_value"))
_NULL_IF_NAN = tree(pl.when(pl.col("_value").is_not_nan()).then(pl.col("_value")))
_NULL_IF_NOT_FINITE = tree(pl.when(pl.col("_value").is_finite()).then(pl.col("_value")))
_WITHIN_CALENDAR = {kind: tree(inside(pl.col("_value"), kind())) for kind in (pl.Date, pl.Datetime)}


def _filled(template: Node, **parts: Node) -> Node:
    """The template with these parts in place of its columns of these names."""
    if isinstance(template, dict):
        if (name := template.get("Column")) in parts:
            return parts[name]
        return {name: _filled(value, **parts) for name, value in template.items()}
    return [_filled(item, **parts) for item in template] if isinstance(template, list) else template


def _numbers(listed: pl.Series, kind: pl.DataType) -> pl.Series:
    """The decimals of a list in the type of the value to find; decimals that equal no 64-bit integer are left out."""
    if kind.is_float():
        return listed.cast(pl.Float64)
    whole = [None if one is None else int(one) for one in listed.to_list() if one is None or one == int(one)]
    return pl.Series([one for one in whole if one is None or -(2**63) <= one < 2**63], dtype=pl.Int64)

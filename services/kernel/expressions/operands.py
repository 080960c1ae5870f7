"""Types of operands and arguments that polars accepts although SQL does not, or at which polars panics.

`SQRT(text)` would read the text as a number, `flag + 1` count a truth value, `list + 1` add to each item, and ATAN2 of
a struct ends the process. The types of each node of the parsed tree are checked before polars receives them. Source:
JOBS "Expressions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars.exceptions import InvalidOperationError

from holdfast.services.kernel.codecs.maps import is_map, value_of
from holdfast.services.kernel.expressions.type_words import item_of

Node = Any
Takes = Callable[[pl.DataType], bool]

BITS = ("And", "Or", "Xor")
_LOGICAL = ("And", "Or", "LogicalAnd", "LogicalOr")
_SUMS, _DIFFERENCES = ("Plus", "Add"), ("Minus", "Sub")
_PRODUCTS = ("Multiply", "Mul", "Div", "Rem", "IntDiv", "RustDivide", "TrueDivide", "FloorDivide", "Modulus")
NULL_SAFE = ("EqValidity", "NotEqValidity")
"""IS NOT DISTINCT FROM and IS DISTINCT FROM, which treat null as a value."""
COMPARISONS = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", *NULL_SAFE)


def _is_number(kind: pl.DataType) -> bool:
    return kind.is_numeric()


def _is_integer(kind: pl.DataType) -> bool:
    return kind.is_integer()


def _is_text(kind: pl.DataType) -> bool:
    return kind == pl.String


def _is_time(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.Datetime) or kind == pl.Date


def _is_list(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and not is_map(kind)


def _has_items(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List)


def _is_list_of_numbers(kind: pl.DataType) -> bool:
    return isinstance(kind, pl.List) and (item_of(kind).is_numeric() or item_of(kind) == pl.Null)


def _is_plain(kind: pl.DataType) -> bool:
    return not kind.is_nested() and kind != pl.Binary


_NUMBERS = ("Abs", "Atan2", "Ceil", "Exp", "Floor", "Log", "Log1p", "Pow", "Sign", "Trigonometry", "Truncate")
_TAKES: Mapping[str, tuple[Takes, ...]] = {
    **{name: (_is_number,) for name in _NUMBERS},
    "ToFloat": (_is_number,),
    "Round": (_is_number,),
    "Bitwise": (_is_integer,),
    "StringExpr": (_is_text,),
    "Strptime": (lambda kind: kind == pl.String or _is_time(kind),),  # DATE(t)
    "ConcatHorizontal": (_is_plain,),
    "Slice": (_is_text, _is_integer),
    "Head": (_is_text, _is_integer),
    "Tail": (_is_text, _is_integer),
    "PadStart": (_is_text, _is_integer),
    "PadEnd": (_is_text, _is_integer),
    "TemporalExpr": (_is_time, lambda kind: True),
    "ListExpr": (_is_list, lambda kind: True),
    "Get": (_is_list, _is_integer),
    "Length": (_has_items,),
    "Sum": (_is_list_of_numbers,),
    "Mean": (_is_list_of_numbers,),
}
"""The argument types of each polars function or family; the last one also holds for further arguments."""


_PARTS: Mapping[str, Takes] = {
    "_text": _is_text, "_part": _is_text, "_count": _is_integer, "_from": _is_integer, "_moment": _is_time,
    "_flag": lambda kind: kind == pl.Boolean, "_list": _is_list, "_item": lambda kind: True,
}  # fmt: skip


def check_parts(kinds: Mapping[str, pl.DataType]) -> None:
    """Checks that each part of a meaning (meanings.py) has the type that its name gives. Raises
    InvalidOperationError.
    """
    if not all(kind == pl.Null or _PARTS[name](kind) for name, kind in kinds.items()):
        raise InvalidOperationError("types of arguments that the function does not take")


def check_list(kind: pl.DataType) -> None:
    """Checks that a value whose items are computed is a list. Raises InvalidOperationError for a map."""
    if is_map(kind):
        raise InvalidOperationError("types of arguments that the function does not take")


def check_function(function: Node, kinds: Sequence[pl.DataType]) -> None:
    """Checks the types of a function's arguments. Raises InvalidOperationError."""
    takes: tuple[Takes, ...] = ()
    for name in _names(function):
        takes = _TAKES.get(name, takes)
    if takes and not all(
        kind == pl.Null or takes[min(place, len(takes) - 1)](kind) for place, kind in enumerate(kinds)
    ):
        raise InvalidOperationError("types of arguments that the function does not take")


def _names(function: Node) -> list[str]:
    """The names of a function, from its family to itself."""
    if isinstance(function, dict) and len(function) == 1:
        ((name, own),) = function.items()
        return [name, *_names(own)]
    return [function] if isinstance(function, str) else []


class Words(NamedTuple):
    """The operators in the text of an expression, because `a & b` has the tree of `a AND b`.

    bits: True if it has an operator on bits.
    logic: True if it has AND or OR.
    """

    bits: bool = True
    logic: bool = True


ANY_WORDS = Words()


def check_operator(operation: str, left: pl.DataType, right: pl.DataType, words: Words) -> None:
    """Checks that the types of the operands fit together. Raises InvalidOperationError."""
    if pl.Null in (left, right) or _go_together(operation, left, right, words):
        return
    raise InvalidOperationError("types of operands that do not go together")


def _go_together(operation: str, left: pl.DataType, right: pl.DataType, words: Words) -> bool:
    if operation in COMPARISONS:
        return comparable(left, right)
    if operation in BITS or operation in _LOGICAL:
        logic = words.logic or operation == "Xor"
        return (logic and left == right == pl.Boolean) or (words.bits and left.is_integer() and right.is_integer())
    if left.is_numeric() and right.is_numeric():
        return True
    spans = [isinstance(kind, pl.Duration) for kind in (left, right)]
    if operation in _SUMS:
        return all(spans) or (any(spans) and (_is_time(left) or _is_time(right)))
    if operation in _DIFFERENCES:
        return all(spans) or (_is_time(left) and (_is_time(right) or spans[1]))
    return operation not in _PRODUCTS or (spans[0] and right.is_numeric())


def comparable(one: pl.DataType, other: pl.DataType) -> bool:
    """True if SQL can compare values of the two types."""
    if one.is_numeric() and other.is_numeric():
        return True
    if _is_time(one) and _is_time(other):
        return True
    if is_map(one) and is_map(other):
        return comparable(value_of(one), value_of(other))
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        return pl.Null in (item_of(one), item_of(other)) or comparable(item_of(one), item_of(other))
    return one == other or (isinstance(one, pl.Duration) and isinstance(other, pl.Duration))

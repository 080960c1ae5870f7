"""Functions that polars' SQL lacks, each as an expression of its arguments, `_0`, `_1` and so on.

No function raises, for any values: without a result it gives null. The arguments are checked against the signature in
the list of functions. Source: JOBS "Expressions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holdfast.services.kernel.codecs.maps import is_map, map_of
from holdfast.services.kernel.expressions.own_calls import MARK
from holdfast.services.kernel.expressions.own_maps import OF_MAPS, Key
from holdfast.services.kernel.expressions.own_times import OF_TIMES, TIMESTAMP
from holdfast.services.kernel.expressions.own_values import OF_VALUES, Typed
from holdfast.services.kernel.expressions.refused import Refused
from holdfast.services.kernel.expressions.type_words import in_words
from holdfast.services.kernel.functions.catalogue import BY_NAME
from holdfast.services.kernel.functions.function import Function, Parameter

Node = Any
WORDS = {
    "text": "a text", "int": "a whole number", "number": "a number", "bool": "true or false", "time": "a time",
    "timestamp": "a time", "date": "a date", "list": "a list", "map": "a map", "key": "a text",
}  # fmt: skip
"""The words for an argument, by the kind of its parameter."""
_AS: dict[str, pl.DataType] = {
    "text": pl.String(), "int": pl.Int64(), "number": pl.Float64(), "timestamp": TIMESTAMP, "date": pl.Date(),
    "bool": pl.Boolean(), "key": pl.String(),
}  # fmt: skip
_BUILDERS: dict[str, Callable[..., Any]] = {**OF_VALUES, **OF_TIMES, **OF_MAPS}


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the function, and the trees of its arguments."""

    function: Function
    arguments: list[Node]


def call_of(node: Node) -> Call | None:
    """The call that a node of the tree encodes; None if it encodes none."""
    function = node.get("Function") if isinstance(node, dict) else None
    if not isinstance(function, dict) or function.get("function") != "Coalesce":
        return None
    name, *arguments = function["input"]
    text = written(name)
    if not isinstance(text, str) or not text.startswith(MARK):
        return None
    return Call(BY_NAME[text.removeprefix(MARK)], arguments)


def written(node: Node) -> str | int | None:
    """The literal text or whole number of the node; None if it is neither."""
    literal = node.get("Literal") if isinstance(node, dict) else None
    if not isinstance(literal, dict):
        return None
    scalar = literal.get("Scalar")
    if isinstance(scalar, dict) and isinstance(scalar.get("String"), str):
        return str(scalar["String"])
    number = (literal.get("Dyn") or {}).get("Int")
    return number if isinstance(number, int) else None


def built(call: Call, types: Sequence[pl.DataType]) -> Any:
    """The expression of a call, or Python's computation on the first argument (own_values.Hashing).

    Raises:
        Refused: the arguments do not match the signature.
    """
    function = call.function
    given: list[Any] = []
    known = parameters(function, len(call.arguments))
    for index, (parameter, node, kind) in enumerate(zip(known, call.arguments, types, strict=True)):
        given.append(_argument(function, parameter, index, node, kind))
    return _BUILDERS[function.name](*given)


def parameters(function: Function, count: int) -> list[Parameter]:
    """The parameter of each argument. Raises Refused if the function does not take this number of arguments."""
    known = list(function.parameters)
    least = sum(not one.optional for one in known)
    if known and known[-1].repeated:
        turn = known if function.name == "NAMED_STRUCT" else known[-1:]
        while len(known) < count:
            known += turn
    if not least <= count <= len(known):
        raise Refused(f"gives {function.name} {count} arguments: it is {function.signature}")
    return known[:count]


def _argument(function: Function, parameter: Parameter, index: int, node: Node, kind: pl.DataType) -> Any:
    if parameter.kind in ("written", "digit"):
        value = written(node)
        if isinstance(value, str if parameter.kind == "written" else int):
            return value
        form = "a text in single quotes" if parameter.kind == "written" else "a whole number"
        raise Refused(f"needs {form} written out for '{parameter.name}': {function.name} is {function.signature}")
    column = pl.col(f"_{index}")
    if kind == pl.Null:
        kind = {"time": TIMESTAMP, "list": pl.List(pl.Int64()), "map": map_of(pl.Int64()), **_AS}.get(
            parameter.kind, kind
        )
        column = column.cast(kind)
    if not suits(parameter.kind, kind):
        raise Refused(
            f"gives {function.name} {in_words(kind)} where it takes {WORDS[parameter.kind]}: it is "
            f"{function.signature}{_cast(parameter.kind, kind)}"
        )
    if parameter.kind == "key":
        return Key(column, isinstance(written(node), str))
    wanted = _AS.get(parameter.kind)
    if parameter.kind == "any" or wanted is None or kind == wanted:
        return Typed(column, kind) if parameter.kind in ("any", "time", "list", "map") else column
    return column.cast(wanted, strict=False)


def suits(wanted: str, kind: pl.DataType) -> bool:
    """True if a parameter of the kind accepts values of the type."""
    if wanted == "int":
        return kind.is_integer()
    if wanted == "number":
        return kind.is_numeric()
    if wanted in ("time", "timestamp"):
        return isinstance(kind, pl.Datetime) or kind == pl.Date
    if wanted == "list":
        return isinstance(kind, pl.List) and not is_map(kind)
    if wanted == "map":
        return is_map(kind)
    return wanted not in _AS or kind == _AS[wanted]


def _cast(wanted: str, kind: pl.DataType) -> str:
    types = {"text": "VARCHAR", "int": "BIGINT", "number": "DOUBLE", "time": "TIMESTAMP", "timestamp": "TIMESTAMP"}
    if wanted not in types or kind.is_nested() or kind == pl.Binary:
        return ""
    return f"; write CAST(... AS {types[wanted]}) for it"

"""Explaining: every mistake in an expression that polars refused, each with its cause and what to write instead.

Polars names the first mistake. Here each part of the expression is tried whose own parts are all right, so that three
mistakes are three answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.expressions import advice
from holdfast.services.kernel.expressions.own_calls import MARK
from holdfast.services.kernel.expressions.sql_text import prepared
from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME, BY_NAME
from holdfast.services.kernel.suggestions import suggest

Node = Any
Adapted = Callable[[pl.Expr, Mapping[str, pl.DataType]], pl.Expr]
"""Makes an expression under our rules; raises PolarsError, or ValueError for what is refused."""

_PARTS = ("BinaryExpr", "Function", "Cast", "Ternary", "AnonymousFunction", "Slice", "SortBy", "Filter")
_UNSUPPORTED = re.compile(r"unsupported function '(\w+)'")
_ARGUMENTS = re.compile(r"no function matches the given name and arguments: `(\w+)")
_IN_BRACKETS = re.compile(r"""((\w+|"[^"]+")\s*\[\s*'([^']*)'\s*\])""")
_TEXT = r"\(\(?([^()]*)\)?\.cast\(String\)\)"
_CONCATENATED = re.compile(rf"{_TEXT} \+ {_TEXT}")
"""Polars' text of `a || b`."""
_OWN_CALL = re.compile(rf"'{MARK}(\w+)'\.coalesce\(\[([^\[\]]*)\]\)")
"""Polars' text of a function that is computed here."""
_HUGE = re.compile(r"\b\d+(?:\.\d*)?[eE]\+?\d{3,}\b")
_FAMILIES = ("Sql", "StringExpr", "TemporalExpr", "ListExpr", "ArrayExpr", "StructExpr", "BinaryExpr", "Binary")
_TYPES = "BIGINT, DOUBLE, BOOLEAN, VARCHAR, DECIMAL(p, s), TIMESTAMP, DATE"
_COMPARED = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")
_LOGICAL = ("And", "Or", "LogicalAnd", "LogicalOr")


def explained(text: str, message: str, schema: Mapping[str, pl.DataType], adapted: Adapted) -> list[str]:
    """The mistakes of an expression without unknown columns; `message` is what polars said of the first."""
    columns = list(schema)
    if said := advice.of_syntax(text, columns) or advice.of_function(text) or _of_many_rows(text):
        return [said]
    if members := list(dict.fromkeys(_members(text, schema))):
        return members
    if match := _HUGE.search(advice.without_texts(text)):
        return [f"{match[0]} is larger than any float, which ends near 1.8e308: write `1.7e308`"]
    if "*precision >= 1" in message:
        column = columns[0] if columns else "column"
        return [f"a decimal has 1 to 38 digits: write `CAST({column} AS DECIMAL(38, 2))`"]
    if match := re.search(r"(?i)datatype \"?(\w+)\"? is not", message):
        column = columns[0] if columns else "column"
        return [f"{match[1].upper()} is no type: write CAST({column} AS ...) with one of {_TYPES}"]
    if match := _UNSUPPORTED.search(message):
        return [advice.of_unknown_function(match[1])]
    if match := _ARGUMENTS.search(message):
        known = BY_NAME.get(match[1].upper())
        return [f"{match[1]} is given other arguments than it takes: {known.signature if known else text}"]
    if said := _brackets(text):
        return [said]
    if found := list(dict.fromkeys(_type_mistakes(text, schema, adapted))):
        return found
    if message.startswith("unable to parse") or "unexpected token" in message:
        return [f"'{text}' cannot be read as an expression: {_token(message)}"]
    if "{" in message:
        form = re.search(r"(?:expression|element) (\w+)", message)
        return [f"'{text}' has a form of SQL that is not there ({form[1] if form else 'unknown'})"]
    return [advice.plain_types(message.splitlines()[0])]


def _members(text: str, schema: Mapping[str, pl.DataType]) -> Iterator[str]:
    """Texts in square brackets, as other dialects name the members of structs and the values of maps."""
    for shown, name, member in _IN_BRACKETS.findall(text):
        kind = schema.get(name.strip('"'))
        if not isinstance(kind, pl.Struct):
            yield f"{shown}: square brackets take an item of a list, by its number"
            continue
        known = [field.name for field in kind.fields]
        if member not in known:
            hint = suggest(member, known)
            yield f"{name} has no member '{member}' ({hint}): a member is written `{name}.{known[0]}`, not {shown}"
        else:
            yield f"{name} is a struct, whose members are written with a dot: `{name}.{member}`, not {shown}"


def _of_many_rows(text: str) -> str:
    """An aggregate in the place of an expression of one row."""
    for word, arguments in advice.calls_of(text):
        name = word.lower()
        if name in advice.AGGREGATES:
            said = advice.AGGREGATES[name](arguments)
            return f"{word.upper()} takes many rows, an expression sees one: use an aggregate operator, there {said}"
        if name in AGGREGATE_BY_NAME:
            inner = "" if arguments == ["*"] else ", ".join(arguments)
            if name in ("min", "max") and len(arguments) > 1:
                of_row = "GREATEST" if name == "max" else "LEAST"
                return f"{word.upper()} takes many rows: of several columns of a row it is `{of_row}({inner})`"
            return (
                f"{word.upper()} takes many rows, an expression sees one: use an aggregate operator, `{name}({inner})`"
            )
    return ""


def _brackets(text: str) -> str:
    bare = advice.without_texts(text)
    if "'" in bare.replace("''", ""):
        return f"a text is not closed: '{text}' has a single quote too few or too many"
    missing = bare.count("(") - bare.count(")")
    if missing:
        return f"{abs(missing)} ')' {'missing' if missing > 0 else 'too many'} in '{text}'"
    return ""


def _token(message: str) -> str:
    match = re.search(r"unexpected token '(.*)'", message)
    return f"'{match[1]}' is in the wrong place" if match else "something is missing in it, or too much"


# -- types that do not go together ------------------------------------------------------------------------------------


def _type_mistakes(text: str, schema: Mapping[str, pl.DataType], adapted: Adapted) -> list[str]:
    try:
        tree = json.loads(pl.sql_expr(prepared(text)).meta.serialize(format="json"))
    except (PolarsError, PanicException, RecursionError, ValueError):
        return []
    rows = pl.DataFrame(schema=dict(schema))
    return list(_mistakes(tree, rows, adapted, text))


def _mistakes(node: Node, rows: pl.DataFrame, adapted: Adapted, text: str = "") -> Iterator[str]:
    """Mistakes of the parts that fail though their own parts do not. text: that of the node, where it is known."""
    found = False
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        for mistake in _mistakes(child, rows, adapted):
            found = True
            yield mistake
    if found or not isinstance(node, dict) or not any(kind in node for kind in _PARTS):
        return
    try:
        _values(node, rows, adapted)
    except (PolarsError, PanicException) as error:
        yield _in_words(node, str(error), rows, adapted)
    except ValueError as error:
        yield f"'{text or _shown(node)}' {error}"


def _values(node: Node, rows: pl.DataFrame, adapted: Adapted) -> pl.DataType:
    made = adapted(_expression(node), rows.schema)
    return rows.select(_value=made)["_value"].dtype


def _in_words(node: Node, message: str, rows: pl.DataFrame, adapted: Adapted) -> str:
    binary = node.get("BinaryExpr")
    if "Ternary" in node and (kind := _values(node["Ternary"]["predicate"], rows, adapted)) != pl.Boolean:
        return _no_condition(_shown(node["Ternary"]["predicate"]), kind)
    if binary is None:
        return _of_call(node, message, rows, adapted)
    sides = [(_shown(binary[side]), _values(binary[side], rows, adapted)) for side in ("left", "right")]
    if binary["op"] in _LOGICAL:
        text, kind = next(side for side in sides if side[1] != pl.Boolean)
        return _no_condition(text, kind)
    said = " and ".join(f"{text} is {advice.in_words(kind)}" for text, kind in sides)
    verb = "cannot be compared" if binary["op"] in _COMPARED else "do not go together"
    return f"{said}, which {verb}{_cast(sides)}"


def _no_condition(text: str, kind: pl.DataType) -> str:
    return f"{text} is {advice.in_words(kind)}, not true or false: compare it, such as `{text} IS NOT NULL`"


def _cast(sides: list[tuple[str, pl.DataType]]) -> str:
    """The hint that makes both sides the same."""
    (_, one), (_, other) = sides
    texts = [side for side in sides if side[1] == pl.String]
    if len(texts) == 1 and (one.is_numeric() or other.is_numeric()):
        text = texts[0][0]
        if re.fullmatch(r"'[-+\d.eE]+'", text):
            return f": write `{text[1:-1]}` without quotes"
        if text.startswith("'"):
            number = next(side[0] for side in sides if side[1] != pl.String)
            return f": write `CAST({number} AS VARCHAR)` for the number as text"
        return f": write `CAST({text} AS DOUBLE)` for the text as a number"
    for text, kind in sides:
        if isinstance(kind, pl.Datetime) and (one.is_numeric() or other.is_numeric()):
            return f": write `EXTRACT(EPOCH FROM {text})` for seconds, or add a span, `{text} + INTERVAL '5 seconds'`"
    for text, kind in sides:
        if (one.is_numeric() or other.is_numeric()) and (number := advice.as_number(text, kind)):
            return f": write `{number}`"
    return ": cast one of them"


def _of_call(node: Node, message: str, rows: pl.DataFrame, adapted: Adapted) -> str:
    """Mistake of a function with its arguments, with a cast for a text or for a number that it does not take."""
    function = node.get("Function", {})
    kinds: list[tuple[str, pl.DataType]] = []
    for one in function.get("input") or ():
        try:
            kinds.append((_shown(one), _values(one, rows, adapted)))
        except (PolarsError, PanicException, ValueError):
            continue
    said = advice.plain_types(message.splitlines()[0])
    if not kinds:
        return said
    words = [one for one in re.findall(r"[A-Za-z]+", json.dumps(function.get("function"))) if one not in _FAMILIES]
    name = words[0].upper() if words else "the function"
    names = " and ".join(f"{text} is {advice.in_words(kind)}" for text, kind in kinds if not isinstance(kind, pl.List))
    text, kind = kinds[0]
    if name == "FIELDBYNAME":
        hint = f": write `JSON_EXTRACT_STRING({text}, '$.a')` for JSON" if kind == pl.String else ""
        return f"{text} is {advice.in_words(kind)}, which has no members{hint}"
    if kind == pl.String:
        return f"{name} does not take these: {names}; write `CAST({text} AS DOUBLE)` for the text as a number"
    if kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean:
        return f"{name} does not take these: {names}; write `CAST({text} AS VARCHAR)` for the value as text"
    return f"{name} does not take these: {names or said}"


def _expression(node: Node) -> pl.Expr:
    import io

    return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


def _shown(node: Node) -> str:
    """The part as it was probably written."""
    try:
        text = str(_expression(node))
    except (PolarsError, PanicException):
        return "a part"
    text = re.sub(r'col\("([^"]*)"\)', lambda found: _column(found[1]).replace('"', "\0"), text)
    text = re.sub(r'"([^"]*)"', r"'\1'", text).replace("\0", '"')
    text = re.sub(r"\.struct\.field_by_name\((\w+)\)\(\)", r".\1", text)
    text = _CONCATENATED.sub(r"(\1) || (\2)", text)
    text = re.sub(r"dyn (?:int|float): ", "", text)
    while (plain := _OWN_CALL.sub(r"\1(\2)", text)) != text:
        text = plain
    while (plain := re.sub(r"\[\(([^()\[\]]*)\) (\S+) \(([^()\[\]]*)\)\]", r"\1 \2 \3", text)) != text:
        text = plain
    return text


def _column(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"'

"""The explanation of every mistake in an expression that polars refused, each with its cause and its replacement.

Polars names only the first mistake. This module tests each part of the expression whose own parts are correct, so that
three mistakes give three messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.codecs.maps import is_map
from holdfast.services.kernel.expressions import advice, function_advice, type_words
from holdfast.services.kernel.expressions.own_calls import MARK
from holdfast.services.kernel.expressions.own_times import UNITS
from holdfast.services.kernel.expressions.sql_text import prepared
from holdfast.services.kernel.expressions.wrong_calls import Apart, without_hidden_names, written_as
from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME, BY_NAME
from holdfast.services.kernel.suggestions import suggest

Node = Any
Adapted = Callable[[pl.Expr, Mapping[str, pl.DataType]], pl.Expr]
"""A function that applies the rules to an expression; raises PolarsError, or ValueError for a refused expression."""

_PARTS = ("BinaryExpr", "Function", "Cast", "Ternary", "AnonymousFunction", "Slice", "SortBy", "Filter")
_UNSUPPORTED = re.compile(r"unsupported function '(\w+)'")
_ARGUMENTS = re.compile(r"no function matches the given name and arguments: `(\w+)")
_IN_BRACKETS = re.compile(r"""((\w+|"[^"]+")\s*\[\s*'([^']*)'\s*\])""")
_TEXT = r"\(\(?([^()]*)\)?\.cast\(String\)\)"
_INDEXED = re.compile(r"""((\w+|"[^"]+")\s*\[\s*([^\]']+?)\s*\])""")
_CONCATENATED = re.compile(rf"{_TEXT} \+ {_TEXT}")
"""Polars' text of `a || b`."""
_OWN_CALL = re.compile(rf"'{MARK}(\w+)'\.coalesce\(\[([^\[\]]*)\]\)")
"""The text in which polars shows a call of a function that is computed here."""
_ANY_OF = re.compile(r"(?i)[=<>]\s*ANY\s*\(")
_HUGE = re.compile(r"\b\d+(?:\.\d*)?[eE]\+?\d{3,}\b")
_TYPES = "BIGINT, DOUBLE, BOOLEAN, VARCHAR, DECIMAL(p, s), TIMESTAMP, DATE"
_COMPARED = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")
_MOMENTS = {"DATE": "DATE '2024-12-31'", "TIMESTAMP": "TIMESTAMP '2024-12-31 12:00:00'"}
_ZERO = {"Literal": {"Dyn": {"Int": 0}}}
_LOGICAL = ("And", "Or", "LogicalAnd", "LogicalOr")


def explained(text: str, message: str, schema: Mapping[str, pl.DataType], adapted: Adapted) -> list[str]:
    """The mistakes of an expression without unknown columns.

    message: the error of polars for the first mistake.
    """
    columns = list(schema)
    if said := of_words(text, columns):
        return [said]
    if members := list(dict.fromkeys([*_members(text, schema), *_items(text, schema)])):
        return members
    if match := _HUGE.search(advice.without_texts(text)):
        return [f"{match[0]} is larger than any float, which ends near 1.8e308: write `1.7e308`"]
    if match := re.search(r"(?i)datatype \"?(\w+)\"? is not", message):
        column = columns[0] if columns else "column"
        return [f"{match[1].upper()} is no type: write CAST({column} AS ...) with one of {_TYPES}"]
    if (match := _UNSUPPORTED.search(message)) and match[1].upper() not in BY_NAME:
        return [advice.of_unknown_function(match[1])]
    if said := _brackets(text):
        return [said]
    if found := list(dict.fromkeys(_mistakes_of_types(text, schema, adapted))):
        return found
    if (match := _ARGUMENTS.search(message)) and (known := BY_NAME.get(match[1].upper())):
        said = f"{known.name} is given other arguments than it takes: {known.signature}"
        return [written_as(said, known, match[1].upper())]
    if message.startswith("unable to parse") or "unexpected token" in message:
        return [f"'{text}' cannot be read as an expression: {_token(message)}"]
    if "minus signs are not yet supported" in message:
        return ["INTERVAL takes no minus sign: subtract it, `moment - INTERVAL '1 day'`"]
    if match := re.search(r"unit: '(\w+)' not supported", message):
        return [f"INTERVAL has no unit '{match[1]}' ({suggest(match[1], UNITS)})"]
    if match := re.search(r"invalid (DATE|TIMESTAMP) literal ('.*')", message):
        return [f"{match[2]} is no {'date' if match[1] == 'DATE' else 'time'}: write `{_MOMENTS[match[1]]}`"]
    if "{" in message:
        if re.search(r"(?:expression|element) Tuple", message):
            return ["several values in brackets are no value: CONCAT_WS makes one of several texts"]
        return [f"'{text}' has a form of SQL that is not there"]
    return [type_words.plain_types(message.splitlines()[0])]


def of_words(text: str, columns: Sequence[str]) -> str:
    """The advice for unsupported words of SQL, for columns of any type; empty if the text has none."""
    return advice.of_syntax(text, columns) or advice.of_function(text) or _of_many_rows(text)


def _members(text: str, schema: Mapping[str, pl.DataType]) -> Iterator[str]:
    """Mistakes with texts in square brackets, which other dialects use for members of structs and values of maps."""
    for shown, name, member in _IN_BRACKETS.findall(text):
        kind = schema.get(name.strip('"'))
        if is_map(kind):
            continue
        if not isinstance(kind, pl.Struct):
            yield f"{shown}: square brackets take an item of a list, by its number"
            continue
        known = [field.name for field in kind.fields]
        if member not in known:
            hint = suggest(member, known)
            yield f"{name} has no member '{member}' ({hint}): a member is written `{name}.{known[0]}`, not {shown}"
        else:
            yield f"{name} is a struct, whose members are written with a dot: `{name}.{member}`, not {shown}"


def _items(text: str, schema: Mapping[str, pl.DataType]) -> Iterator[str]:
    """Mistakes with square brackets after a column that is not a list, and with columns in them that are not
    numbers.
    """
    for shown, name, index in _INDEXED.findall(advice.without_texts(text)):
        kind, of_index = schema.get(name.strip('"')), schema.get(index.strip('"'))
        if is_map(kind):
            if of_index != pl.String and (of_index is not None or not index.isidentifier()):
                given = index if of_index is None else f"{index} is {type_words.in_words(of_index)}"
                yield f"{shown}: {name} is a map, whose keys are texts: `{name}['{index.strip()}']`, and {given}"
            continue
        if isinstance(kind, pl.Struct):
            member = f"{name}.{kind.fields[0].name}"
            yield f"{name} is a struct, whose members are written with a dot: `{member}`, not {shown}"
        elif kind is not None and not isinstance(kind, pl.List):
            hint = f"; `SUBSTR({name}, 1, 1)` is the first letter of a text" if kind == pl.String else ""
            yield f"{shown}: square brackets take an item of a list, and {name} is {type_words.in_words(kind)}{hint}"
        elif kind is not None and of_index is not None and not of_index.is_integer():
            yield f"{shown}: square brackets take the number of an item, and {index} is {type_words.in_words(of_index)}"


def _of_many_rows(text: str) -> str:
    """The mistake of an aggregate in an expression of one row."""
    for word, arguments in advice.calls_of(text):
        name = word.lower()
        if name == "any" and _ANY_OF.search(text):
            continue
        if name in function_advice.AGGREGATES:
            said = function_advice.AGGREGATES[name](arguments)
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


def _mistakes_of_types(text: str, schema: Mapping[str, pl.DataType], adapted: Adapted) -> list[str]:
    """The mistakes of calls, and of the rest of the text with each call replaced by a column."""

    def type_of(part: str, columns: Mapping[str, pl.DataType]) -> pl.DataType:
        made = adapted(pl.sql_expr(prepared(part)), columns)
        nulls = pl.DataFrame({name: pl.Series(name, [None], dtype=kind) for name, kind in columns.items()})
        return nulls.with_columns(_value=made)["_value"].dtype

    apart = Apart(schema, type_of, lambda part, columns: _of_operators(part, columns, adapted))
    left = apart.without_calls(text)
    of_operators = [] if left is None else _of_operators(left, apart.schema, adapted)
    found = [*apart.mistakes, *map(apart.as_written, of_operators)]
    return [without_hidden_names(one, text) for one in found]


def _of_operators(text: str, schema: Mapping[str, pl.DataType], adapted: Adapted) -> list[str]:
    """The mistakes of a text without calls."""
    try:
        tree = json.loads(pl.sql_expr(prepared(text)).meta.serialize(format="json"))
    except (PolarsError, PanicException, RecursionError, ValueError):
        return []
    rows = pl.DataFrame(schema=dict(schema))
    return list(_mistakes(tree, rows, adapted, text))


def _mistakes(node: Node, rows: pl.DataFrame, adapted: Adapted, text: str = "") -> Iterator[str]:
    """The mistakes of the parts that fail although their own parts do not.

    text: the text of the node, if it is known.
    """
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
    if "Ternary" in node and (kind := _values(node["Ternary"]["predicate"], rows, adapted)) != pl.Boolean:
        return _no_condition(_shown(node["Ternary"]["predicate"]), kind)
    operands = _operands(node)
    if operands is None:
        return _of_form(node, message, rows, adapted)
    operation, parts = operands
    sides = [(_shown(part), _values(part, rows, adapted)) for part in parts]
    if operation in ("Plus", "Minus") and parts[0] == _ZERO:  # -s is 0 - s
        text, kind = sides[1]
        number = type_words.as_number(text, kind)
        return f"{text} is {type_words.in_words(kind)}, not a number" + (f": write `{number}`" if number else "")
    if operation in _LOGICAL and all(kind == pl.Boolean for _, kind in sides):
        word, sign = ("AND", "&") if operation == "And" else ("OR", "|")
        return f"{sign} takes whole numbers: write `{sides[0][0]} {word} {sides[1][0]}` for what is true or false"
    if operation in _LOGICAL and any(kind == pl.Boolean for _, kind in sides):
        text, kind = next(side for side in sides if side[1] != pl.Boolean)
        return _no_condition(text, kind)
    said = " and ".join(f"{text} is {type_words.in_words(kind)}" for text, kind in sides)
    verb = "cannot be compared" if operation in _COMPARED else "do not go together"
    return f"{said}, which {verb}{_cast(sides)}"


def _operands(node: Node) -> tuple[str, list[Node]] | None:
    """The operator of a node with two operands, and the operands; None for another node."""
    if binary := node.get("BinaryExpr"):
        return binary["op"], [binary["left"], binary["right"]]
    function = node.get("Function") or {}
    made = function.get("function")
    sql = made.get("Sql") if isinstance(made, dict) else None
    if isinstance(sql, dict) and isinstance(sql.get("Binary"), str):
        return sql["Binary"], list(function["input"])
    return None


def _no_condition(text: str, kind: pl.DataType) -> str:
    return f"{text} is {type_words.in_words(kind)}, not true or false: compare it, such as `{text} IS NOT NULL`"


def _cast(sides: list[tuple[str, pl.DataType]]) -> str:
    """The hint that gives both sides the same type."""
    (_, one), (_, other) = sides
    if one == other == pl.String:
        return f": write `{sides[0][0]} || {sides[1][0]}` for one text behind the other"
    for text, kind in sides:
        if is_map(kind):
            return f": take a value of the map, `MAP_GET({text}, 'key')`"
        if isinstance(kind, pl.Struct):
            return f": take a member of the struct, `{text}.{kind.fields[0].name}`"
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
        if kind == pl.Date and (one.is_numeric() or other.is_numeric()):
            return f": write `{text} + INTERVAL '1 day'` for a later date"
        if isinstance(kind, pl.Datetime) and (one.is_numeric() or other.is_numeric()):
            return f": write `EXTRACT(EPOCH FROM {text})` for seconds, or add a span, `{text} + INTERVAL '5 seconds'`"
    for text, kind in sides:
        if (one.is_numeric() or other.is_numeric()) and (number := type_words.as_number(text, kind)):
            return f": write `{number}`"
    return ": cast one of them"


def _of_form(node: Node, message: str, rows: pl.DataFrame, adapted: Adapted) -> str:
    """The mistake of an operator that polars computes by a function, with the types that the operator takes."""
    function = node.get("Function", {})
    kinds: list[tuple[str, pl.DataType]] = []
    for one in function.get("input") or ():
        try:
            kinds.append((_shown(one), _values(one, rows, adapted)))
        except (PolarsError, PanicException, ValueError):
            continue
    if not kinds:
        return type_words.plain_types(message.splitlines()[0])
    made = function.get("function")
    family, own = next(iter(made.items())) if isinstance(made, dict) else ("", made)
    name = next(iter(own)) if isinstance(own, dict) else str(own)
    text, kind = kinds[0]
    said = f"{text} is {type_words.in_words(kind)}"
    if name == "IsIn" and len(kinds) == 2 and isinstance(kinds[1][1], pl.List):
        return f"{said}, and each item of {kinds[1][0]} is {type_words.in_words(type_words.item_of(kinds[1][1]))}"
    if name == "FieldByName":
        return _no_member(text, kind, own[name])
    if family == "ListExpr":
        return f"{said}: square brackets take an item of a list, by its number"
    if made == {"Boolean": "Not"}:
        inner = function["input"][0].get("Cast", {}).get("expr", function["input"][0])
        return _no_condition(_shown(inner), _values(inner, rows, adapted))
    if name == "OffsetBy":
        as_time = f"CAST({text} AS TIMESTAMP)" if kind == pl.String else f"TO_TIMESTAMP({text})"
        hint = f": write `{as_time}`" if kind == pl.String or kind.is_numeric() else ""
        return f"{said}, and a span is added to a time{hint}"
    if family == "StringExpr":
        hint = "" if kind.is_nested() or kind == pl.Binary else f": write `CAST({text} AS VARCHAR)`"
        return f"{said}, not text{hint}"
    return " and ".join(f"{one} is {type_words.in_words(of)}" for one, of in kinds) + ", which do not go together"


def _no_member(text: str, kind: pl.DataType, member: str) -> str:
    if isinstance(kind, pl.Struct):
        known = [field.name for field in kind.fields]
        return f"{text} has no member '{member}' ({suggest(member, known) or 'known: ' + ', '.join(known)})"
    if is_map(kind):
        return f"{text} is a map, whose values have no names: write `MAP_GET({text}, '{member}')`"
    hint = f": write `JSON_EXTRACT_STRING({text}, '$.a')` for JSON" if kind == pl.String else ""
    return f"{text} is {type_words.in_words(kind)}, which has no members{hint}"


def _expression(node: Node) -> pl.Expr:
    import io

    return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


def _shown(node: Node) -> str:
    """The probable text of the part."""
    try:
        text = str(_expression(node))
    except (PolarsError, PanicException):
        return "a part"
    text = re.sub(r'col\("([^"]*)"\)', lambda found: _column(found[1]).replace('"', "\0"), text)
    text = re.sub(r'"([^"]*)"', r"'\1'", text).replace("\0", '"')
    text = re.sub(r"(\w+)\.(?:strict_)?cast\((\w+)\)", r"\1::\2", text)
    text = re.sub(r"\.struct\.field_by_name\((\w+)\)\(\)", r".\1", text)
    text = _CONCATENATED.sub(r"(\1) || (\2)", text)
    text = re.sub(r"dyn (?:int|float): ", "", text)
    text = re.sub(r"\.(?:sql_)?is_in\(\[[^\[\]]*\](?:, [^()]*)?\)", " IN (...)", text)
    text = text.replace(" == ", " = ")
    while (plain := _OWN_CALL.sub(r"\1(\2)", text)) != text:
        text = plain
    while (plain := re.sub(r"\[\(([^()\[\]]*)\) (\S+) \(([^()\[\]]*)\)\]", r"\1 \2 \3", text)) != text:
        text = plain
    return text


def _column(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"'

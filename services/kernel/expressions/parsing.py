"""The expressions of a job file: polars SQL, a row in, a value out.

Source: JOBS "Expressions are polars SQL expressions", PROTOCOL 4 (division by zero gives null).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial

import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.expressions import advice, brackets, explanations
from holdfast.services.kernel.expressions import rules as expression_rules
from holdfast.services.kernel.expressions.operands import Words
from holdfast.services.kernel.expressions.own_times import UNITS
from holdfast.services.kernel.expressions.refused import Refused
from holdfast.services.kernel.expressions.sample_rows import invented_rows, no_rows
from holdfast.services.kernel.expressions.sql_text import prepared
from holdfast.services.kernel.expressions.wrong_calls import written_as
from holdfast.services.kernel.functions.catalogue import BY_NAME
from holdfast.services.kernel.suggestions import suggest

COMPILED = 256
"""The number of cached expressions."""

_LONG = 4_000
"""The number of letters of an expression's tree from which a search for repeated parts pays: it takes 0.1 ms a batch.
"""
_ONCE = pl.QueryOptFlags.none(comm_subexpr_elim=True, simplify_expression=True)
_BARE = re.compile(r"[A-Za-z_]\w*")
_NAMED = re.compile(r'(?is)^(?P<expression>.+?)\s+AS\s+(?:(?P<name>[A-Za-z_]\w*)|"(?P<quoted>[^"]+)")\s*$')
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")
_MOVING = re.compile(r"(?i)\b(?:(random|rand|now|uuid)\s*\(|(current_(?:timestamp|date|time)|localtime(?:stamp)?)\b)")
_SUBQUERY = re.compile(r"(?i)\(\s*select\b")
_WORD = re.compile(r"(?:unsupported function|found) '(\w+)'")
"""Matches an error of polars about a word that it reads as SQL."""
_DECIMAL = re.compile(r"(?i)\b(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)")
_CAST_TO = re.compile(r"(?i)(?:\bAS\s+|::\s*)([A-Za-z]\w*)")
_TYPES = "write one of BIGINT, DOUBLE, BOOLEAN, VARCHAR, DECIMAL(p, s), TIMESTAMP, DATE"
_NO_TYPES = {
    "UUID": "a UUID is a text, VARCHAR",
    "JSON": "JSON_EXTRACT_STRING takes a value out of a text, by a path such as '$.a'",
    "TIME": "a time of day is `STRFTIME(moment, '%H:%M:%S')`, or a part of a TIMESTAMP, `EXTRACT(HOUR FROM moment)`",
    "INTERVAL": "add one, `moment + INTERVAL '1 day'`; `DATEADD('day', 2, moment)` takes a column for the number, too",
    **dict.fromkeys(("ARRAY", "BIT", "ENUM", "MAP"), _TYPES),
    "NVARCHAR": "write VARCHAR",
}
"""Types of SQL that no column has, and their replacements. Polars accepts some of them, with errors at each row."""
_BITS = re.compile(r"(?i)&(?!&)|(?<!\|)\|(?!\|)|\b(?:BIT_)?XOR\b")
"""Operators of bits."""
_LOGIC = re.compile(r"(?i)\b(?:AND|OR|BETWEEN|IN|CASE)\b|&&")
_MISSING = re.compile(r"(?:unable to find column|column not found:?|not found:?)\s*[\"'`]?(\w+)")


class ExpressionError(ValueError):
    """An error for mistakes in an expression.

    mistakes: a text for each mistake, with its hint.
    """

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(mistakes))


def name_of(item: str, columns: Collection[str] = ()) -> str:
    """The output column of a select item: its own name, or the name after AS. In double quotes a name is any text.

    Args:
        columns: the columns of the input; a name that is not a word is in double quotes.

    Raises:
        ExpressionError: the item is an expression without a name.
    """
    item = item.strip()
    if match := _NAMED.match(item):
        return match["name"] or match["quoted"]
    column = column_of(item)
    if _BARE.fullmatch(item) or (column != item and column in columns):
        return column
    if column in columns or column != item or re.fullmatch(r"[@$][\w@$.-]*", item):
        raise ExpressionError(f"'{item}' has no name: write '\"{column}\" AS {_bare_name(column)}'")
    if said := _of_replay(item) or explanations.of_words(item, list(columns)):
        raise ExpressionError(said)
    if len(parts := brackets.split(item, brackets.blanked(item), 0, len(item))) > 1:
        raise ExpressionError(f"'{item}' is {len(parts)} items: write each by itself, [{', '.join(parts)}]")
    raise ExpressionError(f"'{item}' has no name: write '{item} AS name'")


def _bare_name(column: str) -> str:
    name = re.sub(r"\W+", "_", column).strip("_") or "name"
    return name if _BARE.fullmatch(name) else f"column_{name}"


def source_of(item: str) -> str:
    """The expression of a select item, without AS."""
    match = _NAMED.match(item.strip())
    return match["expression"] if match else item.strip()


def column_of(item: str) -> str:
    """The item without enclosing double quotes: the name of the column if the item is only a column."""
    return item.strip()[1:-1] if re.fullmatch(r'\s*"[^"]*"\s*', item) else item.strip()


def is_bare(item: str) -> bool:
    """True if the item is only a column, under its own name."""
    return _BARE.fullmatch(item.strip()) is not None


def compile_expression(text: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """A polars expression that gives one value a row, by the rules of rules.py.

    Results are cached by text and schema: a worker hosts many tasks and copies of one operator.

    Raises:
        ExpressionError: it cannot be parsed, names unknown columns, mixes types, or is not a function of the row.
    """
    return _compiled(text, tuple(schema.items()))


@lru_cache(COMPILED)
def _compiled(text: str, columns: tuple[tuple[str, pl.DataType], ...]) -> pl.Expr:
    schema = dict(columns)
    if is_bare(text) and text.strip() in schema:
        # SQL would read a column called `user` or `date` as a function or a type.
        return pl.col(text.strip())
    bare = _QUOTED.sub("''", text)
    if said := _of_replay(text):
        raise ExpressionError(said)
    if _SUBQUERY.search(bare):
        raise ExpressionError(advice.of_syntax(text, list(schema)))
    try:
        _check_arguments(text)
        parsed = pl.sql_expr(prepared(text))
        if unknown := list(dict.fromkeys(name for name in parsed.meta.root_names() if name not in schema)):
            raise ExpressionError(*_unknown_columns(text, unknown, schema))
        expression = _rules_for(bare)(parsed, schema)
        _check(expression, text, schema)
    except Refused as error:
        raise ExpressionError(*_mistakes(text, f"'{text}' {error}", schema)) from error
    except (PolarsError, PanicException, RecursionError) as error:
        raise ExpressionError(*_mistakes(text, _plain(str(error), schema), schema)) from error
    except ValueError as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(*_mistakes(text, str(error), schema)) from error
    return expression


def _of_replay(text: str) -> str:
    """The advice for a function whose value changes at each replay; empty if there is none."""
    match = _MOVING.search(_QUOTED.sub("''", text))
    name = (match[1] or match[2]).upper() if match else ""
    return f"{name} gives another value at each replay; results must depend on the data alone" if name else ""


def _rules_for(bare: str) -> explanations.Adapted:
    """The rules for a text."""
    words = Words(bits=_BITS.search(bare) is not None, logic=_LOGIC.search(bare) is not None)
    return partial(expression_rules.adapted, words=words)


def _check_arguments(text: str) -> None:
    """Refuses calls at which polars panics, which writes to the terminal: functions without arguments, and some
    types.
    """
    if (match := _DECIMAL.search(advice.without_texts(text))) and not 1 <= int(match[1]) <= 38:
        right = _DECIMAL.sub(lambda found: found[0].removesuffix(found[1]) + "38", text)
        raise ExpressionError(f"a decimal has 1 to 38 digits: write `{right}`")
    for match in _CAST_TO.finditer(advice.without_texts(text)):
        if (name := match[1].upper()) in _NO_TYPES:
            raise ExpressionError(f"{name} is no type: {_NO_TYPES[name]}")
    for name, arguments in advice.calls_of(text):
        known = BY_NAME.get(name.upper())
        if known and not arguments and any(not one.optional for one in known.parameters):
            said = f"{known.name} is given other arguments than it takes: {known.signature}"
            raise ExpressionError(written_as(said, known, name.upper()))


def _mistakes(text: str, message: str, schema: Mapping[str, pl.DataType]) -> list[str]:
    bare = _QUOTED.sub("''", text)
    if unquoted := [name for name in schema if re.search(r"[^\w@$]", name) and re.search(_alone(name), bare)]:
        return [f"'{name}' is no plain name: write the column in double quotes, \"{name}\"" for name in unquoted]
    if message.startswith("there is no column") or "is a word of SQL here" in message:
        return [message]
    return explanations.explained(text, message, schema, _rules_for(bare))


def _alone(name: str) -> str:
    """A pattern for the name outside longer names."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _unknown_columns(text: str, names: list[str], schema: Mapping[str, pl.DataType]) -> list[str]:
    """The mistakes of unknown columns. A word of SQL that polars reads as a column is explained as SQL."""
    said = advice.of_syntax(text, list(schema))
    if said and any(name.upper() in said for name in names if name.isupper()):
        return [said]
    return [_unknown(name, schema) for name in names]


def computing(columns: Sequence[pl.Expr]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """A function that adds these columns to rows, in the order of the rows."""
    if not any(map(_is_long, columns)):
        return lambda rows: rows.with_columns(columns)
    return lambda rows: rows.lazy().with_columns(columns).collect(optimizations=_ONCE)


def _is_long(column: pl.Expr) -> bool:
    try:
        return len(column.meta.serialize(format="json")) >= _LONG
    except PolarsError:  # an expression computed by Python has no tree
        return True


def may_fail(text: str, *, of_numbers: bool = False) -> bool:
    """True if a valid expression may raise for some values of a row, which is then refused."""
    total = expression_rules.OF_NUMBERS if of_numbers else ()
    return not is_bare(text) and expression_rules.may_fail(pl.sql_expr(prepared(text)), total)


def result_type(expression: pl.Expr, schema: Mapping[str, pl.DataType]) -> pl.DataType:
    """The type of the expression's values."""
    return no_rows(schema).select(_value=expression).collect_schema()["_value"]


def _check(expression: pl.Expr, text: str, schema: Mapping[str, pl.DataType]) -> None:
    """Checks, on invented rows, together and one by one, that the expression gives one value a row, independent of
    other rows.
    """
    rows = invented_rows(schema)
    first = rows[:1].with_columns(_value=expression)["_value"]
    try:
        others = [rows[row].with_columns(_value=expression)["_value"] for row in range(1, rows.height)]
        together = rows.with_columns(_value=expression)["_value"]
    except PolarsError:
        return  # the values do not suit it, such as a negative length; where rows do not either, they are refused
    if not together.equals(pl.concat([first, *others]), null_equal=True):
        message = f"'{text}' looks at other rows: use an aggregate or top operator"
        raise ExpressionError(*_mistakes(text, message, schema))


def _plain(message: str, schema: Mapping[str, pl.DataType]) -> str:
    if match := _MISSING.search(message):
        return _unknown(match[1], schema)
    if (match := _WORD.search(message)) and (column := next((n for n in schema if n.lower() == match[1].lower()), "")):
        return f'{match[1]} is a word of SQL here: write the column in double quotes, "{column}"'
    return message.splitlines()[0]


def _unknown(name: str, schema: Mapping[str, pl.DataType]) -> str:
    columns = [column for column in schema if not column.startswith("_")]
    hint = suggest(name, columns)
    if name.lower() in UNITS:
        hint = f"a unit is written in single quotes, '{name.lower()}'"
    return f"there is no column '{name}'" + (f" ({hint})" if hint else "")

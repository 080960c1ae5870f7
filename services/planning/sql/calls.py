"""Finds calls in the text of an expression: aggregates, and starts and ends of windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from holdfast.schemas.sql_dialect import statements
from holdfast.services.kernel.expressions import brackets
from holdfast.services.kernel.operators import aggregate_texts
from holdfast.services.kernel.operators.windows import END, START

SHAPES = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_BOUND = re.compile(rf"(?i)\b(?:{'|'.join(SHAPES)})_(START|END)\s*\(")


class Span(NamedTuple):
    """The begin and the end of a part of a text."""

    begin: int
    end: int


def aggregates(text: str) -> list[Span]:
    """Spans of the outermost calls of aggregates."""
    return [Span(one.start, one.stop) for one in aggregate_texts.written(text)]


def with_bounds(text: str) -> str:
    """The text with columns in place of TUMBLE_START(...) and similar calls."""
    while match := _BOUND.search(brackets.blanked(text)):
        end = brackets.closing(brackets.blanked(text), match.end())
        text = text[: match.start()] + (START if match[1].upper() == "START" else END) + text[end:]
    return text


def parsed(text: str) -> exp.Expr | None:
    """The syntax tree of an expression's text; None if it has a syntax error."""
    try:
        (found,) = statements(f"SELECT {text}")
        first: exp.Expr = found.expressions[0]
        return first.unalias()
    except (SqlglotError, RecursionError, IndexError, ValueError):
        return None


def names_in(text: str) -> Iterator[str]:
    """The first name of each column in an expression's text."""
    found = parsed(text)
    for column in found.find_all(exp.Column) if found is not None else ():
        if isinstance(column.this, exp.Identifier):
            yield column.parts[0].name


def replaced(text: str, part: str, by: str) -> str:
    """The text with a column in place of each occurrence of an expression.

    An occurrence is an operand of its own: in `2 * a + b` the words `a + b` are none, so these stay.
    """
    words = r"\s*".join(map(re.escape, _WORD.findall(part)))
    expression, column = parsed(part), parsed(by)
    if expression is None or column is None:
        return text
    meant = _put_in(text, column, expression)
    for match in reversed([*re.finditer(rf"(?<![\w\"']){words}(?![\w\"'])", text, re.IGNORECASE)]):
        changed = text[: match.start()] + by + text[match.end() :]
        if _put_in(changed, column, expression) == meant:
            text = changed
    return text


_WORD = re.compile(r"\w+|[^\w\s]")


def _put_in(text: str, column: exp.Expr, expression: exp.Expr) -> exp.Expr | None:
    """The syntax tree of a text, with an expression in place of a column."""
    found = parsed(text)
    return None if found is None else found.transform(lambda one: expression.copy() if one == column else one)

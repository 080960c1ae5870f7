"""A query's text and syntax tree, and its mistakes with line and column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from holdfast.schemas.sql_dialect import SPAN, WINDOW_TABLE, statements, without_comments
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.suggestions import did_you_mean


class Fault(NamedTuple):
    """A mistake in a query.

    Attributes:
        at: position in the text, in characters.
        message: the mistake.
        hint: a correction.
    """

    at: int
    message: str
    hint: str = ""


class QueryRefused(Exception):
    """A query that cannot become operators."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(one.message for one in self.faults))


class Statement:
    """A parsed query; its `text` has no comments.

    Raises:
        QueryRefused: the text has a syntax error, or is not a query.
    """

    def __init__(self, text: str) -> None:
        if WINDOW_TABLE.search(text):  # some of them parse, as something else
            raise QueryRefused([_syntax(text, ParseError(""))])
        try:
            self.text = without_comments(text)
            found = statements(self.text)
        except ParseError as error:
            raise QueryRefused([_syntax(text, error)]) from None
        except (SqlglotError, RecursionError) as error:
            raise QueryRefused([Fault(0, f"cannot be read: {_first_line(error)}")]) from None
        if len(found) != 1:
            hint = "write an operator for each" if found else "such as SELECT * FROM clicks"
            raise QueryRefused([Fault(0, f"is {plural(len(found), 'statement') if found else 'no statement'}", hint)])
        self.tree = found[0]
        if not isinstance(self.tree, exp.Query):
            message = f"{self.text.split()[0].upper()} is no query"
            raise QueryRefused([Fault(0, message, "an operator is a SELECT; where its rows go is said in `queries`")])

    def slice(self, node: exp.Expr) -> str:
        """The text of an expression."""
        begin, end = self.span(node)
        return self.text[begin:end]

    def span(self, node: exp.Expr) -> tuple[int, int]:
        """Begin and end of an expression's text. The parser notes the span of most expressions; otherwise the span
        covers the names in the expression."""
        if SPAN in node.meta:
            return int(node.meta[SPAN][0]), int(node.meta[SPAN][1])
        ends = [int(one.meta["end"]) + 1 for one in node.walk() if "end" in one.meta]
        return self.at(node), max(ends, default=self.at(node))

    def at(self, node: exp.Expr | None) -> int:
        """The position at which an expression begins; 0 if unknown."""
        if node is None:
            return 0
        if SPAN in node.meta:
            return int(node.meta[SPAN][0])
        first = min((int(one.meta["start"]) for one in node.walk() if "start" in one.meta), default=0)
        return max(self.text.lower().rfind("select", 0, first), 0) if isinstance(node, exp.Select) else first

    def word(self, words: str, node: exp.Expr | None = None) -> int:
        """The position of words such as ORDER BY at or after a node; the position of the node if the words do not
        occur."""
        begin = self.at(node)
        found = re.search(words.replace(" ", r"\s+"), self.text[begin:], re.IGNORECASE)
        return begin + found.start() if found else begin

    def refused(self, where: exp.Expr | int | None, message: str, hint: str = "") -> QueryRefused:
        return QueryRefused([Fault(where if isinstance(where, int) else self.at(where), message, hint)])


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that AND joins."""
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
        yield from conjuncts(condition.this)
    elif condition is not None:
        yield condition


def _syntax(text: str, error: ParseError) -> Fault:
    if table := WINDOW_TABLE.search(text):
        name = table[1].upper()
        return Fault(
            table.start(), f"a window is no table: TABLE({name}(...)) is not there", f"write GROUP BY ..., {name}(...)"
        )
    for pattern, message, hint in _ELSEWHERE:
        if match := pattern.search(text):
            return Fault(match.start(), message.format(match[0].upper()), hint)
    first = next(iter(text.split()), "")
    if first.upper() not in ("SELECT", "WITH") and (near := did_you_mean(first, ("SELECT", "WITH"))):
        return Fault(text.index(first), f"'{first}' begins no query", near)
    found = error.errors[0] if error.errors else {}
    line, column, shown = found.get("line") or 1, found.get("col") or 1, found.get("highlight") or ""
    begin = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    said = str(found.get("description") or _first_line(error)).partition(" but got <")[0]
    said = "something is missing" if said.startswith("Required keyword") else said
    said = "cannot be read" if said.startswith("Invalid expression") else said
    return Fault(max(begin + column - len(shown), 0), f"{said}, at '{shown}'" if shown else said)


_ELSEWHERE = (
    (
        re.compile(r"\bEMIT\s+(?:CHANGES|FINAL)\b", re.IGNORECASE),
        "{} is not there: totals are sent as they change, windows when they close",
        "leave it out",
    ),
    (
        re.compile(r"\bWINDOW\s+(?:TUMBLING|HOPPING|SESSION)\b", re.IGNORECASE),
        "{} is not there",
        "write GROUP BY ..., TUMBLE(ROWTIME, '1 minute'), HOP(...) or SESSION(...)",
    ),
    (re.compile(r"\bTOP\s+\d+", re.IGNORECASE), "{} is not there", "write ORDER BY value DESC LIMIT 10 at the end"),
)
"""Clauses of other dialects, each with a message and a hint."""


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

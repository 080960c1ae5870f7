"""SQL of a whole query as sqlglot parses it: the tree, the place of each expression, and the tables that are read.

It is DuckDB's SQL. The text of each expression, unchanged, goes to the expressions of a job file, which define its
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

SPAN = "span"
"""Key of an expression's meta: begin and end of its text."""
DEDUP = "DEDUP"
"""Table function: DEDUP(input, within, key, ...)."""


_OWN = ("BIT_AND", "BIT_OR", "BIT_XOR")
"""Functions of one row here, aggregates in DuckDB."""


class _Words(DuckDB.Tokenizer):
    KEYWORDS: ClassVar[Any] = {
        **{word: one for word, one in DuckDB.Tokenizer.KEYWORDS.items() if word != "SESSION"},
        "XOR": TokenType.XOR,
    }


class _Spanning(DuckDBParser):
    """Notes the beginning and end of the text of each expression."""

    FUNCTIONS: ClassVar[Any] = {name: one for name, one in DuckDBParser.FUNCTIONS.items() if name not in _OWN}
    FUNC_TOKENS: ClassVar[Any] = {*DuckDBParser.FUNC_TOKENS, TokenType.DIV}
    CONJUNCTION: ClassVar[Any] = {**DuckDBParser.CONJUNCTION, TokenType.XOR: exp.Xor}

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._noted(super()._parse_disjunction)

    def _parse_equality(self, *given: Any, **options: Any) -> exp.Expr | None:
        return self._noted(super()._parse_equality, *given, **options)

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._noted(super()._parse_bitwise)

    def _noted(self, parse: Callable[..., exp.Expr | None], *given: Any, **options: Any) -> exp.Expr | None:
        first = self._index
        node = parse(*given, **options)
        if node is not None and self._index > first:
            node.meta[SPAN] = (self._tokens[first].start, self._tokens[self._index - 1].end + 1)
        return node


class JobSql(DuckDB):
    """DuckDB's SQL, with places."""

    Parser = _Spanning
    Tokenizer = _Words


def without_comments(text: str) -> str:
    """Returns the text with spaces in place of comments, so that places stay. Raises SqlglotError."""
    kept = [" " if one != "\n" else one for one in text]
    for token in JobSql().tokenize(text):
        kept[token.start : token.end + 1] = text[token.start : token.end + 1]
    return "".join(kept)


@lru_cache(64)
def statements(text: str) -> tuple[exp.Expr, ...]:
    """Returns the statements of a text. Raises SqlglotError."""
    return tuple(one for one in JobSql().parse(text) if one is not None)


WINDOW_TABLE = re.compile(
    r"\bTABLE\s*\(\s*(TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*(?:DATA\s*=>\s*)?TABLE\b", re.IGNORECASE
)
"""Pattern of a window as a table, which is refused; some of these parse with another meaning."""


@lru_cache(64)
def tables(text: str) -> tuple[str, ...]:
    """Returns the sources and operators that the text reads, in its order; none if the text cannot be parsed."""
    if WINDOW_TABLE.search(text):
        return ()
    try:
        found = [name for one in statements(without_comments(text)) for name in _tables(one)]
    except (SqlglotError, RecursionError):
        return ()
    return tuple(dict.fromkeys(found))


def _tables(statement: exp.Expr) -> Iterator[str]:
    if not isinstance(statement, exp.Query):
        return
    defined = {one.alias for one in statement.find_all(exp.CTE)}
    for table in statement.find_all(exp.Table, bfs=False):
        name = table_name(table)
        if name and name not in defined:
            yield name


def table_name(table: exp.Table) -> str:
    """Returns a name such as clicks, or scored.late for the output of an operator; for DEDUP(clicks, ...) that of
    its input.
    """
    function: Any = table.this
    if isinstance(function, exp.Anonymous):
        given = function.expressions
        if function.name.upper() != DEDUP or not given or not isinstance(given[0], exp.Column):
            return ""
        return ".".join(part.name for part in given[0].parts)
    return ".".join(part.name for part in table.parts) if isinstance(function, exp.Identifier) else ""

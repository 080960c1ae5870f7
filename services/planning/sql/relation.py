"""A relation: a stream that a part of a query reads, with its columns by the names in the query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.expressions.brackets import blanked
from holdfast.services.kernel.expressions.parsing import is_bare
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.sql.lineage import ROWTIME, Facts
from holdfast.services.planning.sql.statement import Statement


@dataclass(frozen=True, slots=True)
class Gone:
    """A column that a join does not keep in the query's meaning.

    Attributes:
        message: why the column is missing.
        hint: a replacement.
    """

    message: str
    hint: str


Names = Mapping[str, str | Gone]
"""Columns of the stream, by name in the query."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream that a query reads.

    Attributes:
        producer: source or operator.
        stream: the columns.
        facts: facts about the columns.
        scopes: names of columns, by the alias before them.
        shared: columns that both sides of a join have in common.
        key: key columns of a table; None if the stream is no table.
    """

    producer: str
    stream: Stream
    facts: Facts
    scopes: Mapping[str, Names]
    shared: frozenset[str] = frozenset()
    key: tuple[str, ...] | None = None

    @property
    def fields(self) -> dict[str, str]:
        return {name: kind for name, kind in self.stream.fields.items() if name != DELETED}

    @property
    def changing(self) -> bool:
        """True if a row may be sent again with other values."""
        replaced = bool(self.stream.row_key) or self.facts.single
        return replaced and not self.stream.once and not self.stream.windowed

    @property
    def is_table(self) -> bool:
        return self.key is not None


def named(fields: Mapping[str, str]) -> Names:
    """Each column, under its own name."""
    return {name: name for name in fields if name != DELETED}


@dataclass(frozen=True, slots=True)
class Found:
    """A column of a relation.

    Attributes:
        column: name of the column in the stream.
        parts: number of words in the query that name the column; further words name parts of its value.
    """

    column: str
    parts: int


def look_up(statement: Statement, column: exp.Column, relation: Relation) -> Found | None:
    """The column that a name in the query refers to; None if no column has the name.

    Raises:
        QueryRefused: the name fits two columns, or a column that a join did not keep.
    """
    words = [part.name for part in column.parts]
    if len(words) > 1 and words[0] in relation.scopes:
        names = relation.scopes[words[0]]
        if words[1] not in names:
            if words[1].upper() == ROWTIME:
                return None
            hint = suggest(words[1], [name for name in names if not name.startswith("_")])
            raise statement.refused(column, f"{words[0]} has no column '{words[1]}'", hint)
        return Found(_kept(statement, column, names[words[1]]), 2)
    if words[0] in relation.shared:
        return Found(words[0], 1)
    meant = {alias: names[words[0]] for alias, names in relation.scopes.items() if words[0] in names}
    if len(meant) > 1:
        first = next(iter(meant))
        raise statement.refused(
            column, f"'{words[0]}' is a column of {' and of '.join(meant)}", f"write {first}.{words[0]}"
        )
    return Found(_kept(statement, column, next(iter(meant.values()))), 1) if meant else None


def _kept(statement: Statement, column: exp.Column, name: str | Gone) -> str:
    if isinstance(name, Gone):
        raise statement.refused(column, name.message, name.hint)
    return name


def columns(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression, without stars such as `t.*`."""
    for one in node.find_all(exp.Column):
        if isinstance(one.this, exp.Identifier):
            yield one


def written(statement: Statement, node: exp.Expr, relation: Relation) -> str:
    """The text of an expression, with the stream's name for each column.

    Raises:
        QueryRefused: a column is ambiguous, or the expression contains a query.
    """
    for inner in node.find_all(exp.Query, exp.Exists):
        message = "a query inside of an expression is not there"
        raise statement.refused(inner, message, "join its rows: `x IN (SELECT y FROM t)` is `SEMI JOIN t ON x = y`")
    begin, end = statement.span(node)
    edits = list[tuple[int, int, str]]()
    for column in columns(node):
        found = look_up(statement, column, relation)
        if found is None:
            continue
        parts = column.parts
        first, last = parts[0], parts[found.parts - 1]
        if found.parts == 1 and found.column == first.name:
            continue
        whole = (first.meta["start"], last.meta["end"] + 1) == (begin, end)
        edits.append((first.meta["start"], last.meta["end"] + 1, quoted(found.column, bare=whole)))
    text = statement.text
    for start, stop, name in sorted(edits, reverse=True):
        text = text[:start] + name + text[stop:]
        end += len(name) - (stop - start)
    return _in_a_line(text[begin:end])


def _in_a_line(text: str) -> str:
    """The text with spaces in place of its line ends; a quoted text keeps its own."""
    for found in reversed([*re.finditer(r"\s*\n\s*", blanked(text))]):
        text = f"{text[: found.start()]} {text[found.end() :]}"
    return text


def quoted(name: str, *, bare: bool = False) -> str:
    """The name of a column as written in an expression. `bare` is True if the column is the whole expression."""
    return name if bare and is_bare(name) else f'"{name}"'

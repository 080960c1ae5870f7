"""The items of a SELECT: each of its columns, with stars expanded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.sql.relation import Gone, Relation
from holdfast.services.planning.sql.statement import Statement


class Item(NamedTuple):
    """A column of a SELECT.

    Attributes:
        name: name of the column.
        node: its expression; None for the column `source` of the input unchanged.
        source: the column of the input.
        at: position in the query's text.
    """

    name: str
    node: exp.Expr | None
    source: str
    at: int


def items_of(statement: Statement, select: exp.Select, relation: Relation) -> list[Item]:
    """The columns of a SELECT.

    Raises:
        QueryRefused: a column has no name, or two columns have the same name.
    """
    found = [one for node in select.expressions for one in _items(statement, node, relation)]
    seen = set[str]()
    for one in found:
        if one.name in seen:
            raise statement.refused(one.at, f"there are two columns '{one.name}'", "give one another name with AS")
        seen.add(one.name)
    return found


def _items(statement: Statement, node: exp.Expr, relation: Relation) -> Iterator[Item]:
    star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
    if isinstance(star, exp.Star):
        yield from _starred(statement, node, star, relation)
        return
    inner = node.unalias()
    name = node.alias if isinstance(node, exp.Alias) else inner.parts[-1].name if isinstance(inner, exp.Column) else ""
    if not name:
        text = statement.slice(inner)
        raise statement.refused(inner, f"'{text}' has no name", f"write `{text} AS name`")
    yield Item(name, inner, "", statement.at(inner))


def _starred(statement: Statement, node: exp.Expr, star: exp.Star, relation: Relation) -> Iterator[Item]:
    alias = node.parts[0].name if isinstance(node, exp.Column) else None
    at = statement.at(node)
    if alias is not None and alias not in relation.scopes:
        raise statement.refused(node, f"nothing is called '{alias}'", suggest(alias, list(relation.scopes)))
    known = _all(relation) if alias is None else relation.scopes[alias]
    columns = {name: one for name, one in known.items() if not isinstance(one, Gone) and not name.startswith("_")}
    left_out = {one.name for one in star.args.get("except_") or ()}
    replaced = {one.alias: one.this for one in star.args.get("replace") or ()}
    for name in (*left_out, *replaced):
        if name not in columns:
            raise statement.refused(node, f"there is no column '{name}'", suggest(name, list(columns)))
    for name, column in columns.items():
        if name in replaced:
            yield Item(name, replaced[name], "", statement.at(replaced[name]))
        elif name not in left_out:
            yield Item(name, None, column, at)


def _all(relation: Relation) -> dict[str, str | Gone]:
    """All columns of the input, by name: with one input by the names in the query, after a join by the names of the
    stream. Of a column that was computed for the join, the name is that of the column to which it is equal.
    """
    if len(relation.scopes) == 1:
        return dict(next(iter(relation.scopes.values())))
    meant = {column: name for names in relation.scopes.values() for name, column in names.items()}
    known = [name for name in relation.fields if name in meant or name in relation.shared]
    return {meant[name] if name in meant and meant[name] not in relation.fields else name: name for name in known}

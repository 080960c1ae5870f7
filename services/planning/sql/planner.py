"""Plans the syntax tree of a query as operators, part by part: FROM, WHERE, GROUP BY, ROW_NUMBER, SELECT, UNION."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from holdfast.schemas.sql_dialect import DEDUP, table_name
from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.operators.top import RANK
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.sql import calls, grouping, items, ranking
from holdfast.services.planning.sql.chain import Chain
from holdfast.services.planning.sql.grouping import Rewrite
from holdfast.services.planning.sql.items import Item
from holdfast.services.planning.sql.joins import joined
from holdfast.services.planning.sql.lengths import length
from holdfast.services.planning.sql.relation import Names, Relation, columns, named, quoted, written
from holdfast.services.planning.sql.statement import Statement, conjuncts

_NOT_THERE = {
    "windows": ("WINDOW", "write the window behind OVER"),
    "laterals": ("LATERAL", "CROSS JOIN UNNEST(list) AS t(item)"),
    "pivots": ("PIVOT", "aggregates with FILTER (WHERE ...), one for each value"),
    "sample": ("TABLESAMPLE", "leave it out"),
    "into": ("INTO", "`queries` says where rows go"),
    "by_name": ("UNION BY NAME", "write the columns of each SELECT in the same order"),
    "connect": ("CONNECT BY", "leave it out"),
    "match": ("MATCH_RECOGNIZE", "a Python operator can find patterns"),
}
"""Parts of a SELECT that no operator can do, with a replacement for each."""


_SIFTED = ("where", "group", "having", "qualify", "distinct")
_MODIFIERS = ("order", "limit", "offset")
_PARTS = frozenset(("with_", "expressions", "from_", "joins", *_SIFTED, *_MODIFIERS))
_UNION = frozenset(("with_", "this", "expression", "distinct", *_MODIFIERS))
_SUBQUERY = frozenset(("with_", "this", "alias", *_MODIFIERS))
_TABLE = frozenset(("this", "db", "catalog", "alias"))
"""Parts of a SELECT, a UNION, a subquery and a table that are planned."""


class Planner:
    """Makes the operators of one query.

    Args:
        base: sources and operators of the job by name, as relations.
    """

    def __init__(self, statement: Statement, chain: Chain, base: Mapping[str, Relation]) -> None:
        self.statement = statement
        self.chain = chain
        self._base = base
        self._defined = dict[str, exp.Expr]()
        self._planned = dict[str, Relation]()
        self._open = list[str]()

    def whole(self) -> Relation:
        """The stream of the query."""
        found = self.query(self.statement.tree, [])
        if found.producer not in self.chain.operators:
            names = found.scopes.get("", named(found.fields))
            chosen = [f"{quoted(str(one), bare=True)}" for one in names.values()]
            raw = {"select": chosen or ["*"], "input": found.producer}
            found = self.chain.add("rows", raw, [found], self.statement.at(self.statement.tree))
        return found

    # -- queries ------------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expr, waiting: list[exp.Expr]) -> Relation:
        """The stream of a SELECT or a UNION. `waiting`: conditions on its rows; a bound of ROW_NUMBER is removed."""
        if (with_ := node.args.get("with_")) is not None:
            self._define(with_)
        if isinstance(node, exp.Subquery):
            self._check_parts(node, _SUBQUERY)
            return self._modified(self.query(node.this, [] if _modifiers(node) else waiting), node)
        if isinstance(node, exp.Union):
            self._check_parts(node, _UNION)
            return self._modified(self._united(node), node)
        if not isinstance(node, exp.Select):
            word = type(node).__name__.upper()
            raise self.statement.refused(node, f"{word} is not there", "joins of kind SEMI and ANTI keep or drop rows")
        return self._selected(node, waiting)

    def _define(self, with_: exp.Expr) -> None:
        if with_.args.get("recursive"):
            raise self.statement.refused(with_, "WITH RECURSIVE is not there", "a job has no cycles")
        for one in with_.expressions:
            if one.alias in self._base:
                raise self.statement.refused(one, f"'{one.alias}' is a source or operator", "give it another name")
            if one.alias in self._defined:
                raise self.statement.refused(one, f"'{one.alias}' is there twice", "give one another name")
            if one.args["alias"].columns:
                raise self.statement.refused(one, "names its columns in brackets", "name them in its SELECT, with AS")
            self._defined[one.alias] = one.this

    def _modified(self, relation: Relation, node: exp.Expr) -> Relation:
        return ranking.limited(self, relation, node)

    def _united(self, node: exp.Union) -> Relation:
        at = self.statement.word(r"\bUNION\b", node.this)
        parts = [self._outermost(one) for one in self._branches(node, node.args.get("distinct"))]
        first, *others = parts
        names = [name for name in first.scopes[""]]
        same = [first, *(self._as_first(names, one, at) for one in others)]
        for one in same:
            if one.changing:
                message = f"rows of {one.producer} replace each other, and a union would mix them with others"
                raise self.statement.refused(at, message, "give the inner query a window")
        if len({one.producer for one in same}) < len(same):
            raise self.statement.refused(at, "reads the same rows twice", "leave one out")
        made = self.chain.add("union", {"union": [one.producer for one in same]}, same, at)
        return ranking.distinct(self, made, at) if node.args.get("distinct") else made

    def _branches(self, node: exp.Expr, distinct: object) -> Iterable[exp.Expr]:
        for one in (node.args["this"], node.args["expression"]):
            inner = one.unnest() if isinstance(one, exp.Subquery) and not _modifiers(one) else one
            if isinstance(inner, exp.Union) and inner.args.get("distinct") == distinct and not _modifiers(inner):
                yield from self._branches(inner, distinct)
            else:
                yield inner

    def _outermost(self, node: exp.Expr) -> Relation:
        found = self.query(node, [])
        return Relation(
            found.producer, found.stream, found.facts, {"": found.scopes.get("", named(found.fields))}, key=found.key
        )

    def _as_first(self, names: Sequence[str], one: Relation, at: int) -> Relation:
        """The columns under the names of the first SELECT, matched by position."""
        own = {name: str(column) for name, column in one.scopes[""].items()}
        if len(own) != len(names):
            message = f"has {plural(len(names), 'column')} in the first SELECT and {len(own)} here"
            raise self.statement.refused(at, message, "select as many in each")
        if list(own.values()) == list(names):
            return one
        pairs = zip(own.values(), names, strict=True)
        chosen = [
            name if column == name else f"{quoted(column, bare=True)} AS {quoted(name, bare=True)}"
            for column, name in pairs
        ]
        return self.chain.add("named", {"select": chosen, "input": one.producer}, [one], at)

    # -- FROM ---------------------------------------------------------------------------------------------------------

    def read(self, node: exp.Expr, waiting: list[exp.Expr]) -> Relation:
        """The stream of a table, a subquery, or DEDUP(...), under its alias."""
        if isinstance(node, exp.Subquery):
            own = [one for one in waiting if all(_may_be_of(column, node.alias) for column in columns(one))]
            found = self.query(node, left := [*own])
            waiting[:] = [one for one in waiting if one in left or one not in own]
            return self._under(found, node, node.alias)
        if not isinstance(node, exp.Table):
            raise self.statement.refused(node, "cannot be read from", "name a source, an operator, or a subquery")
        if node.args.get("version") is not None:
            hint = "a join has it, ... JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON ..."
            raise self.statement.refused(node, "FOR SYSTEM_TIME AS OF a time is there in a join alone", hint)
        self._check_parts(node, _TABLE)
        name = table_name(node)
        if name in self._defined:
            if name in self._open:
                raise self.statement.refused(node, f"{name} reads itself", "a query reads only what comes before it")
            if name not in self._planned:
                self._open.append(name)
                self._planned[name] = self.query(self._defined[name], [])
                self._open.remove(name)
            return self._under(self._planned[name], node, node.alias or name)
        if not isinstance(node.this, exp.Identifier):
            return self._deduplicated(node, name)
        if name not in self._base:
            known = [*self._base, *self._defined]
            raise self.statement.refused(node, f"there is no source or operator '{name}'", suggest(name, known))
        return self._under(self._base[name], node, node.alias or node.name)

    def _under(self, found: Relation, node: exp.Expr, alias: str) -> Relation:
        """The rows of a table or a subquery under its alias, and under the names of columns behind the alias."""
        names = found.scopes.get("", named(found.fields))
        if (given := node.args.get("alias")) is not None and given.columns:
            names = self._renamed(given, names)
        return Relation(found.producer, found.stream, found.facts, {alias: names}, key=found.key)

    def _renamed(self, alias: exp.Expr, names: Names) -> Names:
        """The columns under the names in brackets, `AS t(a, b)`, in their order; further ones keep theirs."""
        given = [one.name for one in alias.args["columns"]]
        if len(given) > len(names):
            message = f"names {plural(len(given), 'column')}, and there are {len(names)}"
            raise self.statement.refused(alias, message, ", ".join(names))
        shown = [*given, *[*names][len(given) :]]
        if twice := [one for one in shown if shown.count(one) > 1]:
            raise self.statement.refused(alias, f"there are two columns '{twice[0]}'", "give one another name")
        return dict(zip(shown, names.values(), strict=True))

    def _deduplicated(self, node: exp.Table, name: str) -> Relation:
        function, call = node.this, "DEDUP(clicks, INTERVAL '1 hour', user)"
        if not isinstance(function, exp.Anonymous) or function.name.upper() != DEDUP:
            hint = f"the table functions are UNNEST(list) and {call}; windows stand in GROUP BY, TUMBLE(time, size)"
            raise self.statement.refused(
                function,
                f"there is no table function {_name_of(function)}",
                hint,
            )
        if name not in self._base or len(function.expressions) < 3:
            message = "needs a source or operator, a length of time, and columns"
            raise self.statement.refused(function, message, call)
        _, within, *key = function.expressions
        found = length(within)
        if found is None or found.months or not all(isinstance(one, exp.Column) for one in key):
            raise self.statement.refused(within, "DEDUP is given other arguments than it takes", call)
        base, at = self._base[name], self.statement.at(function)
        raw = {"dedup": {"within_s": found.seconds}, "key": [one.name for one in key], "input": base.producer}
        return self._under(self.chain.add("dedup", raw, [base], at), node, node.alias or node.name or name)

    # -- SELECT -------------------------------------------------------------------------------------------------------

    def _selected(self, select: exp.Select, outer: list[exp.Expr]) -> Relation:
        statement = self.statement
        self._check_parts(select, _PARTS)
        relation = self._from(select, waiting := list(conjuncts(_condition(select, "where"))))
        relation = self.filtered(relation, waiting, "where")
        chosen = items.items_of(statement, select, relation)
        rewrite = _written(statement, relation)
        if grouping.is_grouped(self, select, chosen):
            grouped = grouping.grouped(self, select, relation, chosen)
            rewrite = grouped.rewrite
            having = list(conjuncts(_condition(select, "having")))
            relation = self.filtered(grouped.relation, having, "having", rewrite)
            if any(one.node is None for one in chosen):
                raise statement.refused(chosen[0].at, "* beside GROUP BY names columns that are not grouped by")
        relation, rest = self._ranked(select, relation, rewrite, chosen, [] if _modifiers(select) else outer)
        relation = self._projected(select, relation, rewrite, chosen)
        if rest:
            relation = self.filtered(relation, rest, "where", _written(statement, relation))
        return ranking.limited(self, self._distinct(select, relation), select, chosen)

    def _check_parts(self, node: exp.Expr, known: frozenset[str]) -> None:
        """Refuses every part that no operator can do, so that no part is silently ignored."""
        for part, value in node.args.items():
            if value and part not in known:
                word, hint = _NOT_THERE.get(part, (part.strip("_").upper(), "leave it out"))
                raise self.statement.refused(node, f"{word} is not there", hint)

    def _from(self, select: exp.Select, waiting: list[exp.Expr]) -> Relation:
        from_ = select.args.get("from_")
        if from_ is None:
            raise self.statement.refused(select, "reads from nowhere", "SELECT ... FROM a source or operator")
        joins = select.args.get("joins") or []
        found = self.read(from_.this, [] if _adds_rows(joins) else waiting)
        for place, join in enumerate(joins, start=1):
            found = joined(self, found, join, [] if _adds_rows(joins[place:]) else waiting)
        return found

    def filtered(
        self, relation: Relation, given: Sequence[exp.Expr], role: str, rewrite: Callable[[exp.Expr], str] | None = None
    ) -> Relation:
        """The rows that satisfy all conditions."""
        if not given:
            return relation
        rewrite = rewrite or _written(self.statement, relation)
        texts = [rewrite(one) for one in given]
        if relation.changing and not relation.stream.changes:
            for node, text in zip(given, texts, strict=True):
                self._check_settled(relation, node, text)
        at = self.statement.at(given[0])
        text = texts[0] if len(texts) == 1 else " AND ".join(f"({one})" for one in texts)
        if relation.stream.changes:
            # a row for which it no longer holds is gone
            raw: dict[str, object] = {"select": [f"* REPLACE (CASE WHEN {text} THEN {OP} ELSE 'd' END AS {OP})"]}
            places = {"select[0]": at}
        else:
            raw, places = {"filter": text}, {"filter": at}
        raw["input"] = relation.producer
        made = self.chain.add(role, raw, [relation], at, places, relation.scopes)
        return Relation(made.producer, made.stream, made.facts, relation.scopes, shared=relation.shared)

    def _check_settled(self, relation: Relation, node: exp.Expr, text: str) -> None:
        """Refuses a condition that may become false for a row, because the row would then stay."""
        used = set(calls.names_in(text))
        if used <= set(relation.stream.row_key):
            return
        tree = calls.parsed(text)
        if isinstance(tree, exp.GT | exp.GTE | exp.LT | exp.LTE):
            low, high = (tree.right, tree.left) if isinstance(tree, exp.GT | exp.GTE) else (tree.left, tree.right)
            facts = relation.facts
            grows = isinstance(high, exp.Column) and high.name in facts.rising and not list(low.find_all(exp.Column))
            falls = isinstance(low, exp.Column) and low.name in facts.falling and not list(high.find_all(exp.Column))
            if grows or falls:
                return
        message = "may hold for a row and not for the one that replaces it, which then would not come"
        hint = "select it as a column, `... AS keep`, with delete_when: NOT keep at the sink; or give a window"
        raise self.statement.refused(node, message, hint)

    def _ranked(
        self, select: exp.Select, relation: Relation, rewrite: Rewrite, chosen: list[Item], outer: list[exp.Expr]
    ) -> tuple[Relation, list[exp.Expr]]:
        """The rows up to a rank, bounded by QUALIFY or the enclosing WHERE; and the other conditions of QUALIFY."""
        item, rest = ranking.item_of(chosen), list(conjuncts(_condition(select, "qualify")))
        conditions = rest if rest else outer
        for one in conditions:
            bound = ranking.bound_of(one, None)
            if bound is None:
                continue
            node, k = bound
            window = ranking.row_number(node)
            if window is None and item is not None and isinstance(node, exp.Column) and node.name == item.name:
                window = ranking.row_number(item.node)
            if window is not None:
                conditions.remove(one)
                return ranking.ranked(self, relation, rewrite, window, k), rest
        if item is not None:
            hint = f"WHERE {item.name} <= 10 around it, or QUALIFY {item.name} <= 10"
            raise self.statement.refused(item.at, "ROW_NUMBER() needs a bound: a stream has no end", hint)
        return relation, rest

    def _projected(self, select: exp.Select, relation: Relation, rewrite: Rewrite, chosen: Sequence[Item]) -> Relation:
        pairs, places = list[tuple[str, str]](), list[int]()
        for one in chosen:
            if one.node is None:
                text = quoted(one.source, bare=True)
            elif ranking.row_number(one.node) is not None:
                text = RANK
            else:
                self._check_windows(one.node)
                text = rewrite(one.node)
            pairs.append((one.name, text))
            places.append(one.at)
        if relation.stream.changes and OP not in dict(pairs):
            pairs.append((OP, OP))
        kept = {name for name, text in pairs if text.strip('"') == name}
        if relation.changing and (lost := [name for name in relation.stream.row_key if name not in kept]):
            message = (
                f"rows replace each other by {', '.join(relation.stream.row_key)}, and {lost[0]} is left out or renamed"
            )
            hint = f"select {', '.join(lost)} under that name"
            if lost == [RANK]:
                hint = "write ROW_NUMBER() OVER (...) AS rank, and select it: it says whose place a row takes"
            raise self.statement.refused(select, message, hint)
        names = {name: name for name, _ in pairs}
        if kept == names.keys() == relation.fields.keys():
            return Relation(relation.producer, relation.stream, relation.facts, {"": names}, key=relation.key)
        chosen_items = [
            quoted(name, bare=True) if name in kept else f"{text} AS {quoted(name, bare=True)}" for name, text in pairs
        ]
        at = {f"select[{index}]": place for index, place in enumerate(places)}
        raw = {"select": chosen_items, "input": relation.producer}
        return self.chain.add("select", raw, [relation], self.statement.at(select), at, {"": names})

    def _check_windows(self, node: exp.Expr) -> None:
        if (window := node.find(exp.Window)) is not None:
            hint = "GROUP BY with a window such as TUMBLE(...), or ROW_NUMBER() with a bound"
            raise self.statement.refused(window, "OVER is there for ROW_NUMBER() alone", hint)

    def _distinct(self, select: exp.Select, relation: Relation) -> Relation:
        asked = select.args.get("distinct")
        if asked is None:
            return relation
        at = self.statement.word(r"\bDISTINCT\b", select)
        if asked.args.get("on") is not None:
            hint = (
                "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY time) <= 1, or DEDUP(clicks, INTERVAL '1 hour', a)"
            )
            raise self.statement.refused(at, "DISTINCT ON is not there", hint)
        return ranking.distinct(self, relation, at)


def _written(statement: Statement, relation: Relation) -> Rewrite:
    return lambda node: written(statement, node, relation)


def _condition(select: exp.Select, part: str) -> exp.Expr | None:
    found = select.args.get(part)
    return None if found is None else found.this


def _modifiers(node: exp.Expr) -> bool:
    return any(node.args.get(one) is not None for one in _MODIFIERS)


def _may_be_of(column: exp.Column, alias: str) -> bool:
    return len(column.parts) == 1 or column.parts[0].name == alias


def _adds_rows(joins: Sequence[exp.Join]) -> bool:
    """True if one of the joins adds rows that have nulls for everything before it, so that a condition of WHERE cannot
    move before it.
    """
    return any(join.side in ("RIGHT", "FULL") for join in joins)


def _name_of(function: exp.Expr) -> str:
    known = isinstance(function, exp.Func) and not isinstance(function, exp.Anonymous)
    return str(function.sql_name()) if known and isinstance(function, exp.Func) else function.name

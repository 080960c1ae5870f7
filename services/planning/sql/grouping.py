"""GROUP BY of a query, as an aggregate by key and window, with a select before it for a computed key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME, BY_NAME
from holdfast.services.kernel.operators.windows import END
from holdfast.services.kernel.suggestions import misspelt
from holdfast.services.planning.sql import calls
from holdfast.services.planning.sql.items import Item
from holdfast.services.planning.sql.lineage import Facts, of_windows
from holdfast.services.planning.sql.relation import Relation, columns, look_up, quoted, written
from holdfast.services.planning.sql.windows import is_window, window_of

if TYPE_CHECKING:
    from holdfast.services.planning.sql.planner import Planner

Rewrite = Callable[[exp.Expr], str]


class Key(NamedTuple):
    """A column of the key.

    Attributes:
        node: its expression in the query.
        text: the text from which it is computed.
        name: name of the column.
    """

    node: exp.Expr
    text: str
    name: str


class Grouped(NamedTuple):
    """The rows of an aggregate, with a function that rewrites expressions of the query for these rows."""

    relation: Relation
    rewrite: Rewrite


def is_grouped(planner: Planner, select: exp.Select, items: Sequence[Item]) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(one.node is not None and has_aggregate(planner, one.node) for one in items)


def has_aggregate(planner: Planner, node: exp.Expr) -> bool:
    return not isinstance(node, exp.Window) and bool(calls.aggregates(planner.statement.slice(node)))


def grouped(planner: Planner, select: exp.Select, relation: Relation, items: Sequence[Item]) -> Grouped:
    """Adds the aggregate of a SELECT, with every aggregate call in its parts."""
    return _Group(planner, select, relation, items).made()


class _Group:
    """An aggregate under construction."""

    def __init__(self, planner: Planner, select: exp.Select, relation: Relation, items: Sequence[Item]) -> None:
        self._planner = planner
        self._statement = planner.statement
        self._select = select
        self._relation = relation
        self._items = items
        group = select.args.get("group")
        self._at = self._statement.word(r"\bGROUP BY", select) if group is not None else self._statement.at(select)
        self._aggregates = dict[str, str]()  # text by name
        self._places = dict[str, int]()

    def made(self) -> Grouped:
        if self._relation.changing or self._relation.stream.changes:
            message = f"rows of {self._relation.producer} replace each other, and an aggregate counts each as one more"
            raise self._statement.refused(self._at, message, "give the inner query a window, such as TUMBLE(...)")
        nodes = list(self._grouping())
        windows = [one for one in nodes if is_window(one)]
        if len(windows) > 1:
            raise self._statement.refused(windows[1], "is a second window", "an aggregate has one")
        window = window_of(self._statement, windows[0], self._relation) if windows else None
        self._keys = self._keyed([one for one in nodes if not is_window(one)])
        self._same = False
        facts = self._relation.facts
        if (
            window is None
            and facts.window is not None
            and any(one.text.strip('"') in facts.bounds for one in self._keys)
        ):
            self._check_bounds(facts)
            window, self._same = of_windows(facts.window)
        self._bounds = {
            one.name: facts.bounds[one.text.strip('"')]
            for one in self._keys
            if self._same and one.text.strip('"') in facts.bounds
        }
        before = self._before(window is not None)
        self._collect()
        key = [one.name for one in self._keys if one.name not in self._bounds]
        raw: dict[str, Any] = {"aggregate": self._aggregates or self._counted(key), "key": key}
        raw |= {"input": before.producer} | ({} if window is None else {"window": window})
        at = {**{f"key[{i}]": self._statement.at(one.node) for i, one in enumerate(self._keys)}, **self._places}
        if windows:
            at |= {"window": self._statement.at(windows[0])}
        found = self._planner.chain.add("group", raw, [before], self._at, at)
        self._window = window is not None
        self._known = found.fields
        return Grouped(found, self.rewritten)

    def _check_bounds(self, facts: Facts) -> None:
        """Refuses cumulative windows without their end in the key: several of them begin together."""
        if facts.window is None or facts.window["step_s"] is None:
            return
        if all(facts.bounds.get(one.text.strip('"')) != END for one in self._keys):
            message = "windows of CUMULATE begin together, and each closes by itself"
            raise self._statement.refused(self._at, message, "GROUP BY window_start, window_end")

    def _counted(self, key: Sequence[str]) -> dict[str, str]:
        """A count as the only aggregate of a SELECT that has none, because the operator needs at least one."""
        return {"occurrences" if "occurrences" not in key else "number_of_rows": "count()"}

    # -- the key ------------------------------------------------------------------------------------------------------

    def _grouping(self) -> Iterator[exp.Expr]:
        group = self._select.args.get("group")
        if group is None:
            return
        for kind in ("grouping_sets", "rollup", "cube", "totals"):
            if group.args.get(kind):
                raise self._refused_sets()
        if group.args.get("all"):
            yield from (one.node for one in self._items if one.node is not None and self._of_key(one.node))
            return
        for node in group.expressions:
            if isinstance(node, exp.GroupingSets | exp.Cube | exp.Rollup):
                raise self._refused_sets()
            yield self._meant(node)

    def _refused_sets(self) -> Exception:
        message = "GROUPING SETS, ROLLUP and CUBE are not there"
        return self._statement.refused(self._at, message, "write a query for each set, and UNION ALL of them")

    def _of_key(self, node: exp.Expr) -> bool:
        text = self._statement.slice(node)
        return not calls.aggregates(text) and calls.with_bounds(text) == text and not isinstance(node, exp.Literal)

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """The expression that a part of GROUP BY refers to. A number or a name may refer to an item of SELECT."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) - 1 if node.name.isdecimal() else -1
            chosen = self._items[place].node if 0 <= place < len(self._items) else None
            if chosen is None:
                raise self._statement.refused(node, f"SELECT has no column {node.name}", "name what is grouped by")
            return chosen
        if isinstance(node, exp.Column) and look_up(self._statement, node, self._relation) is None:
            named = [one.node for one in self._items if one.name == node.name and len(node.parts) == 1]
            if named and named[0] is not None:
                return named[0]
        return node

    def _keyed(self, nodes: Sequence[exp.Expr]) -> list[Key]:
        found = list[Key]()
        for number, node in enumerate(nodes, start=1):
            if calls.aggregates(self._statement.slice(node)):
                raise self._statement.refused(
                    node, "an aggregate is no key", "group by columns and expressions of them"
                )
            text = written(self._statement, node, self._relation)
            alias = next((one.name for one in self._items if one.node is not None and one.node == node), "")
            column = text.strip('"')
            own = column if column in self._relation.fields else ""
            name = alias or own or f"key{number}"
            if name != own and name in self._relation.fields and not self._is_free(name, text, nodes, node):
                name = own or f"{name}_key"
            if all(one.text != text for one in found):
                found.append(Key(node, text, name))
        return found

    def _is_free(self, name: str, text: str, nodes: Sequence[exp.Expr], key: exp.Expr) -> bool:
        """True if a key may take the name of a column of the input, as of `LOWER(page) AS page`: nothing but the key's
        own expression reads the column.
        """
        others = [one for one in nodes if one is not key]
        texts = [written(self._statement, one, self._relation) for one in (*others, *self._read())]
        if name in self._relation.facts.bounds or any(calls.parsed(one) is None for one in texts):
            return False
        for one in texts:
            spans = calls.aggregates(one)
            inside = [one[begin:end] for begin, end in spans]
            for begin, end in reversed(spans):
                one = f"{one[:begin]}1{one[end:]}"
            if any(name in calls.names_in(part) for part in (*inside, calls.replaced(one, text, '"_"'))):
                return False
        return True

    def _read(self) -> Iterator[exp.Expr]:
        """The parts of SELECT that read rows of the aggregate."""
        yield from (one.node for one in self._items if one.node is not None)
        for part in ("having", "qualify"):
            if (found := self._select.args.get(part)) is not None:
                yield found.this
        order = self._select.args.get("order")
        yield from (one.this for one in (order.expressions if order is not None else ()))

    def _before(self, windowed: bool) -> Relation:
        """The input of the aggregate, with columns for the computed parts of the key."""
        facts = self._relation.facts
        keys = list[Key]()
        for one in self._keys:
            bound = facts.bounds.get(one.text.strip('"'))
            if windowed and bound is not None and not self._same and one.name in ("window_start", "window_end"):
                one = one._replace(name=f"{one.name}_key")  # the aggregate has bounds of its own
            keys.append(one)
        self._keys = keys
        made = [one for one in keys if one.text.strip('"') != one.name and one.name not in self._bounds]
        if not made:
            return self._relation
        instead = [one for one in made if one.name in self._relation.fields]
        computed = [one for one in made if one not in instead]
        places = {f"select[{index}]": self._statement.at(one.node) for index, one in enumerate(computed, start=1)}
        items = [f"{one.text} AS {quoted(one.name, bare=True)}" for one in computed]
        star = "*"
        if instead:
            star += f" REPLACE ({', '.join(f'{one.text} AS {quoted(one.name, bare=True)}' for one in instead)})"
            places["select[0]"] = self._statement.at(instead[0].node)
        raw = {"select": [star, *items], "input": self._relation.producer}
        return self._planner.chain.add("keys", raw, [self._relation], self._at, places, self._relation.scopes)

    # -- aggregates ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Collects every aggregate. An aggregate that is an item of SELECT has the item's name; every other one gets a
        new name."""
        taken = {one.name for one in self._keys}
        nodes = [(one.name, one.node) for one in self._items if one.node is not None]
        order = self._select.args.get("order")
        others = [self._select.args.get("having"), self._select.args.get("qualify"), order]
        nodes += [("value", one.this) for one in others[:2] if one is not None]
        nodes += [("value", one.this) for one in (order.expressions if order is not None else ())]
        for name, node in nodes:
            for window in node.find_all(exp.Window):
                nodes_of = [*(window.args.get("partition_by") or ()), *_ordered(window)]
                for inner in nodes_of:
                    self._note("value", inner, taken)
            if not isinstance(node, exp.Window):
                self._note(name, node, taken)

    def _note(self, name: str, node: exp.Expr, taken: set[str]) -> None:
        text = written(self._statement, node, self._relation)
        found = calls.aggregates(text)
        for begin, end in found:
            call = text[begin:end]
            if call in self._aggregates.values():
                continue
            whole = len(found) == 1 and not (text[:begin] + text[end:]).strip()
            own = name if whole and name != "value" else f"{name}_{len(self._aggregates) + 1}"
            while own in taken:
                own += "_"
            taken.add(own)
            self._aggregates[own] = call
            self._places[f"aggregate.{own}"] = self._statement.at(node)

    # -- behind the aggregate -----------------------------------------------------------------------------------------

    def rewritten(self, node: exp.Expr) -> str:
        """The text of an expression of the query, rewritten for the aggregate's rows."""
        text = written(self._statement, node, self._relation)
        names = {call: name for name, call in self._aggregates.items()}
        found = calls.aggregates(text)
        whole = len(found) == 1 and not (text[: found[0].begin] + text[found[0].end :]).strip()
        for begin, end in reversed(found):
            text = text[:begin] + quoted(names[text[begin:end]], bare=whole) + text[end:]
        for one in sorted(self._keys, key=lambda key: -len(key.text)):  # a key may be a part of another one
            name = self._bounds.get(one.name, one.name)
            if text == one.text or node == one.node:
                return quoted(name, bare=True)
            if one.text != name:
                text = calls.replaced(text, one.text, quoted(name))
        text = calls.with_bounds(text) if self._window else text
        self._check(node, text)
        return text

    def _check(self, node: exp.Expr, text: str) -> None:
        for name in calls.names_in(text):
            if name not in self._known and name in self._relation.fields:
                place = next((one for one in columns(node) if one.name == name), node)
                call = place.find_ancestor(exp.Anonymous)
                if call is not None and call.name.upper() not in BY_NAME:
                    message = f"there is no function {call.name.upper()}"
                    raise self._statement.refused(call, message, misspelt(call.name, [*BY_NAME, *AGGREGATE_BY_NAME]))
                message = f"'{name}' is neither in GROUP BY nor inside of an aggregate"
                raise self._statement.refused(place, message, f"group by it, or take max({name})")


def _ordered(window: exp.Window) -> list[exp.Expr]:
    order = window.args.get("order")
    return [one.this for one in order.expressions] if order is not None else []

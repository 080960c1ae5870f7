"""The joins of a query: of two streams within a time, with a table, as of a time, and with the items of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from holdfast.services.kernel.codecs.fields import required
from holdfast.services.kernel.codecs.maps import SHOWN_KEY, SHOWN_VALUE
from holdfast.services.kernel.operators import join_keys
from holdfast.services.planning.sql import conditions
from holdfast.services.planning.sql.conditions import LEFT, RIGHT, Conditions, Equal
from holdfast.services.planning.sql.relation import Gone, Names, Relation, look_up, named, quoted, written
from holdfast.services.planning.sql.statement import Statement, conjuncts
from holdfast.services.planning.sql.windows import check_time

if TYPE_CHECKING:
    from holdfast.services.planning.sql.planner import Planner

_SECOND_US = 1_000_000
Sides = tuple[Relation, Relation]


def joined(planner: Planner, left: Relation, join: exp.Join, waiting: list[exp.Expr]) -> Relation:
    """Adds a join and returns its rows. `waiting` holds the conditions of WHERE; a join takes those on both sides out
    of it."""
    statement = planner.statement
    if isinstance(join.this, exp.Unnest):
        return _unnested(planner, left, join)
    if join.method not in ("", "ASOF"):
        hint = "name the columns, USING (a, b)" if join.method == "NATURAL" else "name equal columns, ON a.id = b.id"
        raise statement.refused(join.this, f"{join.method} JOIN is not there", hint)
    if join.side == "RIGHT" and join.kind in ("SEMI", "ANTI"):
        raise statement.refused(join.this, f"RIGHT {join.kind} JOIN is not there", "exchange the sides")
    as_of = _as_of(planner, join)
    inner = join.method != "ASOF" and not join.side and join.kind not in ("SEMI", "ANTI")
    right = planner.read(join.this, waiting if inner else [])
    if shared := [name for name in right.scopes if name in left.scopes]:
        raise statement.refused(join.this, f"'{shared[0]}' is read twice", f"give one another name, AS {shared[0]}2")
    sides, using = (left, right), [one.name for one in join.args.get("using") or ()]
    given = list(conjuncts(join.args.get("on")))
    if inner:
        both = [one for one in waiting if conditions.sides_of(statement, one, sides) == {LEFT, RIGHT}]
        waiting[:] = [one for one in waiting if one not in both]
        given += both
    found = conditions.read(statement, given, sides)
    if as_of is not None:
        check_time(statement, as_of, left)
        found.most = 0
    return _Join(planner, join, sides, using, found=found).rows()


def _as_of(planner: Planner, join: exp.Join) -> exp.Expr | None:
    """The time of FOR SYSTEM_TIME AS OF, which turns the join into an as-of join; None if the join has no such
    clause.
    """
    version = join.this.args.get("version") if isinstance(join.this, exp.Table) else None
    if version is None:
        return None
    if (
        version.args.get("kind") != "AS OF"
        or join.method
        or join.side not in ("", "LEFT")
        or join.kind not in ("", "INNER")
    ):
        hint = "JOIN or LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON ..."
        raise planner.statement.refused(join.this, "FOR SYSTEM_TIME is there as AS OF a time alone", hint)
    join.this.set("version", None)
    join.set("method", "ASOF")
    time: exp.Expr = version.expression
    return time


class _Join:
    """A join under construction."""

    def __init__(self, planner: Planner, join: exp.Join, sides: Sides, using: list[str], found: Conditions) -> None:
        self._planner = planner
        self._statement = planner.statement
        self._join = join
        self._sides = sides
        self._using = using
        self._found = found
        self._at = self._statement.at(join.this)
        self._kind = (join.kind if join.kind in ("SEMI", "ANTI") else join.side or "INNER").lower()

    def rows(self) -> Relation:
        self._check()
        self._narrow()
        pairs = self._pairs()
        if self._join.method == "ASOF":
            return self._as_of(pairs)
        left, right = self._sides
        if left.is_table and not right.is_table:
            self._sides, self._kind = (right, left), {"left": "right", "right": "left"}.get(self._kind, self._kind)
            pairs = [(theirs, mine) for mine, theirs in pairs]
            if self._kind in ("semi", "anti"):
                raise self._refused("keeps rows of a table, and a table is read by joins alone", "exchange the sides")
        sides: dict[str, Any] = {"left": self._sides[LEFT].producer, "right": self._sides[RIGHT].producer}
        on = {"on": [mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs]}
        time = {} if self._sides[RIGHT].is_table else {"between": self._between()}
        if self._sides[RIGHT].is_table and self._found.timed:
            hint = "leave the time out: a table has one row of a key, whatever the time"
            raise self._statement.refused(self._found.timed[0], "compares times with a table", hint)
        raw = {"join": {**sides, **on, **time, "kind": self._kind}}
        made = self._planner.chain.add("join", raw, self._sides, self._at, scopes=self._names(pairs))
        shared = frozenset((*self._sides[LEFT].shared, *self._using))
        made = Relation(made.producer, made.stream, made.facts, made.scopes, shared=shared & made.stream.fields.keys())
        return self._planner.filtered(made, self._found.rest, "on") if self._found.rest else made

    def _check(self) -> None:
        for relation in self._sides:
            if relation.changing and not any(one.is_table for one in self._sides):
                message = (
                    f"rows of {relation.producer} replace each other, and a join of streams takes each as one more"
                )
                raise self._refused(message, "give the inner query a window, or join a table")
        if not self._found.equal and not self._using:
            message = "has no columns that are equal on both sides"
            raise self._refused(message, "such as ON o.id = p.order_id, with the time for which rows wait")

    def _narrow(self) -> None:
        """Filters a side by conditions on this side alone where the join drops rows that fail them. Conditions of an
        inner join that remain stay in `rest`; other joins refuse them."""
        rest, sides = list[exp.Expr](), list(self._sides)
        narrowed = {"left": (RIGHT,), "right": (LEFT,), "semi": (RIGHT,), "anti": (RIGHT,)}.get(self._kind, ())
        for one in self._found.rest:
            of = conditions.sides_of(self._statement, one, self._sides)
            side = next(iter(of)) if len(of) == 1 else None
            if side in narrowed and side is not None and not sides[side].is_table:
                sides[side] = self._planner.filtered(sides[side], [one], "on")
            elif self._kind == "inner":
                rest.append(one)
            else:
                message = f"is a condition that a {self._kind} join cannot have"
                hint = "equal columns, and times that are near; conditions on the other side go into a subquery"
                raise self._statement.refused(one, message, hint)
        self._found.rest, self._sides = rest, (sides[LEFT], sides[RIGHT])

    # -- columns that are equal ---------------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[str, str]]:
        """Pairs of columns that must be equal. A computed expression becomes a column first."""
        pairs = [self._used(name) for name in self._using]
        computed: tuple[list[tuple[str, exp.Expr]], list[tuple[str, exp.Expr]]] = ([], [])
        for number, equal in enumerate(self._found.equal, start=1):
            sides = (equal.left, equal.right)
            pair = (self._column(sides, LEFT, number, computed), self._column(sides, RIGHT, number, computed))
            if any(mine == pair[0] or theirs == pair[1] for mine, theirs in pairs):
                self._again(equal)
            else:
                pairs.append(pair)
        self._sides = (self._with(computed, LEFT), self._with(computed, RIGHT))
        return pairs

    def _again(self, equal: Equal) -> None:
        """Keeps a comparison whose column is compared already as a filter; refused unless the join is an inner join."""
        if self._kind != "inner":
            raise self._statement.refused(equal.at, "names a column a second time", "name each column of a side once")
        self._found.rest.append(equal.at)

    def _used(self, name: str) -> tuple[str, str]:
        found = list[str]()
        for relation in self._sides:
            meant = look_up(self._statement, exp.column(name), relation)
            if meant is None:
                raise self._refused(f"USING ({name}): {' '.join(filter(None, relation.scopes))} has no such column")
            found.append(meant.column)
        return found[0], found[1]

    def _column(
        self,
        sides: tuple[exp.Expr, exp.Expr],
        side: int,
        number: int,
        computed: tuple[list[tuple[str, exp.Expr]], list[tuple[str, exp.Expr]]],
    ) -> str:
        node, relation = sides[side], self._sides[side]
        if isinstance(node, exp.Column):
            found = look_up(self._statement, node, relation)
            if found is not None and found.parts == len(node.parts):
                return found.column
        if relation.is_table:
            message = f"computes a value of table {relation.producer}, which is joined by its key"
            raise self._statement.refused(node, message, f"ON {', '.join(relation.key or ())} = ...")
        name = f"key{number}"
        while name in relation.fields:
            name += "_"
        computed[side].append((name, node))
        return name

    def _with(self, computed: tuple[list[tuple[str, exp.Expr]], ...], side: int) -> Relation:
        relation = self._sides[side]
        if not computed[side]:
            return relation
        items = [f"{written(self._statement, node, relation)} AS {name}" for name, node in computed[side]]
        places = {f"select[{index}]": self._statement.at(node) for index, (_, node) in enumerate(computed[side], 1)}
        raw = {"select": ["*", *items], "input": relation.producer}
        return self._planner.chain.add("keys", raw, [relation], self._at, places, relation.scopes)

    # -- times --------------------------------------------------------------------------------------------------------

    def _between(self) -> list[float | int]:
        least, most = self._found.least, self._found.most
        if least is None or most is None:
            left, right = (self._time(side) for side in (LEFT, RIGHT))
            missing = (
                "how far apart in time"
                if least is None and most is None
                else "how much " + ("earlier" if least is None else "later")
            )
            message = f"does not say {missing} rows of the two streams are at most"
            hint = f"add `AND {right} BETWEEN {left} - INTERVAL '1 hour' AND {left} + INTERVAL '1 hour'`"
            raise self._refused(message, hint)
        if least > most:
            raise self._statement.refused(self._found.timed[0], "no two rows are so far apart: nothing lies between")
        return [_seconds(least), _seconds(most)]

    def _time(self, side: int) -> str:
        relation = self._sides[side]
        alias = next(iter(relation.scopes))
        name = next((one for one, us in relation.facts.times.items() if us == 0), "ROWTIME")
        return f"{alias}.{name}" if alias else name

    def _as_of(self, pairs: Sequence[tuple[str, str]]) -> Relation:
        found, (left, right) = self._found, self._sides
        if found.most != 0 or self._kind not in ("inner", "left"):
            message = "is an as-of join: each left row meets the newest right row that is not later"
            raise self._refused(message, f"ASOF JOIN ... AND {self._time(LEFT)} >= {self._time(RIGHT)}")
        within = {} if found.least is None else {"within_s": _seconds(-found.least)}
        sides: dict[str, Any] = {"left": left.producer, "right": right.producer}
        on = [mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs]
        raw = {"asof_join": {**sides, "on": on, **within, "kind": self._kind}}
        made = self._planner.chain.add("asof", raw, self._sides, self._at, scopes=self._names(pairs))
        return self._planner.filtered(made, found.rest, "on") if found.rest else made

    # -- names --------------------------------------------------------------------------------------------------------

    def _names(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Names]:
        """Columns of both sides, by alias and by name in the query."""
        left, right = self._sides
        if self._kind in ("semi", "anti"):
            return dict(left.scopes)
        keys = [join_keys.Pair(*pair) for pair in pairs]
        beside = join_keys.right_names(keys, left.fields, right.fields)
        key_of = {theirs: mine for mine, theirs in pairs}
        at_right: dict[str, str | Gone] = {**beside, **key_of}
        at_left: dict[str, str | Gone] = dict(named(left.fields))
        if self._kind in ("left", "full"):
            hint = f"name the column of {left.producer}; rows that meet none are those of an ANTI JOIN"
            at_right |= {
                one: Gone(f"a {self._kind} join does not keep '{one}' of the right side", hint) for one in key_of
            }
        if self._kind in ("right", "full"):
            hint = f"name the column of {right.producer}, or join USING (column)"
            gone = {one: Gone(f"a {self._kind} join does not keep '{one}' of the left side", hint) for one, _ in pairs}
            at_left |= gone
        return {
            **{alias: _through(names, at_left) for alias, names in left.scopes.items()},
            **{alias: _through(names, at_right) for alias, names in right.scopes.items()},
        }

    def _refused(self, message: str, hint: str = "") -> Exception:
        return self._statement.refused(self._at, message, hint)


def _through(names: Names, after: Mapping[str, str | Gone]) -> Names:
    return {name: one if isinstance(one, Gone) else after[one] for name, one in names.items() if _there(one, after)}


def _there(one: str | Gone, after: Mapping[str, str | Gone]) -> bool:
    return isinstance(one, Gone) or one in after


def _seconds(us: int) -> float | int:
    return us // _SECOND_US if us % _SECOND_US == 0 else us / _SECOND_US


def _unnested(planner: Planner, left: Relation, join: exp.Join) -> Relation:
    """Adds an operator that makes a row for each item of a list or entry of a map. Two names for the parts of an entry
    take a select behind it.
    """
    statement, unnest = planner.statement, join.this
    given = unnest.expressions
    on = [one for one in conjuncts(join.args.get("on")) if not (isinstance(one, exp.Boolean) and one.this)]
    shaped = join.side in ("", "LEFT") and join.kind not in ("SEMI", "ANTI") and not join.method
    if len(given) != 1 or not shaped or join.args.get("using"):
        raise statement.refused(
            unnest, "takes one list, in a CROSS JOIN or a LEFT JOIN", "CROSS JOIN UNNEST(tags) AS t(tag)"
        )
    (node,) = given
    place = statement.at(node)
    if left.changing or left.stream.changes:
        message = f"rows of {left.producer} replace each other, and items of a former row would stay"
        raise statement.refused(node, message, "give the inner query a window, such as TUMBLE(...)")
    found = look_up(statement, node, left) if isinstance(node, exp.Column) else None
    alias = unnest.args.get("alias")
    names = [] if alias is None else [one.name for one in alias.columns] or [alias.name]
    if not any(names):
        raise statement.refused(node, "the item has no name", "UNNEST(tags) AS t(tag)")
    if len(names) > 2:
        hint = "UNNEST(tags) WITH ORDINALITY AS t(tag, place) has the place of the item, too"
        raise statement.refused(node, f"an item is one column, and there are names for {len(names)}", hint)
    if on and join.side:
        message = "is a condition that a LEFT JOIN of a list cannot have"
        raise statement.refused(on[0], message, "ON TRUE; or CROSS JOIN with WHERE, which drops rows without an item")
    if found is None or found.parts != len(node.parts):
        name = "items"
        while name in left.fields:
            name += "_"
        raw = {"select": ["*", f"{written(statement, node, left)} AS {name}"], "input": left.producer}
        left = planner.chain.add("list", raw, [left], place, {"select[1]": place}, left.scopes)
        column = name
    else:
        column = found.column
    position = unnest.args.get("offset")
    into = names[0] if len(names) == 1 else _entry_of(statement, node, left, column)
    asked = {"column": column, "into": into, "keep_empty": join.side == "LEFT"}
    if isinstance(position, exp.Identifier):
        asked["position"] = position.name
    made = planner.chain.add("unnest", {"unnest": asked, "input": left.producer}, [left], place)
    if len(names) > 1:
        parts = [
            f"{into}.{part} AS {quoted(name, bare=True)}"
            for part, name in zip((SHOWN_KEY, SHOWN_VALUE), names, strict=True)
        ]
        raw = {"select": [f"* EXCEPT ({into})", *parts], "input": made.producer}
        made = planner.chain.add("entries", raw, [made], place)
    gone = Gone(f"'{column}' is a row for each item now", f"name the item, {names[0]}")
    after = {one: gone if one == column and one not in names else one for one in left.fields}
    own = [*names, *([position.name] if isinstance(position, exp.Identifier) else [])]
    scopes = {name: _through(some, after) for name, some in left.scopes.items()}
    made = planner.chain.relation(made.producer, made.stream, {**scopes, alias.name: {one: one for one in own}})
    return planner.filtered(made, on, "on")


def _entry_of(statement: Statement, node: exp.Expr, left: Relation, column: str) -> str:
    """A name for the entry of a map before its key and value become columns. Raises QueryRefused for a list."""
    if not required(left.fields[column]).startswith("map<"):
        hint = "UNNEST(tags) WITH ORDINALITY AS t(tag, place) has the place of the item, too"
        raise statement.refused(node, "an item is one column, and there are names for 2", hint)
    name = "entry"
    while name in left.fields:
        name += "_"
    return name

"""Splits the conditions of a join: equal columns, the distance of event times, and all other conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from holdfast.services.planning.sql.lengths import length
from holdfast.services.planning.sql.lineage import ROWTIME
from holdfast.services.planning.sql.relation import Relation, columns, look_up
from holdfast.services.planning.sql.statement import Statement

LEFT, RIGHT = 0, 1


class Equal(NamedTuple):
    """Expressions of the two sides that must be equal.

    Attributes:
        left, right: the expressions.
        at: the condition in the query.
    """

    left: exp.Expr
    right: exp.Expr
    at: exp.Expr


@dataclass(slots=True)
class Conditions:
    """The conditions of a join.

    Attributes:
        equal: expressions that must be equal.
        least, most: limits of the time from the left row to its right row, microseconds.
        rest: conditions on one side, or on both sides.
        timed: conditions on event times.
    """

    equal: list[Equal] = field(default_factory=list)
    least: int | None = None
    most: int | None = None
    rest: list[exp.Expr] = field(default_factory=list)
    timed: list[exp.Expr] = field(default_factory=list)


class Point(NamedTuple):
    """A time, as a distance in microseconds after the event time of a side's row."""

    side: int
    us: int


def sides_of(statement: Statement, node: exp.Expr, sides: tuple[Relation, Relation]) -> set[int]:
    """The sides whose columns an expression reads. A column name that matches no column of a side counts for no
    side.
    """
    return {side for one in columns(node) if (side := side_of(statement, one, sides)) is not None}


def side_of(statement: Statement, column: exp.Column, sides: tuple[Relation, Relation]) -> int | None:
    first = column.parts[0].name
    if len(column.parts) > 1:
        for side, relation in enumerate(sides):
            if first in relation.scopes:
                return side
    found = [side for side, relation in enumerate(sides) if look_up(statement, column, relation) is not None]
    if len(found) > 1:
        alias = next(iter(sides[LEFT].scopes))
        raise statement.refused(column, f"'{first}' is a column of both sides", f"write {alias or 'alias'}.{first}")
    return found[0] if found else None


def read(statement: Statement, given: list[exp.Expr], sides: tuple[Relation, Relation]) -> Conditions:
    """The conditions of a join, from expressions that are all required."""
    found = Conditions()
    for one in given:
        timed = _timed(statement, one, sides, found)
        if timed:
            found.timed.append(one)
        if isinstance(one, exp.EQ) and _equal(statement, one, sides, found):
            continue
        if not timed:
            found.rest.append(one)
    return found


def _equal(statement: Statement, one: exp.EQ, sides: tuple[Relation, Relation], found: Conditions) -> bool:
    of_left, of_right = sides_of(statement, one.left, sides), sides_of(statement, one.right, sides)
    if of_left == {LEFT} and of_right == {RIGHT}:
        found.equal.append(Equal(one.left, one.right, one))
    elif of_left == {RIGHT} and of_right == {LEFT}:
        found.equal.append(Equal(one.right, one.left, one))
    else:
        return False
    return True


def _timed(statement: Statement, one: exp.Expr, sides: tuple[Relation, Relation], found: Conditions) -> bool:
    """Narrows the distance of event times by a comparison of times. True if the condition is fully covered by that
    distance."""
    if isinstance(one, exp.Between) and not one.args.get("symmetric"):
        parts = [
            exp.GTE(this=one.this, expression=one.args["low"]),
            exp.LTE(this=one.this, expression=one.args["high"]),
        ]
        points = [_points(statement, part, sides) for part in parts]
        if None in points:
            return False
        for part, pair in zip(parts, points, strict=True):
            if pair is not None:
                _note(part, *pair, found)
        return True
    pair = _points(statement, one, sides)
    if pair is None:
        return False
    _note(one, *pair, found)
    return True


def _points(statement: Statement, one: exp.Expr, sides: tuple[Relation, Relation]) -> tuple[Point, Point] | None:
    if not isinstance(one, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ):
        return None
    first, second = _point(statement, one.this, sides), _point(statement, one.expression, sides)
    return (first, second) if first and second and first.side != second.side else None


def _point(statement: Statement, node: exp.Expr, sides: tuple[Relation, Relation]) -> Point | None:
    if isinstance(node, exp.Paren):
        return _point(statement, node.this, sides)
    if isinstance(node, exp.Add | exp.Sub):
        base, later = _point(statement, node.this, sides), length(node.expression)
        if base is None or later is None or later.months:
            return None
        return Point(base.side, base.us + (later.us if isinstance(node, exp.Add) else -later.us))
    if not isinstance(node, exp.Column) or (side := _named_side(statement, node, sides)) is None:
        return None
    found = look_up(statement, node, sides[side])
    if found is None:
        return Point(side, 0)
    us = sides[side].facts.times.get(found.column)
    return None if us is None or len(node.parts) > found.parts else Point(side, us)


def _named_side(statement: Statement, node: exp.Column, sides: tuple[Relation, Relation]) -> int | None:
    """The side of a column, or of ROWTIME after an alias; None if no side has it."""
    words = [part.name for part in node.parts]
    if len(words) == 2 and words[1].upper() == ROWTIME:
        return next((side for side, one in enumerate(sides) if words[0] in one.scopes), None)
    return side_of(statement, node, sides)


def _note(one: exp.Expr, first: Point, second: Point, found: Conditions) -> None:
    """Narrows the distance of event times by a comparison of `first` with `second`."""
    strict = int(isinstance(one, exp.GT | exp.LT))
    equal = isinstance(one, exp.EQ)
    if first.side == LEFT:  # right = left + x, where left.us + left <=> right.us + right
        distance = first.us - second.us
        at_least, at_most = isinstance(one, exp.LT | exp.LTE), isinstance(one, exp.GT | exp.GTE)
    else:
        distance = second.us - first.us
        at_least, at_most = isinstance(one, exp.GT | exp.GTE), isinstance(one, exp.LT | exp.LTE)
    if at_least or equal:
        least = distance + strict
        found.least = least if found.least is None else max(found.least, least)
    if at_most or equal:
        most = distance - strict
        found.most = most if found.most is None else min(found.most, most)

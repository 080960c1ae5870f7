"""Windows of a query: TUMBLE, HOP, CUMULATE and SESSION in GROUP BY, and windows of windows."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from holdfast.services.planning.sql.calls import SHAPES
from holdfast.services.planning.sql.lengths import Length, length
from holdfast.services.planning.sql.lineage import ROWTIME
from holdfast.services.planning.sql.relation import Relation, look_up
from holdfast.services.planning.sql.statement import Statement

_TAKES = {
    "TUMBLE": ("TUMBLE(time, size)", 1, 2),
    "HOP": ("HOP(time, slide, size)", 2, 3),
    "CUMULATE": ("CUMULATE(time, step, size)", 2, 3),
    "SESSION": ("SESSION(time, gap)", 1, 1),
}
"""Form of the call, with the least and the most number of lengths. The last length may be an offset; of TUMBLE it may
be a zone instead."""
_CALENDAR = {1: "month", 3: "quarter", 12: "year"}
_DAYS = {86_400_000_000: "day", 604_800_000_000: "week"}


def is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in SHAPES


def window_of(statement: Statement, node: exp.Expr, relation: Relation) -> dict[str, Any]:
    """The `window` setting of an aggregate, from a call such as TUMBLE(...)."""
    shape = node.name.upper()
    call, least, most = _TAKES[shape]
    if not node.expressions or not least <= len(node.expressions) - 1 <= most:
        raise statement.refused(node, f"{shape} is given other arguments than it takes", call)
    time, *given = node.expressions
    check_time(statement, time, relation)
    zone = _zone(given[-1]) if shape == "TUMBLE" and len(given) == 2 else None
    lengths = [_length(statement, one, call) for one in (given[:-1] if zone is not None else given)]
    return _window(statement, node, shape, lengths, zone)


def _window(
    statement: Statement, node: exp.Expr, shape: str, lengths: list[Length], zone: str | None
) -> dict[str, Any]:
    size = lengths[1] if shape in ("HOP", "CUMULATE") else lengths[0]
    rest = lengths[2 if shape in ("HOP", "CUMULATE") else 1 :]
    offset = {"offset_s": rest[0].seconds} if rest and rest[0].us else {}
    if shape == "TUMBLE" and (size.months or zone is not None):
        calendar = _CALENDAR.get(size.months) if not size.us else None if size.months else _DAYS.get(size.us)
        if calendar is None:
            hint = "INTERVAL '1 month', '1 quarter' or '1 year', or with a zone '1 day' or '1 week'"
            raise statement.refused(node, "is no window of a calendar", hint)
        return {"calendar": calendar, **({} if zone is None else {"zone": zone}), **offset}
    if any(one.months for one in lengths):
        raise statement.refused(node, "months have no fixed length", "TUMBLE(time, INTERVAL '1 month')")
    if shape == "SESSION":
        return {"gap_s": size.seconds}
    other = {"HOP": "slide_s", "CUMULATE": "step_s"}.get(shape)
    return {"size_s": size.seconds, **({} if other is None else {other: lengths[0].seconds}), **offset}


def check_time(statement: Statement, node: exp.Expr, relation: Relation) -> None:
    """Checks that an expression is the event time of the rows: a column with that time, or ROWTIME. Raises QueryRefused
    otherwise."""
    known = [name for name, us in relation.facts.times.items() if us == 0]
    if isinstance(node, exp.Column):
        found = look_up(statement, node, relation)
        if found is None and node.parts[-1].name.upper() == ROWTIME:
            return
        if found is not None and found.column in known and found.parts == len(node.parts):
            return
    message = f"'{statement.slice(node)}' is not the event time of its rows"
    hint = f"write {known[0]}" if known else f"write {ROWTIME}, which stands for it"
    raise statement.refused(node, message, f"{hint}; another time is made it by event_time of the source")


def _length(statement: Statement, node: exp.Expr, call: str) -> Length:
    found = length(node)
    if found is None:
        raise statement.refused(
            node, f"'{statement.slice(node)}' is no length of time", f"INTERVAL '1 minute', in {call}"
        )
    return found


def _zone(node: exp.Expr) -> str | None:
    return node.name if isinstance(node, exp.Literal) and node.is_string and length(node) is None else None

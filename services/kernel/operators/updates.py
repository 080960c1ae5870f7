"""Updates of a join: the condition under which its rows replace each other, and their form.

Source: JOBS "join".
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.schemas.operator_settings import JoinSidesSettings
from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.operators import join_keys
from holdfast.services.kernel.operators.kind import Fields, Problems, Stream

MOVING = "a left row may come to name another right row, so all rows meet in one task"


def updating(join: JoinSidesSettings, left: Fields, right: Fields) -> bool:
    """True if the rows of the join replace each other."""
    return DELETED in right and (DELETED in left or join.emit == "updates")


def rows_move(join: JoinSidesSettings, row_key: Sequence[str]) -> bool:
    """True if the row of a left key may name another right row than before."""
    return not {pair.left for pair in join_keys.pairs(join.on)} <= set(row_key)


def updated(problems: Problems, join: JoinSidesSettings, left: Stream, right: Stream) -> Stream:
    """The output of the join: the rows of the left keys, with the column `op`. Raises JobRejected if it cannot have
    updates.
    """
    on, kind = join_keys.pairs(join.on), join.kind
    mine = {name: text for name, text in left.fields.items() if not (left.changes and name == OP)}
    if not left.row_key or left.once:
        message = "its rows have no key by which a corrected row could replace an earlier one"
        problems.add("join.left", message, "make it a table, or a running total by key")
    elif kind in ("right", "full") and {pair.left for pair in on} != set(left.row_key):
        message = f"{kind} gives rows of the right side alone, which have no {', '.join(left.row_key)}"
        problems.add("join.kind", message, "use inner, left, semi or anti, or join on the key of both sides")
    if kind in ("semi", "anti"):
        problems.check()
        fields = {name: text for name, text in mine.items() if name != DELETED}
    else:
        fields = join_keys.beside(problems, on, kind, mine, right.fields)
    problems.output("join", OP, "string", fields)
    problems.check()
    return Stream(fields, left.row_key, changes=True)

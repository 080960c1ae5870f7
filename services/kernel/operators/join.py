"""join: two streams on equal keys and near event times, or a stream with a table on the table's key.

If the left side is a table, or with `emit: updates`, rows replace each other (updating_join.py).

Source: JOBS "join", PROTOCOL 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.schemas.job_operators import Join as JoinSpec
from holdfast.schemas.operator_settings import JoinSettings, JoinSidesSettings
from holdfast.schemas.plans import OperatorPlan, Problem
from holdfast.services.kernel.codecs.fields import DELETED
from holdfast.services.kernel.operators import join_keys
from holdfast.services.kernel.operators.join_keys import Sides
from holdfast.services.kernel.operators.join_range import Range, range_of
from holdfast.services.kernel.operators.kind import Fields, HeldInput, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.stream_join import LEFT_ONLY, Join
from holdfast.services.kernel.operators.table_join import TableJoin
from holdfast.services.kernel.operators.updates import MOVING, updated, updating
from holdfast.services.kernel.operators.updating_join import UpdatingJoin
from holdfast.services.kernel.state.table import Tables


class JoinKind(OperatorKind[JoinSettings]):
    """The kind of operators that join the columns of two inputs. With a table, a left row keeps its key."""

    model = JoinSpec
    made = "rows of two records each"
    table_slots = frozenset({0, 1})

    def describe(self, settings: JoinSettings, inputs: Sequence[Stream]) -> Stream:
        problems, (left, right) = Problems(), inputs
        join_keys.check(problems, settings.join.on, left.fields, right.fields)
        problems.check()
        if updating(settings.join, left.fields, right.fields):
            return updated(problems, settings.join, left, right)
        on, kind = join_keys.pairs(settings.join.on), settings.join.kind
        if kind in LEFT_ONLY:
            return replace(left, hosted=None) if DELETED in right.fields else Stream(left.fields)
        fields = join_keys.beside(problems, on, kind, left.fields, right.fields)
        return replace(left, fields=fields, hosted=None) if DELETED in right.fields else Stream(fields)

    def build(self, plan: OperatorPlan, settings: JoinSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        left, right = inputs
        sides = Sides.of(settings.join, left, right, plan.fields)
        if updating(settings.join, left, right):
            return UpdatingJoin(sides, plan.row_key, settings.left_changes, tables)
        if DELETED in right:
            return TableJoin(sides, tables)
        return Join(sides, _range(settings), settings.keeps_late, tables)

    def problems(self, settings: JoinSettings, tables: Mapping[int, Sequence[str]]) -> Iterator[Problem]:
        join, key = settings.join, tables.get(1)
        right, given = join.right, {"within_s": join.within_s, "between": join.between}
        times = [name for name, value in given.items() if value is not None]
        if len(times) > 1:
            yield Problem(
                "join.between", "stands beside within_s, and both say how far apart rows are", "leave one out"
            )
        if key is None:
            yield from _without_table(join, times, 0 in tables)
            return
        if times:
            yield Problem(f"join.{times[0]}", f"{right} is a table: its rows count at any time", "leave it out")
        if 0 in tables and join.emit == "each":
            message = f"each does not go with {join.left}, which is a table: its rows replace each other"
            yield Problem("join.emit", message, "leave it out")
        if 0 not in tables and join.emit != "updates" and (kind := join.kind) in ("right", "full"):
            message = f"{kind} would give rows of table {right} that no row meets, and they count at any time"
            yield Problem("join.kind", message, "use inner, left, semi or anti")
        if key and sorted(pair.right for pair in join_keys.pairs(join.on)) != sorted(key):
            message = f"is {', '.join(join.on)}, but the key of table {right} is {', '.join(key)}"
            yield Problem("join.on", message, f"on: [{', '.join(key)}]")

    def needs(self, settings: JoinSettings) -> tuple[str, ...]:
        return ("late", "left_rows")

    def tasks(self, settings: JoinSettings, wanted: int | None, widest: int) -> int:
        return 1 if settings.rows_move else super().tasks(settings, wanted, widest)

    def one_task(self, settings: JoinSettings, windowed: bool) -> str:
        return MOVING if settings.rows_move else ""

    def key(self, settings: JoinSettings) -> tuple[str, ...]:
        return self.key_of(settings, 0)

    def key_of(self, settings: JoinSettings, slot: int) -> tuple[str, ...]:
        return tuple(pair[slot] for pair in join_keys.pairs(settings.join.on))

    def stateful(self, settings: JoinSettings) -> bool:
        return True

    def split_by(self, settings: JoinSettings) -> Mapping[str, int] | None:
        return None if _timed(settings) else {"rows": 0}

    def correlated(self, settings: JoinSettings) -> bool:
        return True

    def passing(self, settings: JoinSettings) -> Passing:
        return Passing.NONE if _timed(settings) else Passing.SOME

    def closes(self, settings: JoinSettings) -> bool:
        return _timed(settings)

    def closed_us(self, settings: JoinSettings, watermark: int, slot: int = 0) -> int:
        return _range(settings).open_us(slot, watermark)

    def horizon_us(self, settings: JoinSettings) -> int | None:
        return max(_range(settings).left_us, _range(settings).right_us) if _timed(settings) else None

    def held(self, settings: JoinSettings, newest_us: int) -> HeldInput:
        """The held rows: a row with its own time is output at the latest when its side is no longer open."""
        until, newest, _ = super().held(settings, newest_us)
        if until is None:
            return HeldInput(until, newest)
        left, right = _range(settings).left_us, _range(settings).right_us
        kind = settings.join.kind
        return HeldInput(until, newest, max(right if kind in ("right", "full") else 0, left if kind in _OWN else 0))


_OWN = ("left", "full", "semi", "anti")
"""Kinds that output left rows with their own time."""


def _without_table(join: JoinSidesSettings, times: Sequence[str], left_table: bool) -> Iterator[Problem]:
    """Yields problems of a join whose right side is not a table."""
    if left_table:
        message = f"is a table, and {join.right} on the right is none"
        yield Problem("join.left", message, "exchange the sides: rows on the left meet the table on the right")
    elif not times:
        hint = "give the largest difference of event times, or make the right side a table"
        yield Problem("join.within_s", "is missing: two streams are joined within a time", hint)
    if join.emit is not None and not left_table:
        message = f"is for a join with a table, and {join.right} is none"
        yield Problem("join.emit", message, "leave it out")


def _timed(settings: JoinSettings) -> bool:
    """True if both sides are streams; otherwise the right side is a table."""
    return range_of(settings.join) is not None


def _range(settings: JoinSettings) -> Range:
    found = range_of(settings.join)
    assert found is not None, "both sides are streams"
    return found

"""unnest: a row for each item of a list or entry of a map, with the other columns and the event time of its row.

Source: JOBS "operators".
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.job_operators import Unnest as UnnestSpec
from holdfast.schemas.operator_settings import UnnestSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import map_value, optional, required, schema, with_time
from holdfast.services.kernel.codecs.maps import SHOWN_KEY, SHOWN_VALUE, is_map
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Problems, Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.state.table import Tables


class UnnestKind(OperatorKind[UnnestSettings]):
    """The kind of unnest operators. Output rows have no key: a newer list may be shorter, and old items would
    remain.
    """

    model = UnnestSpec
    made = "items of lists"

    def describe(self, settings: UnnestSettings, inputs: Sequence[Stream]) -> Stream:
        problems, fields, wanted = Problems(), inputs[0].fields, settings.unnest
        column = wanted.column
        if problems.column("unnest.column", column, fields) and not required(fields[column]).startswith(
            ("list<", "map<")
        ):
            hint = "STRING_TO_ARRAY in a select makes a list of a text" if required(fields[column]) == "string" else ""
            problems.add("unnest.column", f"'{column}' is {with_article(fields[column])}, not a list or a map", hint)
        problems.check()
        item, made = _item(required(fields[column])), Fields()
        for name, kind in fields.items():
            if name == column:
                kind = optional(item) if wanted.keep_empty else item
                problems.output("unnest.into", wanted.into or name, kind, made)
            else:
                problems.output("unnest.into", name, kind, made)
        if place := wanted.position:
            problems.output("unnest.position", place, "int?" if wanted.keep_empty else "int", made)
        problems.check()
        return Stream(made, windowed=inputs[0].windowed, once=inputs[0].once)

    def build(self, plan: OperatorPlan, settings: UnnestSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        wanted = settings.unnest
        return Unnest(wanted.column, wanted.into, wanted.position, wanted.keep_empty, output=schema(plan.fields))


def _item(text: str) -> str:
    """The type of what a row is made of: an item of a list, or an entry of a map."""
    if text.startswith("map<"):
        return f"struct<{SHOWN_KEY}: string, {SHOWN_VALUE}: {map_value(text)}>"
    return text[len("list<") : -1].strip()


class Unnest:
    """A task of unnest. Rows keep their order, items that of their list, entries that of their keys.

    Args:
        into: the name of the column in the output; None: unchanged.
        position: the column for the position of the item, from 1.
        keep_empty: keeps a row whose list is empty or null, with null for the item.
    """

    def __init__(
        self, column: str, into: str | None, position: str | None, keep_empty: bool, output: pl.Schema
    ) -> None:
        self._column = column
        self._into = into or column
        self._position = position
        self._keep_empty = keep_empty
        self._nothing = with_time(output).to_frame()

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        filled = pl.col(self._column).list.len() > 0
        if self._keep_empty:  # an empty list would give no row beside a second column
            rows = rows.with_columns(pl.when(filled).then(pl.col(self._column)))
        else:
            rows = rows.filter(filled)
        if not rows.height:
            return Outcome(self._nothing)
        exploded = [self._column]
        if self._position is not None:
            places = pl.int_ranges(1, pl.col(self._column).list.len() + 1)
            rows = rows.with_columns(places.alias(self._position))
            exploded.append(self._position)
        made = rows.explode(exploded)
        if is_map(rows.schema[self._column]):
            made = made.with_columns(pl.col(self._column).struct.rename_fields([SHOWN_KEY, SHOWN_VALUE]))
        made = made.rename({self._column: self._into})
        return Outcome(made.select(pl.col(name).cast(kind) for name, kind in self._nothing.schema.items()))

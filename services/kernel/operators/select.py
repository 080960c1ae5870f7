"""select: computes new columns from each row."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.job_operators import Select
from holdfast.schemas.operator_settings import SelectSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.change_records import OP
from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions import stars
from holdfast.services.kernel.expressions.parsing import (
    ExpressionError,
    column_of,
    compile_expression,
    may_fail,
    name_of,
    result_type,
    source_of,
)
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.rowwise import selected
from holdfast.services.kernel.operators.windows import BOUNDS
from holdfast.services.kernel.state.table import Tables


class SelectKind(OperatorKind[SelectSettings]):
    """The kind of select operators. Rows keep their key, and their windows, if all its columns remain."""

    model = Select
    row_by_row = True

    def describe(self, settings: SelectSettings, inputs: Sequence[Stream]) -> Stream:
        problems, columns, fields = Problems(), schema(inputs[0].fields), Fields()
        kept, starred = set[str](), any(map(stars.is_star, settings.select))
        for index, item in enumerate(settings.select):
            path = f"select[{index}]"
            try:
                for one in stars.expanded([item], list(inputs[0].fields)):
                    name = name_of(one, columns)
                    kind = _type(one, columns, inputs[0].fields)
                    if starred and name in fields:
                        plain = name if name.isidentifier() else f'"{name}"'
                        hint = f"write `* REPLACE ({source_of(one)} AS {plain})`"
                        if column_of(one) == name:
                            hint = "leave it out"
                        problems.add(path, f"there are two columns '{name}', and * has one", hint)
                        continue
                    problems.output(path, name, kind, fields)
                    if column_of(one) == name:
                        kept.add(name)
            except (ExpressionError, ValueError) as error:
                problems.mistakes(path, error)
        problems.check()
        whole = kept.issuperset(inputs[0].row_key)
        windowed = inputs[0].windowed and kept.issuperset(BOUNDS)
        changes = inputs[0].changes and whole and fields.get(OP, "").rstrip("?") == "string"
        return Stream(fields, inputs[0].row_key if whole else (), windowed, once=inputs[0].once, changes=changes)

    def build(self, plan: OperatorPlan, settings: SelectSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        items = list(stars.expanded(settings.select, list(inputs[0])))
        return selected(items, inputs[0], plan.fields, settings.stops)

    def needs(self, settings: SelectSettings) -> tuple[str, ...]:
        return ("on_error",)

    def passing(self, settings: SelectSettings) -> Passing:
        return Passing.SOME if self.delivers(settings) else Passing.ALL

    def delivers(self, settings: SelectSettings) -> bool:
        return not settings.stops and any(map(may_fail, stars.sources(settings.select)))


def _type(item: str, columns: pl.Schema, fields: Fields) -> str:
    if (column := column_of(item)) in fields and name_of(item, columns) == column:
        return fields[column]
    return text_of(result_type(compile_expression(source_of(item), columns), columns))

"""select: computes new columns from each row."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.job_operators import Select
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions.parsing import (
    ExpressionError,
    compile_expression,
    is_bare,
    may_fail,
    name_of,
    result_type,
    source_of,
)
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Params, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.rowwise import selected, stops
from holdfast.services.kernel.operators.windows import BOUNDS
from holdfast.services.kernel.state.table import Tables


class SelectKind(OperatorKind):
    """Rows keep their key, and their windows, if all its columns stay."""

    model = Select
    row_by_row = True

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems, columns, fields = Problems(), schema(inputs[0].fields), Fields()
        for index, item in enumerate(params["select"]):
            path = f"select[{index}]"
            try:
                problems.output(path, name_of(item, columns), _type(item, columns, inputs[0].fields), fields)
            except (ExpressionError, ValueError) as error:
                problems.mistakes(path, error)
        problems.check()
        whole = all(column in params["select"] for column in inputs[0].row_key)
        windowed = inputs[0].windowed and all(bound in params["select"] for bound in BOUNDS)
        return Stream(fields, inputs[0].row_key if whole else (), windowed)

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return selected(plan.params["select"], inputs[0], plan.fields, stops(plan.params))

    def needs(self, params: Params) -> tuple[str, ...]:
        return ("on_error",)

    def passing(self, params: Params) -> Passing:
        return Passing.SOME if self.delivers(params) else Passing.ALL

    def delivers(self, params: Params) -> bool:
        return not stops(params) and any(may_fail(source_of(item)) for item in params["select"])


def _type(item: str, columns: pl.Schema, fields: Fields) -> str:
    if is_bare(item) and item.strip() in fields:
        return fields[item.strip()]
    return text_of(result_type(compile_expression(source_of(item), columns), columns))

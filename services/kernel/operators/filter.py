"""filter: keeps the rows for which an expression is true."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.job_operators import Filter
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.expressions.advice import in_words
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, may_fail, result_type
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Params, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.rowwise import filtered, stops
from holdfast.services.kernel.state.table import Tables


class FilterKind(OperatorKind):
    """The stream stays what it was, with fewer rows."""

    model = Filter
    row_by_row = True

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems, columns = Problems(), schema(inputs[0].fields)
        try:
            kind = result_type(compile_expression(params["filter"], columns), columns)
            if kind != pl.Boolean:
                problems.add("filter", f"is {in_words(kind)}, not true or false", "compare it with something")
        except ExpressionError as error:
            problems.mistakes("filter", error)
        problems.check()
        return inputs[0]

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return filtered(plan.params["filter"], inputs[0], stops(plan.params))

    def needs(self, params: Params) -> tuple[str, ...]:
        return ("on_error",)

    def passing(self, params: Params) -> Passing:
        return Passing.SOME

    def delivers(self, params: Params) -> bool:
        return may_fail(params["filter"]) and not stops(params)

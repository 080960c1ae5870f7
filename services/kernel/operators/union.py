"""union: all rows of several streams with the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holdfast.schemas.job_operators import Union as UnionSpec
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import dtype, optional, schema, with_time
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Params, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome
from holdfast.services.kernel.state.table import Tables


class UnionKind(OperatorKind):
    """A column may be null if it may be in one of the streams. Rows of different streams have no key in common."""

    model = UnionSpec
    row_by_row = True

    def describe(self, params: Params, inputs: Sequence[Stream]) -> Stream:
        problems, first = Problems(), inputs[0].fields
        for index, other in enumerate(inputs[1:], start=1):
            path = f"union[{index}]"
            for name in {**first, **other.fields}:
                if name not in first or name not in other.fields:
                    problems.add(path, f"only one of the streams has the column '{name}'", "add a select")
                elif dtype(first[name]) != dtype(other.fields[name]):
                    problems.add(path, f"'{name}' is {other.fields[name]} here and {first[name]} in the first")
        problems.check()
        nullable = {name for stream in inputs for name, text in stream.fields.items() if text.endswith("?")}
        return Stream({name: optional(text) if name in nullable else text for name, text in first.items()})

    def build(self, plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return Union(schema(plan.fields))

    def passing(self, params: Params) -> Passing:
        return Passing.ALL


class Union:
    """All rows of all inputs, in slot order."""

    def __init__(self, columns: Mapping[str, pl.DataType]) -> None:
        self._nothing = with_time(columns).to_frame()
        self._columns = self._nothing.columns

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        parts = [pl.DataFrame([rows[name] for name in self._columns]) for rows in inputs if rows.height]
        if not parts:
            return Outcome(self._nothing)
        return Outcome(parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True))

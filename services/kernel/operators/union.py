"""union: all rows of several streams, with the same columns or with null for a column that a stream lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holdfast.schemas.job_operators import Union as UnionSpec
from holdfast.schemas.operator_settings import UnionSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import dtype, optional, schema, with_time
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome
from holdfast.services.kernel.state.table import Tables


class UnionKind(OperatorKind[UnionSettings]):
    """The kind of union operators. A column may be null if it may be null in one stream. Output rows have no key."""

    model = UnionSpec
    row_by_row = True

    def describe(self, settings: UnionSettings, inputs: Sequence[Stream]) -> Stream:
        problems, fill = Problems(), settings.fill_missing
        first = {**inputs[0].fields}
        for index, other in enumerate(inputs[1:], start=1):
            path = f"union[{index}]"
            for name in {**first, **other.fields}:
                if fill and name not in first:
                    first[name] = other.fields[name]
                if name not in other.fields and fill:
                    continue
                if name not in first or name not in other.fields:
                    hint = "add a select, or fill_missing: true, by which it is null in the others"
                    problems.add(path, f"only one of the streams has the column '{name}'", hint)
                elif dtype(first[name]) != dtype(other.fields[name]):
                    problems.add(path, f"'{name}' is {other.fields[name]} here and {first[name]} in the first")
        problems.check()
        nullable = {name for stream in inputs for name in first if stream.fields.get(name, "?").endswith("?")}
        return Stream({name: optional(text) if name in nullable else text for name, text in first.items()})

    def build(self, plan: OperatorPlan, settings: UnionSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return Union(schema(plan.fields), [[name for name in plan.fields if name not in one] for one in inputs])

    def passing(self, settings: UnionSettings) -> Passing:
        return Passing.ALL


class Union:
    """A task of union: all rows of all inputs, in slot order.

    lacking: by slot, the columns that the input lacks.
    """

    def __init__(self, columns: Mapping[str, pl.DataType], lacking: Sequence[Sequence[str]]) -> None:
        self._nothing = with_time(columns).to_frame()
        self._columns = self._nothing.columns
        self._nulls = [[pl.lit(None, columns[name]).alias(name) for name in names] for names in lacking]

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        given = [
            rows.with_columns(nulls) if nulls else rows
            for rows, nulls in zip(inputs, self._nulls, strict=True)
            if rows.height
        ]
        parts = [pl.DataFrame([rows[name] for name in self._columns]) for rows in given]
        if not parts:
            return Outcome(self._nothing)
        return Outcome(parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True))

"""output: the rows of one output of an operator with several outputs.

Such an operator puts the rows of all its outputs into one frame: a column with the name of the output, and the columns
of each output, prefixed with its name and null in rows of other outputs. Source: JOBS "Python operators".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from holdfast.schemas.job_operators import Output
from holdfast.schemas.operator_settings import OutputSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import optional, schema, with_time
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome
from holdfast.services.kernel.state.table import Tables
from holdfast.services.kernel.suggestions import suggest

WHICH = "output"
"""The column with the name of the output."""


def column_of(output: str, column: str) -> str:
    """The name of a column in the frame of all outputs."""
    return f"{output}.{column}"


def together(outputs: Mapping[str, Fields]) -> Fields:
    """The columns of the frame of all outputs."""
    columns = {
        column_of(output, name): optional(kind) for output, fields in outputs.items() for name, kind in fields.items()
    }
    return {WHICH: "string", **columns}


class SideOutputKind(OperatorKind[OutputSettings]):
    """The kind of operators that pass on the rows given to one output."""

    model = Output
    row_by_row = True

    def describe(self, settings: OutputSettings, inputs: Sequence[Stream]) -> Stream:
        problems, outputs = Problems(), inputs[0].outputs
        if not outputs:
            problems.add("input", "has not several outputs", "an operator with `outputs` has")
        elif settings.output not in outputs:
            problems.add("output", f"there is no output '{settings.output}'", suggest(settings.output, outputs))
        problems.check()
        return Stream(dict(outputs[settings.output]))

    def build(self, plan: OperatorPlan, settings: OutputSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        return SideOutput(settings.output, plan.fields)

    def passing(self, settings: OutputSettings) -> Passing:
        return Passing.SOME


class SideOutput:
    """A task of output: rows in order of arrival."""

    def __init__(self, output: str, fields: Mapping[str, str]) -> None:
        self._output = output
        self._nothing = with_time(schema(fields)).to_frame()
        columns = [pl.col(column_of(output, name)).alias(name) for name in fields]
        self._columns = [*columns, pl.col(TIME)]

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._nothing)
        return Outcome(rows.filter(pl.col(WHICH) == self._output).select(self._columns))

"""aggregate: by key, and by window of event time if the operator has one; without a window, running totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from holdfast.schemas.job_operators import Aggregate
from holdfast.schemas.operator_settings import AggregateSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions.parsing import ExpressionError
from holdfast.services.kernel.operators import accumulators, aggregate_texts
from holdfast.services.kernel.operators.aggregation import Aggregation
from holdfast.services.kernel.operators.calendar_windows import zone_problem
from holdfast.services.kernel.operators.computed import Computed
from holdfast.services.kernel.operators.kind import (
    EVERY_TASK,
    Fields,
    HeldInput,
    OperatorKind,
    Problems,
    Stream,
)
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.operators.rowwise import Screened
from holdfast.services.kernel.operators.running_values import EACH
from holdfast.services.kernel.operators.sessions import Sessions
from holdfast.services.kernel.operators.totals import Totals
from holdfast.services.kernel.operators.window_shapes import Session, shape_of
from holdfast.services.kernel.operators.windows import BOUNDS, Windows
from holdfast.services.kernel.state.table import Tables


class AggregateKind(OperatorKind[AggregateSettings]):
    """The kind of operators that output a row for each key, and each window. Without a key there is one group."""

    model = Aggregate
    made = "rows of many records each"

    def describe(self, settings: AggregateSettings, inputs: Sequence[Stream]) -> Stream:
        problems, columns, fields = Problems(), schema(inputs[0].fields), Fields()
        key, window, each = settings.key, settings.window, settings.emit == "each"
        for index, name in enumerate(key):
            if problems.key(f"key[{index}]", name, inputs[0].fields):
                problems.output(f"key[{index}]", name, inputs[0].fields[name], fields)
        for name, text in settings.aggregate.items():
            path = f"aggregate.{name}"
            try:
                parsed = aggregate_texts.parse(name, text, columns)
                problems.output(path, name, text_of(parsed.kind, may_be_null=parsed.may_be_null), fields)
                for one in parsed.aggregates if each else ():
                    if one.function not in EACH:
                        problems.add(path, f"{one.function} cannot be given after each record", "use emit: updates")
            except (ExpressionError, ValueError) as error:
                problems.mistakes(path, error)
        if window and each:
            hint = "use updates, or leave out window"
            problems.add("emit", "each goes with running totals, not with windows", hint)
        if settings.forget_after_s is not None and (window or settings.emit == "final"):
            other = "windows, which are forgotten when they close" if window else "final, which is given at the end"
            problems.add("forget_after_s", f"does not go with {other}", "leave it out")
        if window and window.gap_s is not None and settings.emit == "updates":
            problems.add("emit", "updates does not go with sessions: their bounds move until they close", "use final")
        if window and window.zone and (said := zone_problem(window.zone))[0]:
            problems.add("window.zone", *said)
        for name in BOUNDS if window else ():
            problems.output("window", name, "timestamp", fields)
        problems.check()
        row_key = (*key, *BOUNDS) if window else key
        final, sessions = bool(window) and settings.emit == "final", bool(window and window.gap_s)
        return Stream(fields, row_key, windowed=final and not sessions, once=final)

    def build(
        self, plan: OperatorPlan, settings: AggregateSettings, inputs: Sequence[Fields], tables: Tables
    ) -> Operator:
        columns, output = schema(inputs[0]), schema(plan.fields)
        parsed = {name: aggregate_texts.parse(name, text, columns) for name, text in settings.aggregate.items()}
        failing = list[pl.Expr]()
        screens = {
            name for name, text in settings.aggregate.items() if settings.on_error and aggregate_texts.may_fail(text)
        }
        aggregates = [
            self._screened(aggregate, failing) if name in screens else aggregate
            for name, one in parsed.items()
            for aggregate in one.aggregates
        ]
        computed = [one.expression.alias(name) for name, one in parsed.items() if one.expression is not None]
        if computed:
            output = _of_aggregates(output, aggregates, parsed)
        made: Operator
        made_of, keep_late = Aggregation(list(settings.key), aggregates, output), settings.keeps_late
        if not settings.window:
            forget_s = settings.forget_after_s
            made = Totals(made_of, settings.emit, None if forget_s is None else round(forget_s * 1_000_000), tables)
        elif isinstance(shape := shape_of(settings.window), Session):
            made = Sessions(made_of, shape, keep_late, tables)
        else:
            made = Windows(made_of, shape, settings.emit, keep_late, tables=tables)
        if computed:
            made = Computed(made, computed, plan.fields)
        return Screened(made, failing, inputs[0], settings.stops) if failing else made

    @staticmethod
    def _screened(aggregate: accumulators.Aggregate, failing: list[pl.Expr]) -> accumulators.Aggregate:
        """The aggregate over a column that is computed first. Adds the computation to `failing`: a row at which it
        fails is refused.
        """
        if aggregate.argument is None:
            return aggregate
        column = f"_of_{aggregate.name}"
        failing.append(aggregate.argument.alias(column))
        return replace(aggregate, argument=pl.col(column))

    def needs(self, settings: AggregateSettings) -> tuple[str, ...]:
        return ("late", "on_error") if settings.window else ("on_error",)

    def delivers(self, settings: AggregateSettings) -> bool:
        """True if it writes dead letters. Plans of former versions have no `on_error`."""
        refuses = settings.on_error and not settings.stops
        return super().delivers(settings) or bool(
            refuses and any(map(aggregate_texts.may_fail, settings.aggregate.values()))
        )

    def key(self, settings: AggregateSettings) -> tuple[str, ...]:
        return settings.key

    def tasks(self, settings: AggregateSettings, wanted: int | None, widest: int) -> int:
        return super().tasks(settings, wanted, widest) if self.key(settings) else 1

    def one_task(self, settings: AggregateSettings, windowed: bool) -> str:
        return "" if self.key(settings) else "without a key there is one group, and one task"

    def stateful(self, settings: AggregateSettings) -> bool:
        return True

    def split_by(self, settings: AggregateSettings) -> Mapping[str, int] | None:
        if not settings.window:
            return {"totals": 0}
        if isinstance(shape_of(settings.window), Session):
            return {"sessions": 0}
        return {"panes": 8, "live": EVERY_TASK}

    def closes(self, settings: AggregateSettings) -> bool:
        return bool(settings.window)

    def closed_us(self, settings: AggregateSettings, watermark: int, slot: int = 0) -> int:
        assert settings.window is not None, "it closes windows"
        return shape_of(settings.window).closed_us(watermark)

    def horizon_us(self, settings: AggregateSettings) -> int | None:
        return shape_of(settings.window).horizon_us if settings.window else None

    def held(self, settings: AggregateSettings, newest_us: int) -> HeldInput:
        return shape_of(settings.window).held(newest_us) if settings.window else super().held(settings, newest_us)


def _of_aggregates(
    output: pl.Schema, aggregates: Sequence[accumulators.Aggregate], parsed: Mapping[str, aggregate_texts.Parsed]
) -> pl.Schema:
    """The columns before computed columns are added: the aggregates' columns in place of the computed ones."""
    found = {name: kind for name, kind in output.items() if name not in parsed}
    return pl.Schema({**found, **{one.name: one.result for one in aggregates}})

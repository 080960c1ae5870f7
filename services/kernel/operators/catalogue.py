"""The one table of operators: what each makes of its inputs, and how it is built.

Source: JOBS "operators". A new operator is one line in KINDS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from schemas.cuts import NO_WATERMARK
from schemas.plans import OperatorPlan, Problem
from services.kernel.codecs.fields import DELETED, TIME, dtype, optional, schema, text_of, with_time
from services.kernel.errors import JobRejected
from services.kernel.expressions.parsing import (
    ExpressionError,
    compile_expression,
    is_bare,
    name_of,
    result_type,
    source_of,
)
from services.kernel.operators import accumulators
from services.kernel.operators.join import Join
from services.kernel.operators.operator import BatchContext, Operator
from services.kernel.operators.python import PythonTask
from services.kernel.operators.python import output_fields as python_fields
from services.kernel.operators.rowwise import Union, filtered, selected
from services.kernel.operators.running import EACH
from services.kernel.operators.table_join import TableJoin
from services.kernel.operators.top import Top
from services.kernel.operators.totals import Totals
from services.kernel.operators.windows import END, START, Windows
from services.kernel.state.table import Tables
from services.kernel.suggestions import suggest

Fields = dict[str, str]
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """What an operator puts out. windowed: rows are final results of windows, each row once.

    hosted: what Spark says of the plan of an operator that it runs, fields of a SparkPlan by name.
    """

    fields: Fields
    row_key: tuple[str, ...] = ()
    windowed: bool = False
    hosted: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _Problems:
    found: list[Problem] = field(default_factory=list)

    def add(self, path: str, message: str, hint: str = "") -> None:
        self.found.append(Problem(path, message, hint))

    def column(self, path: str, name: str, fields: Mapping[str, str]) -> bool:
        """Notes an unknown column; True if it is known."""
        if name not in fields:
            self.add(path, f"there is no column '{name}'", suggest(name, fields))
        return name in fields

    def key(self, path: str, name: str, fields: Mapping[str, str]) -> bool:
        """Notes an unknown column, or one that cannot be a key."""
        if not self.column(path, name, fields):
            return False
        if nested := dtype(fields[name]).is_nested():
            self.add(
                path, f"'{name}' is a {fields[name]}, which is no key", "take out what tells rows apart by a select"
            )
        return not nested

    def check(self) -> None:
        if self.found:
            raise JobRejected(self.found)


# -- what comes out ---------------------------------------------------------------------------------------------------


def _describe_filter(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems, columns = _Problems(), schema(inputs[0].fields)
    try:
        kind = result_type(compile_expression(params["filter"], columns), columns)
        if kind != pl.Boolean:
            problems.add("filter", f"is of type {kind}, not bool", "compare it with something")
    except ExpressionError as error:
        problems.add("filter", str(error))
    problems.check()
    return inputs[0]


def _describe_select(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems, columns, fields = _Problems(), schema(inputs[0].fields), dict[str, str]()
    for index, item in enumerate(params["select"]):
        try:
            name = name_of(item)
            _add_field(problems, f"select[{index}]", name, _selected(item, columns, inputs[0].fields), fields)
        except (ExpressionError, ValueError) as error:
            problems.add(f"select[{index}]", str(error))
    problems.check()
    kept = [column for column in inputs[0].row_key if column in params["select"]]
    whole = len(kept) == len(inputs[0].row_key)
    windowed = inputs[0].windowed and START in params["select"] and END in params["select"]
    return Stream(fields, inputs[0].row_key if whole else (), windowed)


def _selected(item: str, columns: pl.Schema, fields: Fields) -> str:
    if is_bare(item) and item.strip() in fields:
        return fields[item.strip()]
    return text_of(result_type(compile_expression(source_of(item), columns), columns))


def _add_field(problems: _Problems, path: str, name: str, kind: str, fields: Fields) -> None:
    if name.startswith("_"):
        problems.add(path, f"the name '{name}' begins with an underscore", "such names belong to holdfast")
    elif name in fields:
        problems.add(path, f"there are two columns '{name}'", "give one another name with AS")
    else:
        fields[name] = kind


def _describe_aggregate(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems, columns, fields = _Problems(), schema(inputs[0].fields), dict[str, str]()
    key, window = params.get("key") or [], params.get("window")
    for index, name in enumerate(key):
        if problems.key(f"key[{index}]", name, inputs[0].fields):
            _add_field(problems, f"key[{index}]", name, inputs[0].fields[name], fields)
    for name, text in params["aggregate"].items():
        try:
            aggregate = accumulators.parse(name, text, columns)
            _add_field(problems, f"aggregate.{name}", name, _aggregated(aggregate), fields)
            if params.get("emit") == "each" and aggregate.function not in EACH:
                message = f"{aggregate.function} cannot be given after each record"
                problems.add(f"aggregate.{name}", message, "use emit: updates")
        except (ExpressionError, ValueError) as error:
            problems.add(f"aggregate.{name}", str(error))
    if window and params.get("emit") == "each":
        problems.add("emit", "each goes with running totals, not with windows", "use updates, or leave out window")
    if window:
        for name in (START, END):
            _add_field(problems, "window", name, "timestamp", fields)
    problems.check()
    row_key = (*key, START, END) if window else tuple(key)
    return Stream(fields, row_key, bool(window) and params.get("emit") == "final")


def _aggregated(aggregate: accumulators.Aggregate) -> str:
    return text_of(aggregate.result, may_be_null=aggregate.function not in ("count", "count_distinct"))


def _describe_join(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """Beside a table each left row stays what it was, so it keeps its key."""
    problems, (left, right), on = _Problems(), inputs, params["join"]["on"]
    for index, name in enumerate(on):
        both = [problems.key(f"join.on[{index}]", name, side.fields) for side in (left, right)]
        if all(both) and dtype(left.fields[name]) != dtype(right.fields[name]):
            problems.add(
                f"join.on[{index}]",
                f"'{name}' is {left.fields[name]} on the left and {right.fields[name]} on the right",
                "give both sources the same type",
            )
    problems.check()
    outer, table = params["join"].get("kind") == "left", DELETED in right.fields
    names = _right_names(on, left.fields, right.fields)
    for name, as_name in names.items():
        if as_name in left.fields or list(names.values()).count(as_name) > 1:
            problems.add("join.right", f"its column '{name}' would be a second '{as_name}'", "rename it with a select")
    problems.check()
    others = {as_name: optional(right.fields[name]) if outer else right.fields[name] for name, as_name in names.items()}
    fields = {**left.fields, **others}
    return Stream(fields, left.row_key, left.windowed) if table else Stream(fields)


def _right_names(on: Sequence[str], left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
    """Output names of the right columns; one that clashes gets a suffix."""
    return {name: f"{name}_right" if name in left else name for name in right if name not in (*on, DELETED)}


def _describe_top(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems, by = _Problems(), params["top"]["by"]
    problems.key("top.by", by, inputs[0].fields)
    if "rank" in inputs[0].fields:
        problems.add("top", "its input has a column 'rank' already", "rename it with a select")
    problems.check()
    row_key = (START, END, "rank") if inputs[0].windowed else ("rank",)
    return Stream({**inputs[0].fields, "rank": "int"}, row_key, inputs[0].windowed)


def _describe_union(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems, first = _Problems(), inputs[0].fields
    for index, other in enumerate(inputs[1:], start=1):
        for name in {**first, **other.fields}:
            if name not in first or name not in other.fields:
                problems.add(f"union[{index}]", f"only one of the streams has the column '{name}'", "add a select")
            elif dtype(first[name]) != dtype(other.fields[name]):
                problems.add(f"union[{index}]", f"'{name}' is {other.fields[name]} here and {first[name]} in the first")
    problems.check()
    fields = {n: optional(t) if any(s.fields[n].endswith("?") for s in inputs) else t for n, t in first.items()}
    return Stream(fields)


def _describe_python(params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    problems = _Problems()
    for index, name in enumerate(params.get("key") or []):
        problems.key(f"key[{index}]", name, inputs[0].fields)
    try:
        fields = python_fields(params["python"], params.get("params") or {}, inputs[0].fields)
        schema(fields)
    except ValueError as error:
        problems.add("python", str(error))
        fields = {}
    problems.check()
    return Stream(fields)


# -- how it is built --------------------------------------------------------------------------------------------------


def _build_filter(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    return filtered(plan.params["filter"], inputs[0], plan.params.get("on_error") == "fail")


def _build_select(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    return selected(plan.params["select"], inputs[0], plan.fields, plan.params.get("on_error") == "fail")


def _build_aggregate(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    params, columns, output = plan.params, schema(inputs[0]), schema(plan.fields)
    aggregates = [accumulators.parse(name, text, columns) for name, text in params["aggregate"].items()]
    key, emit, window = params.get("key") or [], params["emit"], params.get("window")
    if not window:
        return Totals(key, aggregates, emit, output, tables)
    size, slide = (round(window[name] * _SECOND_US) for name in ("size_s", "slide_s"))
    return Windows(key, aggregates, size, slide, emit, params.get("late") == "topic", output, tables)


def _build_join(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    join, (left, right) = plan.params["join"], inputs
    names = _right_names(join["on"], left, right)
    if DELETED in right:
        return TableJoin(join["on"], join["kind"], schema(left), schema(right), names, schema(plan.fields), tables)
    return Join(
        join["on"],
        round(join["within_s"] * _SECOND_US),
        join["kind"],
        plan.params.get("late") == "topic",
        with_time(schema(left)),
        with_time(schema(right)),
        names,
        schema(plan.fields),
        tables,
    )


def _build_top(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    windowed = START in plan.row_key
    return Top(plan.params["top"]["k"], plan.params["top"]["by"], inputs[0], _input_key(plan), windowed, tables)


def _input_key(plan: OperatorPlan) -> tuple[str, ...]:
    """By which the rows of a top's input replace each other."""
    return tuple(plan.params.get("input_row_key") or ())


def _build_union(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    return Union(schema(plan.fields))


def _build_python(plan: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    return PythonTask(plan, inputs[0], tables, tables.task)


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the catalogue."""

    describe: Callable[[Mapping[str, Any], Sequence[Stream]], Stream]
    build: Callable[[OperatorPlan, Sequence[Fields], Tables], Operator]


KINDS: dict[str, Kind] = {
    "filter": Kind(_describe_filter, _build_filter),
    "select": Kind(_describe_select, _build_select),
    "aggregate": Kind(_describe_aggregate, _build_aggregate),
    "join": Kind(_describe_join, _build_join),
    "top": Kind(_describe_top, _build_top),
    "union": Kind(_describe_union, _build_union),
    "python": Kind(_describe_python, _build_python),
}


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """What the operator puts out.

    Raises:
        JobRejected: with all its problems, paths relative to the operator.
    """
    if kind == "spark":
        problem = Problem("spark", "Spark operators run on a cluster only", "start one with `holdfast up`, and submit")
        raise JobRejected([problem])
    return KINDS[kind].describe(params, inputs)


def build(operator: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    """One task of a planned operator. inputs: fields by slot."""
    return KINDS[operator.kind].build(operator, inputs, tables)


def warm_up(operator: OperatorPlan, inputs: Sequence[Fields]) -> None:
    """Runs one made-up batch of nulls through a throw-away task, so that lazy imports and first kernels are paid."""
    from services.kernel.state.image import MemoryImage  # a warm-up alone needs a store
    from services.kernel.state.keyed import StateStore

    if operator.kind == "python":
        return
    task = build(operator, inputs, StateStore(MemoryImage()).of_task("warm-up"))
    rows = [_made_up(fields) for fields in inputs]
    task.on_batch(rows, BatchContext(1, NO_WATERMARK, 2 * _SECOND_US))


def _made_up(fields: Fields) -> pl.DataFrame:
    columns: Iterator[pl.Series] = (pl.Series(name, [None, None], dtype=kind) for name, kind in schema(fields).items())
    return pl.DataFrame([*columns, pl.Series(TIME, [0, _SECOND_US])])

"""The list of operators. Each operator's file describes and builds it.

Source: JOBS "operators". A new operator is a file, its section in schemas/job_operators.py, and one line in OPERATORS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import polars as pl

from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.operator_settings import operator_settings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import TIME, schema
from holdfast.services.kernel.operators.aggregate import AggregateKind
from holdfast.services.kernel.operators.asof_join import AsOfJoinKind
from holdfast.services.kernel.operators.dedup import DedupKind
from holdfast.services.kernel.operators.filter import FilterKind
from holdfast.services.kernel.operators.join import JoinKind
from holdfast.services.kernel.operators.kind import Fields, Kind, OperatorKind, SinkKind, SourceKind, Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator
from holdfast.services.kernel.operators.pace import PaceKind
from holdfast.services.kernel.operators.python import PythonKind
from holdfast.services.kernel.operators.select import SelectKind
from holdfast.services.kernel.operators.side_output import SideOutputKind
from holdfast.services.kernel.operators.spark import SparkKind
from holdfast.services.kernel.operators.top import TopKind
from holdfast.services.kernel.operators.union import UnionKind
from holdfast.services.kernel.operators.unnest import UnnestKind
from holdfast.services.kernel.state.table import Tables

__all__ = ["KINDS", "OPERATORS", "Build", "Stream", "build", "describe", "warm_up"]

_SECOND_US = 1_000_000

_LISTED: tuple[OperatorKind[Any], ...] = (
    FilterKind(),
    SelectKind(),
    AggregateKind(),
    JoinKind(),
    AsOfJoinKind(),
    TopKind(),
    UnionKind(),
    UnnestKind(),
    DedupKind(),
    PaceKind(),
    PythonKind(),
    SideOutputKind(),
    SparkKind(),
)

OPERATORS: dict[str, OperatorKind[Any]] = {kind.name: kind for kind in _LISTED}
KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (SourceKind(), SinkKind(), *_LISTED)}
"""The kinds of all parts of a plan."""

Build = Callable[[OperatorPlan, Sequence[Fields], Tables], Operator]
"""Makes one task of a planned operator. A worker has its own function for code in a process of its own."""


def describe(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
    """The output of the operator.

    Raises:
        JobRejected: the operator has problems; it has all of them, with paths relative to the operator.
    """
    return OPERATORS[kind].describe(operator_settings(kind, params), inputs)


def build(operator: OperatorPlan, inputs: Sequence[Fields], tables: Tables) -> Operator:
    """Builds one task of a planned operator.

    inputs: the fields of each slot.
    """
    kind, settings = OPERATORS[operator.kind], operator.settings
    return kind.build(operator, settings, inputs, tables if kind.stateful(settings) else _NoTables(tables.task))


class _NoTables:
    """The tables of an operator without state: the first use of a table is an error."""

    def __init__(self, task: str) -> None:
        self.task = task

    def table(self, name: str, prefix_bytes: int = 0) -> NoReturn:
        raise AssertionError(f"{self.task} asks for table {name}, but its kind says that it keeps no state")


def warm_up(operator: OperatorPlan, inputs: Sequence[Fields]) -> None:
    """Runs one invented batch of nulls through a temporary task, so that lazy imports and first kernels are loaded."""
    from holdfast.services.kernel.state.image import MemoryImage  # a warm-up alone needs a store
    from holdfast.services.kernel.state.store import StateStore

    if not OPERATORS[operator.kind].warms_up:
        return
    task = build(operator, inputs, StateStore(MemoryImage()).of_task("warm-up"))
    rows = [_made_up(fields) for fields in inputs]
    task.on_batch(rows, BatchContext(1, NO_WATERMARK, 2 * _SECOND_US))


def _made_up(fields: Fields) -> pl.DataFrame:
    columns: Iterator[pl.Series] = (pl.Series(name, [None, None], dtype=kind) for name, kind in schema(fields).items())
    return pl.DataFrame([*columns, pl.Series(TIME, [0, _SECOND_US])])

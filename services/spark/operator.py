"""The user's operator: its function or query, its inputs, and the conversion of its result.

Source: JOBS "A job file", PROTOCOL 12.
"""

from __future__ import annotations

import functools
import importlib
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from holdfast.schemas.plans import SparkInput, SparkPlan
from holdfast.services.kernel.codecs.fields import TIME, required
from holdfast.services.kernel.codecs.marked import BEAT, ORIGIN, RAW, REACHED, STAMP
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.kernel.operators.side_output import WHICH, column_of
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.suggestions import did_you_mean
from holdfast.services.spark.columns import spark_type
from holdfast.services.spark.records import decoded, observed

_NAMING = threading.Lock()
"""Lock of the views' names. Operators share a session with one view of a name, so a query must be bound before another
operator replaces the view."""

WINDOW, START, END = "window", "window_start", "window_end"

ONLY = ""
"""Name of the output of an operator with a single output."""


class OperatorFault(HoldfastError):
    """The user's code cannot be an operator; the message tells a person why."""


def result_of(plan: SparkPlan, records: Callable[[SparkInput], DataFrame], allow: Sequence[str] | None) -> DataFrame:
    """The rows of all outputs of the operator, for Kafka records of its inputs; errors as in `apply`."""
    given = {one.name: decoded(one, records(one), observed(index)) for index, one in enumerate(plan.inputs)}
    return united(plan, apply(plan, given, allow))


def apply(plan: SparkPlan, given: Mapping[str, DataFrame], allow: Sequence[str] | None) -> dict[str, DataFrame]:
    """The outputs of the operator for its inputs, both by name. A single output has the name ONLY.

    Raises:
        OperatorFault: the function raises, returns no streaming DataFrame, or returns other outputs than the plan
            names.
    """
    if plan.sql:
        return {ONLY: queried(plan.sql, {one.name: _with_watermark(one, given[one.name]) for one in plan.inputs})}
    function = _load(plan.entry, allow)
    try:
        result = function(**given, **plan.params) if plan.more else function(given[plan.name], **plan.params)
    except Exception as error:
        raise OperatorFault(_raised(plan.entry, error)) from error
    found = _by_name(plan, result)
    for name, one in found.items():
        what = f"{plan.entry} returned for '{name}'" if name else f"{plan.entry} returned"
        if not isinstance(one, DataFrame):
            raise OperatorFault(f"{what} {_kind(one)}, not a DataFrame: does it lack a return?")
        if not one.isStreaming:
            raise OperatorFault(f"{what} a DataFrame that does not come from its input")
    return found


def _by_name(plan: SparkPlan, result: Any) -> dict[str, Any]:
    """The returned outputs, in the order of the job file."""
    if not plan.outputs:
        if isinstance(result, Mapping):
            own = f"[{', '.join(map(str, result))}]"
            raise OperatorFault(f"{plan.entry} returned a dict: name its outputs in the job file, `outputs: {own}`")
        return {ONLY: result}
    if not isinstance(result, Mapping):
        names = ", ".join(f"'{name}': ..." for name in plan.outputs)
        raise OperatorFault(
            f"{plan.entry} returned {_kind(result)}, and the job file names outputs: return {{{names}}}"
        )
    if set(result) != set(plan.outputs):
        own = f"[{', '.join(map(str, result))}]"
        wanted = ", ".join(plan.outputs)
        raise OperatorFault(f"{plan.entry} returned the outputs {own}, and the job file names [{wanted}]")
    return {name: result[name] for name in plan.outputs}


def queried(sql: str, given: Mapping[str, DataFrame]) -> DataFrame:
    """The result of a query over tables."""
    session = next(iter(given.values())).sparkSession
    with _NAMING:
        for name, table in given.items():
            table.createOrReplaceTempView(name)
        return session.sql(sql)


def _with_watermark(one: SparkInput, given: DataFrame) -> DataFrame:
    """The input with the watermark of its source for a query, because SQL has no syntax for one. A function sets its
    own."""
    if not one.event_time:
        return given
    return given.withWatermark(one.event_time, f"{one.lateness_s} seconds")


def _load(entry: str, allow: Sequence[str] | None) -> Callable[..., object]:
    module, _, name = entry.partition(":")
    if allow is not None and not any(module == one or module.startswith(f"{one}.") for one in allow):
        raise OperatorFault(f"module {module} is not on the allow-list: start with HOLDFAST_PLUGINS={module}")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise OperatorFault(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(found, name, None)
    if not callable(function):
        known = [one for one in vars(found) if callable(vars(found)[one])]
        raise OperatorFault(f"{module} has no function {name}: {did_you_mean(name, known) or 'define it there'}")
    result: Callable[..., object] = function
    return result


def _kind(value: object) -> str:
    return "nothing" if value is None else with_article(type(value).__name__)


def _raised(entry: str, error: Exception) -> str:
    """The error with the last line of the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if "pyspark" not in frame.filename and "py4j" not in frame.filename]
    at = f" at {own[-1].filename.rpartition('/')[2]}:{own[-1].lineno}" if own else ""
    return f"{entry} raised {type(error).__name__}{at}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of an error. Spark's errors continue with plans and stack traces that do not help a user."""
    text = str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0][:500]


# -- out --------------------------------------------------------------------------------------------------------------


def flattened(result: DataFrame) -> DataFrame:
    """The result with Spark's column `window` split into window_start and window_end."""
    if WINDOW not in result.columns or not _is_window(result):
        return result
    columns: list[Column] = []
    for name in result.columns:
        if name == WINDOW:
            columns += [F.col(f"{WINDOW}.start").alias(START), F.col(f"{WINDOW}.end").alias(END)]
        else:
            columns.append(F.col(f"`{name}`"))
    return result.select(*columns)


def _is_window(result: DataFrame) -> bool:
    kind = result.schema[WINDOW].dataType
    return isinstance(kind, StructType) and kind.names == ["start", "end"]


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The output column with the event time of a row.

    Attributes:
        name: name of the column; empty for none.
        timed: True if Spark has a watermark for it.
    """

    name: str = ""
    timed: bool = False


def time_column(result: DataFrame, event_time: str, watermark: bool) -> TimeColumn:
    """The column with the event time in an operator's result, before any conversion.

    Args:
        event_time: event-time column of the input.
        watermark: True if the plan has a watermark.
    """
    marked = [field.name for field in result.schema.fields if "spark.watermarkDelayMs" in (field.metadata or {})]
    if WINDOW in result.columns and _is_window(result):
        return TimeColumn(END, watermark)
    if marked and _is_time(result, marked[0]):
        return TimeColumn(marked[0], True)
    if _is_time(result, END):
        return TimeColumn(END, watermark)
    return TimeColumn(event_time) if _is_time(result, event_time) else TimeColumn()


def _is_time(result: DataFrame, name: str) -> bool:
    return name in result.columns and isinstance(result.schema[name].dataType, TimestampType | TimestampNTZType)


def united(plan: SparkPlan, outputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all outputs: a column with the output's name, the columns of each output with that name as prefix,
    and the event time. A single output is returned unchanged."""
    if ONLY in outputs:
        return outputs[ONLY]
    parts = []
    for output, result in outputs.items():
        flat, time = flattened(result), time_column(result, plan.event_time, False).name
        columns = [F.col(f"`{name}`").alias(column_of(output, name)) for name in flat.columns]
        parts.append(flat.select(F.lit(output).alias(WHICH), *columns, _micros(time).alias(TIME)))
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def output(plan: SparkPlan, result: DataFrame) -> DataFrame:
    """The columns declared in the plan, then the event time in microseconds (null for rows without one)."""
    flat = flattened(result)
    columns = [F.col(f"`{name}`").cast(spark_type(text)).alias(name) for name, text in plan.output.items()]
    return flat.select(*columns, F.col(TIME) if plan.outputs else _micros(plan.time).alias(TIME))


def _micros(time: str) -> Column:
    """The event time of rows from its column, in microseconds; null without a column."""
    if not time:
        return F.lit(None).cast("long")
    micros: Column = F.unix_micros(F.col(f"`{time}`").cast("timestamp"))
    return micros - 1 if time == END else micros


def written(plan: SparkPlan, rows: DataFrame, mark: str) -> DataFrame:
    """Rows of real-time mode as Kafka records that kernel/marked reads. `mark` is the column with the origin of a
    row.
    """
    columns = [_as_json(F.col(f"`{name}`"), text).alias(f"c{i}") for i, (name, text) in enumerate(plan.output.items())]
    time = F.coalesce(_micros(plan.time), F.col(f"{mark}.{STAMP}"))
    said = [F.col(f"{mark}.offset").alias(ORIGIN), *(F.col(f"{mark}.{name}") for name in (REACHED, RAW, BEAT, STAMP))]
    value = F.to_json(F.struct(*said, time.alias(TIME), *columns))
    return rows.select(value.alias("value"), (F.col(f"{mark}.partition") + 1).alias("partition"))


def _as_json(column: Column, text: str) -> Column:
    """A column as JSON without loss: numbers of JSON lose digits and have no infinity."""
    kind = required(text)
    typed = column.cast(spark_type(text))
    if kind == "timestamp":
        return F.unix_micros(typed)
    if kind == "date":
        return F.unix_date(typed)
    if kind == "bytes":
        return F.base64(typed)
    return typed.cast("string") if kind == "float" or kind.startswith("decimal") else typed


def made_up(spark: SparkSession, given: SparkInput) -> DataFrame:
    """A stream with the columns of an input, without Kafka, for the analysis of an operator."""
    rate = spark.readStream.format("rate").load()
    return rate.select(*(F.lit(None).cast(spark_type(text)).alias(name) for name, text in given.fields.items()))


def describe(result: DataFrame) -> list[tuple[str, Any, bool]]:
    """(name, Spark type, nullable) of each output column."""
    return [(field.name, field.dataType, field.nullable) for field in flattened(result).schema.fields]

"""Kafka records of an input as rows in Spark: decoded like those of a source task, and counted in passing.

Source: PROTOCOL 3 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.schemas.dead_letters import MAX_RAW_BYTES
from holdfast.schemas.plans import SparkInput
from holdfast.services.kernel.codecs.fields import nullable, required
from holdfast.services.kernel.codecs.marked import RAW, REACHED, STAMP
from holdfast.services.spark.columns import spark_schema
from holdfast.services.spark.core.watermark import MAX_PARTITIONS

_TO_TIMESTAMP: Mapping[str, Callable[[Column], Column]] = {
    "s": F.timestamp_seconds,
    "ms": F.timestamp_millis,
    "us": F.timestamp_micros,
    "ns": lambda column: F.timestamp_micros((column / 1000).cast("long")),
}

WATERMARK = "watermark"
"""The header with a sink task's watermark: no later row is older."""

_WRONG = "_wrong"


def observed(index: int) -> str:
    """The name of the counts of an input's records in a micro-batch; see `observing`."""
    return f"observed_{index}"


def decoded(given: SparkInput, records: DataFrame, counted: str) -> DataFrame:
    """The rows of Kafka records with JSON objects as values: the columns of the input. The counts for `observing` are
    made in passing, under the name `counted`."""
    parsed = _parsed(given, records)
    counts = [F.count(F.lit(1)).alias("read"), F.count_if(_unfit(given)).alias("unfit"), *_reached(given)]
    fit = parsed.observe(counted, *counts).filter(~_unfit(given))
    return fit.select(*(_column(given, name, text) for name, text in given.fields.items()))


def _reached(given: SparkInput) -> list[Column]:
    """The newest time of the rows by partition, microseconds: their writer's watermark, otherwise the newest event
    time, otherwise Kafka's timestamp."""
    if given.writers:
        own = F.filter("headers", lambda header: header["key"] == WATERMARK)
        reached = F.get(own, F.lit(0))["value"].cast("string").cast("long")
    elif given.event_time:
        reached = F.unix_micros(_column(given, given.event_time, given.fields[given.event_time]).cast("timestamp"))
    else:
        reached = F.unix_micros("timestamp")
    lanes = partitions(given)
    return [
        F.max(F.when((F.col("partition") % lanes == lane) & ~_unfit(given), reached)).alias(f"reached_{lane}")
        for lane in range(lanes)
    ]


def marked(given: SparkInput, records: DataFrame, *, timed: bool) -> DataFrame:
    """Kafka records of a source with the marks of real-time mode, see kernel/marked. `timed` is True if rows of the
    output have an event time."""
    parsed = _parsed(given, records).withColumn(STAMP, F.unix_micros("timestamp"))
    reached = F.col(STAMP)
    if given.event_time and timed:
        reached = F.unix_micros(_column(given, given.event_time, given.fields[given.event_time]).cast("timestamp"))
    raw = F.base64(F.substring(F.coalesce("value", F.lit(b"")), 1, MAX_RAW_BYTES + 1))
    return parsed.withColumns({RAW: F.when(_unfit(given), raw), REACHED: F.when(~_unfit(given), reached)})


def record_columns(given: SparkInput) -> dict[str, Column]:
    """The columns of the operator's input for a record that is a row."""
    return {name: _column(given, name, text) for name, text in given.fields.items()}


def partitions(given: SparkInput) -> int:
    """The number of input partitions with a watermark of their own. A later partition shares that of an older one."""
    return min(len(given.first), MAX_PARTITIONS)


def unfit(given: SparkInput, records: DataFrame) -> DataFrame:
    """The records that are not rows of the plan's fields, as Kafka returned them."""
    return _parsed(given, records).filter(_unfit(given)).drop("row")


def _parsed(given: SparkInput, records: DataFrame) -> DataFrame:
    kinds = {name: _as_written(given, text) for name, text in given.fields.items()}
    row = F.from_json(
        F.col("value").cast("string"),
        spark_schema(kinds | {_WRONG: "string"}),
        {"columnNameOfCorruptRecord": _WRONG},
    )
    return records.withColumn("row", row)


def _unfit(given: SparkInput) -> Column:
    """True for a record that is no JSON object, has a value of another type, or null in a field without `?`."""
    needed = [name for name, text in given.fields.items() if not nullable(text) or name == given.event_time]
    found = F.col("row").isNull() | F.col(f"row.{_WRONG}").isNotNull()
    for name in needed:
        found = found | F.col(f"row.`{name}`").isNull()
    return found


def _as_written(given: SparkInput, text: str) -> str:
    """The type of a field in the record: times written as integers are read as integers."""
    return "int" if given.unit_of_time and required(text) == "timestamp" else text


def _column(given: SparkInput, name: str, text: str) -> Column:
    column = F.col(f"row.`{name}`")
    if given.unit_of_time and required(text) == "timestamp":
        column = _TO_TIMESTAMP[given.unit_of_time](column)
    return column.alias(name)

"""Converts field types of a job file to Spark's types, and Spark's types to field types.

Source: JOBS "Field types".
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from pyspark.sql import types as spark

from holdfast.services.kernel.codecs import fields

_SIMPLE: tuple[tuple[pl.DataType, spark.DataType], ...] = (
    (pl.String(), spark.StringType()),
    (pl.Int64(), spark.LongType()),
    (pl.Float64(), spark.DoubleType()),
    (pl.Boolean(), spark.BooleanType()),
    (pl.Datetime("us", "UTC"), spark.TimestampType()),
    (pl.Date(), spark.DateType()),
    (pl.Binary(), spark.BinaryType()),
)

_NAMES: tuple[tuple[type[spark.DataType], str], ...] = (
    (spark.StringType, "string"),
    (spark.IntegralType, "int"),
    (spark.FractionalType, "float"),
    (spark.BooleanType, "bool"),
    (spark.TimestampType, "timestamp"),
    (spark.TimestampNTZType, "timestamp"),
    (spark.DateType, "date"),
    (spark.BinaryType, "bytes"),
)


def spark_type(text: str) -> spark.DataType:
    """Spark's type for a field type. Raises ValueError for an invalid text."""
    return _spark_type(fields.dtype(text))


def spark_schema(columns: Mapping[str, str]) -> spark.StructType:
    """The schema for these columns. Every column may be null, because a field missing in a record is null under any
    declaration."""
    return spark.StructType([spark.StructField(name, spark_type(text)) for name, text in columns.items()])


def field_type(kind: spark.DataType) -> str:
    """The field type for a Spark type, without `?`. Raises ValueError for a type without one."""
    if isinstance(kind, spark.DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, spark.ArrayType):
        return f"list<{field_type(kind.elementType)}?>"
    if isinstance(kind, spark.StructType):
        return f"struct<{', '.join(f'{one.name}: {field_type(one.dataType)}?' for one in kind.fields)}>"
    for known, name in _NAMES:
        if isinstance(kind, known):
            return name
    raise ValueError(f"{kind.simpleString()} is no type of a stream: cast it to one of {', '.join(fields.SIMPLE)}")


def _spark_type(kind: pl.DataType) -> spark.DataType:
    if isinstance(kind, pl.Decimal):
        return spark.DecimalType(kind.precision or fields.MAX_PRECISION, kind.scale)
    if isinstance(kind, pl.List):
        return spark.ArrayType(_spark_type(_instance(kind.inner)))
    if isinstance(kind, pl.Struct):
        return spark.StructType([spark.StructField(f.name, _spark_type(_instance(f.dtype))) for f in kind.fields])
    return next(known for simple, known in _SIMPLE if kind == simple)


def _instance(kind: object) -> pl.DataType:
    """The instance of a Polars type. Polars returns inner types as classes or instances."""
    instance = kind() if isinstance(kind, type) else kind
    assert isinstance(instance, pl.DataType)
    return instance

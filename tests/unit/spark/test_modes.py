"""What the shape of a plan says of how it runs, and the small translations on the way to Spark."""

from __future__ import annotations

import pytest

from holdfast.schemas.plans import MICRO_BATCH, REAL_TIME
from holdfast.services.spark.columns import field_type, spark_schema, spark_type
from holdfast.services.spark.core.modes import STATIC_JOIN, choice, shape
from holdfast.services.spark.faults import cause_of
from holdfast.services.spark.kafka_options import java_settings, source_options


@pytest.mark.parametrize(
    ("nodes", "emit", "holds"),
    [
        (("Project", "Filter"), "final", False),
        (("Aggregate", "EventTimeWatermark"), "final", True),
        (("Aggregate", "EventTimeWatermark"), "updates", False),
        (("Join",), "updates", True),
        (("Deduplicate",), "final", False),
    ],
)
def test_rows_wait_in_plans_that_aggregate_or_join(nodes: tuple[str, ...], emit: str, holds: bool) -> None:
    assert shape(nodes).holds(emit) == holds


@pytest.mark.parametrize(
    "text",
    ["string", "int", "float", "bool", "timestamp", "date", "bytes", "decimal(10,2)", "list<int?>", "struct<a: int?>"],
)
def test_every_field_type_survives_the_way_through_spark(text: str) -> None:
    assert field_type(spark_type(text)) == text


def test_input_columns_may_all_be_null() -> None:
    assert all(field.nullable for field in spark_schema({"a": "int", "b": "string?"}).fields)


def test_a_type_that_is_no_field_type_says_what_to_do() -> None:
    from pyspark.sql.types import MapType, StringType

    with pytest.raises(ValueError, match="map<string,string> is no type of a stream: cast it"):
        field_type(MapType(StringType(), StringType()))


def test_the_innermost_python_error_is_the_cause() -> None:
    text = (
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function\n"
        "Traceback (most recent call last):\n  File ...\n"
        "pyspark.errors.exceptions.captured.PythonException: \n"
        "ValueError: no model for XYZ\n"
    )
    assert cause_of(RuntimeError(text)) == "ValueError: no model for XYZ"
    assert cause_of(RuntimeError("plain\nmore")) == "RuntimeError: plain"


def test_spark_reads_committed_records_from_where_the_plan_says() -> None:
    options = source_options("b:1", "in", {0: 5, 1: 0}, {})
    assert options["startingOffsets"] == '{"in": {"0": 5, "1": 0}}'
    assert options["kafka.isolation.level"] == "read_committed"


def test_a_login_goes_to_spark_under_the_names_of_the_java_client() -> None:
    found = java_settings(
        {"security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": 'a"b', "linger.ms": "1"}
    )
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.jaas.config"].startswith("org.apache.kafka.common.security.scram.ScramLoginModule required")
    assert r'username="a\"b"' in found["sasl.jaas.config"]
    assert "linger.ms" not in found


def test_an_error_that_passes_another_on_is_not_the_cause() -> None:
    text = "[X] failed\nservices.spark.query.BatchFailed: ValueError: no model for XYZ\n"
    assert cause_of(RuntimeError(text)) == "ValueError: no model for XYZ"


@pytest.mark.parametrize(
    ("nodes", "facts", "because"),
    [
        (("Project",), {"sql": False}, "Python functions"),
        (("Aggregate", "EventTimeWatermark"), {}, "keeps state"),
        (("Project", "Generate"), {}, "one record alone: Generate"),
        ((STATIC_JOIN, "Project"), {}, "one record alone: Join with a table"),
        (("Project", "Filter"), {"steady": False}, "another row"),
        (("Project", "Filter"), {"plain": False}, "lists or structs"),
    ],
)
def test_why_a_query_runs_in_micro_batches_is_said(
    nodes: tuple[str, ...], facts: dict[str, bool], because: str
) -> None:
    mode, reason = choice(shape(nodes), **({"sql": True, "steady": True, "plain": True} | facts))
    assert mode == MICRO_BATCH
    assert because in reason


def test_projections_and_filters_run_in_real_time_mode() -> None:
    found = shape(("Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark"))
    assert choice(found, sql=True, steady=True, plain=True)[0] == REAL_TIME

"""Every setting does what it says: each field of a job file and each HOLDFAST_ variable is read where this table says,
or asking for it is warned of.

A field that is added without a line here fails the first test. A line names the file in which the field is read, and a
test that fails without the effect, where no other one is as plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.schemas.job_part import JobPart
from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.node import settings
from holdfast.services.node.settings import Settings
from holdfast.services.planning.check import check
from holdfast.services.planning.loader import interpret
from holdfast.services.recovery.settings import RecoverySettings
from holdfast.services.spark.settings import SparkSettings
from holdfast.services.worker.process.settings import WorkerSettings
from tests.unit.planning.jobs import job, query, source

ROOT = Path(__file__).parents[2]
WARNED = "warned of"
HANDED_ON = "handed on"
"""To processes, each of which has a line for it."""
PART = "holds others"

JOB = {
    "JobSpec.name": "planning/plan.py",
    "JobSpec.sources": PART,
    "JobSpec.operators": PART,
    "JobSpec.queries": PART,
    "JobSpec.fault_tolerance": PART,
    "JobSpec.placement": PART,
    "JobSpec.batch_interval_ms": "planning/plan.py",
    "JobSpec.latency_ms": "worker/sources/cutter.py tests/scenario/test_job_settings.py",
    "JobSpec.max_batch_records": "worker/host/job.py",
    "JobSpec.max_batch_bytes": "worker/host/job.py",
    "JobSpec.on_error": "kernel/operators/python.py",
    "JobSpec.dead_letter_share": "worker/host/job.py tests/scenario/test_job_settings.py",
    "JobSpec.memory_limit_mb": "worker/host/job.py tests/scenario/test_job_settings.py",
    "JobSpec.on_divergence": "worker/unit/inputs/intake.py tests/scenario/test_job_settings.py",
    "JobSpec.keep_cuts": "controller/effects.py",
    "JobSpec.keep_dead_letters_s": "controller/effects.py",
    "JobSpec.keep_dead_letters_bytes": "controller/effects.py",
    "JobSpec.replay_horizon_s": "controller/drafter.py",
    "JobSpec.retain_bytes": "worker/host/job.py tests/scenario/test_retain_bytes.py",
    "Source.topic": "planning/plan.py",
    "Source.path": "cli/trial.py",
    "Source.format": "kernel/dataflow/source_records.py",
    "Source.fields": "planning/source_streams.py",
    "Source.event_time": "kernel/dataflow/source_records.py",
    "Source.max_ahead_s": "kernel/dataflow/source_records.py tests/unit/test_source_settings.py",
    "Source.on_ahead": "kernel/dataflow/source_records.py tests/unit/test_source_settings.py",
    "Source.topics": "planning/several_topics.py tests/unit/planning/test_several_topics.py",
    "Source.csv": "kernel/dataflow/source_records.py tests/unit/test_csv_options.py",
    "CsvOptions.delimiter": "kernel/codecs/csv_form.py tests/unit/test_csv_options.py",
    "CsvOptions.quote": "kernel/codecs/csv_form.py tests/unit/test_csv_options.py",
    "CsvOptions.header": "client/frames.py tests/unit/test_csv_options.py",
    "CsvOptions.null_words": "kernel/dataflow/source_records.py tests/unit/test_csv_options.py",
    "Source.subject": "kernel/dataflow/source_records.py",
    "Source.subject_strategy": "kernel/dataflow/source_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Source.record": "kernel/dataflow/source_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Source.key_format": "kernel/dataflow/source_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Source.on_schema_change": "kernel/dataflow/source_records.py tests/scenario/test_schema_changes.py",
    "Source.envelope": "kernel/dataflow/source_records.py tests/unit/test_change_records.py",
    "Source.null_records": "kernel/dataflow/source_records.py tests/unit/test_source_settings.py",
    "Metadata.type": "kernel/codecs/metadata.py",
    "Metadata.metadata": "kernel/codecs/metadata.py tests/unit/test_metadata_columns.py",
    "Renamed.type": "schemas/jobs.py",
    "Renamed.from_": "schemas/jobs.py tests/unit/test_source_settings.py",
    "Source.unit": "kernel/dataflow/source_records.py",
    "Source.allowed_lateness_s": "worker/sources/user_topic.py",
    "Source.start": "planning/user_topics.py",
    "Source.idle_after_s": "worker/sources/user_topic.py",
    "Source.close_after_idle_s": "worker/sources/user_topic.py",
    "Source.on_data_loss": "worker/sources/user_topic.py tests/scenario/test_data_loss.py",
    "Source.late": "planning/check.py",
    "Source.parallelism": "planning/parallelism.py",
    "Source.table": "kernel/dataflow/source_records.py",
    "Sink.topic": "planning/plan.py",
    "Sink.parquet": PART,
    "ParquetFiles.path": "schemas/plans.py tests/unit/worker/test_parquet_sink.py",
    "ParquetFiles.partition_by": "worker/sinks/staged_files.py tests/unit/worker/test_parquet_sink.py",
    "Sink.sql": PART,
    "SqlTable.database": "worker/sinks/sql_tables.py tests/unit/worker/test_sql_sink.py",
    "SqlTable.table": "worker/sinks/sql_tables.py tests/unit/worker/test_sql_sink.py",
    "SqlTable.key": "worker/sinks/sql_database.py tests/unit/worker/test_sql_sink.py",
    "Sink.topics": "planning/several_sinks.py tests/unit/planning/test_several_sinks.py",
    "Sink.topic_by": "planning/several_sinks.py tests/unit/planning/test_several_sinks.py",
    "Sink.format": "kernel/dataflow/sink_records.py",
    "Sink.key": "kernel/dataflow/sink_records.py tests/unit/test_sink_keys.py",
    "Sink.headers": "kernel/dataflow/sink_records.py tests/unit/test_metadata_columns.py",
    "Sink.subject": "kernel/dataflow/source_records.py tests/unit/client/test_registering.py",
    "Sink.subject_strategy": "kernel/dataflow/source_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Sink.record": "client/registration.py tests/unit/client/test_keys_of_a_registry.py",
    "Sink.key_format": "kernel/dataflow/sink_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Sink.key_schema_id": "kernel/dataflow/sink_records.py tests/unit/client/test_keys_of_a_registry.py",
    "Sink.field_numbers": "kernel/dataflow/sink_records.py tests/unit/client/test_registering.py",
    "Sink.schema_id": "kernel/dataflow/sink_records.py tests/unit/client/test_registering.py",
    "Sink.delete_when": "kernel/dataflow/sink_records.py tests/unit/test_metadata_columns.py",
    "Sink.partitions": "planning/plan.py",
    "Sink.commit_interval_ms": "worker/sinks/unit_sinks.py tests/scenario/test_job_settings.py",
    "Query.input": "planning/graph.py",
    "Query.sink": PART,
    "Query.priority": "kernel/plans/priorities.py tests/unit/recovery/test_sharing.py",
    "Query.results": "planning/tentative.py tests/unit/worker/test_tentative_rows.py",
    "OperatorSpec.parallelism": "planning/parallelism.py",
    "Filter.filter": "kernel/operators/filter.py",
    "Filter.one_of": "kernel/operators/filter.py tests/unit/planning/test_several_sinks.py",
    "Filter.input": "planning/graph.py",
    "Select.select": "kernel/operators/select.py",
    "Select.input": "planning/graph.py",
    "Aggregate.aggregate": "kernel/operators/aggregate.py",
    "Aggregate.key": "kernel/operators/aggregate.py",
    "Aggregate.input": "planning/graph.py",
    "Aggregate.window": "kernel/operators/aggregate.py",
    "Aggregate.emit": "kernel/operators/aggregate.py",
    "Window.size_s": "kernel/operators/window_shapes.py",
    "Window.slide_s": "kernel/operators/window_shapes.py",
    "Window.gap_s": "kernel/operators/window_shapes.py",
    "Window.step_s": "kernel/operators/window_shapes.py",
    "Window.offset_s": "kernel/operators/window_shapes.py",
    "Window.calendar": "kernel/operators/window_shapes.py",
    "Window.zone": "kernel/operators/window_shapes.py",
    "Join.join": PART,
    "Aggregate.forget_after_s": "kernel/operators/aggregate.py",
    "JoinSides.left": "kernel/operators/join.py",
    "JoinSides.right": "kernel/operators/join.py",
    "JoinSides.on": "kernel/operators/join.py",
    "JoinSides.within_s": "kernel/operators/join_range.py",
    "JoinSides.between": "kernel/operators/join_range.py",
    "JoinSides.kind": "kernel/operators/join.py",
    "JoinSides.emit": "kernel/operators/updates.py",
    "Top.top": PART,
    "Top.key": "kernel/operators/top.py",
    "Top.input": "planning/graph.py",
    "Top.forget_after_s": "kernel/operators/top.py tests/unit/operators/test_top.py",
    "Ranking.k": "kernel/operators/top.py",
    "Ranking.by": "kernel/operators/top.py",
    "Ranking.order": "kernel/operators/top.py",
    "AsOfJoin.asof_join": PART,
    "AsOfSides.left": "schemas/job_operators.py",
    "AsOfSides.right": "schemas/job_operators.py",
    "AsOfSides.on": "kernel/operators/asof_join.py",
    "AsOfSides.within_s": "kernel/operators/asof_join.py",
    "AsOfSides.kind": "kernel/operators/asof_join.py",
    "Pace.pace": PART,
    "Pace.input": "planning/graph.py",
    "Every.every_s": "kernel/operators/pace.py tests/unit/operators/test_pace.py",
    "Sql.sql": "planning/sql/whole.py tests/unit/planning/test_sql.py",
    "Unnest.unnest": PART,
    "Unnest.input": "planning/graph.py",
    "ListItems.column": "kernel/operators/unnest.py",
    "ListItems.into": "kernel/operators/unnest.py",
    "ListItems.position": "kernel/operators/unnest.py",
    "ListItems.keep_empty": "kernel/operators/unnest.py",
    "Union.fill_missing": "kernel/operators/union.py",
    "Union.union": "schemas/job_operators.py",
    "Dedup.dedup": PART,
    "Dedup.key": "kernel/operators/dedup.py",
    "Dedup.emit": "kernel/operators/dedup.py",
    "Dedup.input": "planning/graph.py",
    "Within.within_s": "kernel/operators/dedup.py",
    "Python.input": "planning/graph.py",
    "Spark.input": "planning/spark_inputs.py",
    "Hosted.key": "kernel/operators/python.py",
    "Hosted.params": "kernel/operators/python.py",
    "Hosted.outputs": "planning/side_outputs.py tests/unit/planning/test_side_outputs.py",
    "Python.python": "kernel/operators/python.py",
    "Output.output": "kernel/operators/side_output.py",
    "Output.input": "planning/graph.py",
    "Python.ask": "kernel/operators/answered.py tests/unit/client/test_answers.py",
    "Asking.timeout_s": "worker/unit/user_code/user_answers.py tests/unit/client/test_answers.py",
    "Asking.retries": "worker/unit/user_code/user_answers.py tests/unit/client/test_answers.py",
    "Asking.pause_s": "worker/unit/user_code/user_answers.py tests/unit/client/test_answers.py",
    "Asking.concurrency": "worker/unit/user_code/user_answers.py tests/unit/client/test_answers.py",
    "Asking.rows": "worker/unit/user_code/user_answers.py tests/unit/client/test_answers.py",
    "Python.clock": "kernel/operators/python.py tests/unit/operators/test_timers_by_clock.py",
    "Python.isolation": "kernel/operators/python.py tests/unit/worker/test_isolated.py",
    "Spark.spark": "controller/spark_analysis.py",
    "Spark.emit": "controller/spark_analysis.py",
    "Spark.mode": "planning/hosting.py",
    "Spark.conf": "planning/hosting.py tests/integration/in_spark/test_jobs_in_memory.py",
    "SparkSql.sql": "controller/spark_analysis.py",
    "FaultTolerance.default": "planning/units.py",
    "FaultTolerance.units": "planning/units.py",
    "FaultTolerance.recovery_time_ms": "recovery/core/unit/facts/promise.py tests/unit/recovery/test_adaptive.py",
    "FaultTolerance.precision": "decisions/gaps.py tests/scenario/test_gaps.py",
    "FaultTolerance.weights": "recovery/core/unit/facts/promise.py tests/unit/recovery/test_adaptive.py",
    "FaultTolerance.hybrid": PART,
    "FaultTolerance.checkpoint": PART,
    "FaultTolerance.buffering": "recovery/core/job/incidents.py tests/unit/recovery/test_incident_lines.py",
    "FaultTolerance.replication_budget": "kernel/fidelity/of_job.py tests/unit/recovery/test_replication.py",
    "FaultTolerance.fail_stop_timeout_s": "recovery/core/unit/facts/terms.py",
    "FaultTolerance.heartbeat_interval_ms": WARNED,
    "FaultTolerance.misses": "recovery/core/unit/facts/terms.py",
    "FaultTolerance.correlated_failure": PART,
    "FaultTolerance.cool_down_s": "recovery/core/unit/facts/promise.py tests/unit/recovery/test_adaptive.py",
    "FaultTolerance.rebalance_period_s": "recovery/core/unit/facts/terms.py tests/unit/recovery/test_moving.py",
    "SchemeSettings.scheme": "planning/units.py",
    "HybridSettings.inputs": "recovery/core/unit/facts/terms.py tests/unit/worker/test_subscriptions.py",
    "HybridSettings.calm_ms": "recovery/core/unit/facts/terms.py",
    "Weights.cpu": "recovery/core/adaptive/costing.py",
    "Weights.memory": "recovery/core/adaptive/costing.py",
    "Weights.network": "recovery/core/adaptive/costing.py",
    "Weights.workers": "recovery/core/adaptive/costing.py",
    "CheckpointSettings.policy": "decisions/policies.py tests/scenario/test_checkpoint_policies.py",
    "CheckpointSettings.interval_ms": "decisions/policies.py",
    "CheckpointSettings.min_interval_ms": "decisions/policies.py tests/scenario/test_checkpoint_policies.py",
    "CheckpointSettings.max_interval_ms": "decisions/policies.py tests/scenario/test_checkpoint_policies.py",
    "CheckpointSettings.merge_ms": "decisions/policies.py tests/unit/worker/test_merging.py",
    "CheckpointSettings.every_batches": "decisions/policies.py tests/scenario/test_checkpoint_policies.py",
    "CorrelatedFailure.workers": "recovery/core/job/incidents.py tests/unit/recovery/test_incident.py",
    "CorrelatedFailure.within_s": "recovery/core/job/incidents.py tests/unit/recovery/test_incident.py",
    "Placement.units": "planning/plan.py",
    "Placement.spread_by": "recovery/core/unit/facts/terms.py tests/unit/recovery/test_room.py",
}
"""By field of a job file: where it is read under services (or schemas), and the test of its effect."""

ASKED: dict[str, tuple[str, Any]] = {
    "FaultTolerance.heartbeat_interval_ms": ("fault_tolerance.heartbeat_interval_ms", 50),
}
"""By field that is warned of: where it stands in a job file, and a value that is not the default."""
WITH_THEIR_OWNER = ("Weights.",)

EVERYBODY = {
    "kafka": "hosting/process.py",
    "cluster": "hosting/process.py",
    "log_level": "worker/process/main.py",
    "log_format": "worker/process/main.py",
    "metrics_port": "hosting/process.py",
    "metrics_address": "hosting/process.py",
}
HOSTS = EVERYBODY | {
    "incarnation": "worker/process/main.py",
    "zone": "worker/process/main.py",
    "host": "hosting/process.py",
    "address": "hosting/process.py",
    "heartbeat_interval_ms": "hosting/process.py",
    "loop_patience_s": "hosting/process.py",
    "call_patience_s": "worker/process/main.py",
    "memory_mb": "hosting/process.py",
    "plugins": "hosting/settings.py",
}
VARIABLES: dict[type[BaseModel], dict[str, str]] = {
    Settings: {
        "home": "cli/cluster.py",
        "kafka": "node/supervisor.py",
        "kafka_port": "node/supervisor.py",
        "brokers": "node/supervisor.py",
        "cluster": "node/supervisor.py",
        "cluster_secret": "log/seal/secret.py",
        "cluster_secret_file": "node/supervisor.py",
        "replication_factor": "log/kafka/durability.py",
        "min_insync_replicas": "log/kafka/durability.py",
        "slots": HANDED_ON,
        "standbys": HANDED_ON,
        "host": "node/supervisor.py",
        "zone": "node/supervisor.py",
        "recoveries": "node/lineup.py",
        "heartbeat_interval_ms": HANDED_ON,
        "loop_patience_s": HANDED_ON,
        "call_patience_s": HANDED_ON,
        "command_patience_s": "cli/whereabouts.py tests/unit/cli/test_waiting_commands.py",
        "memory_mb": HANDED_ON,
        "leave_s": HANDED_ON,
        "trim_after_s": HANDED_ON,
        "log_format": "node/machine/messages.py",
        "balance_calm_s": HANDED_ON,
        "grace": HANDED_ON,
        "reassign": HANDED_ON,
        "reassign_least_ms": HANDED_ON,
        "exit_notices": "node/supervisor.py",
        "fork_server": "node/supervisor.py tests/unit/node/test_supervisor.py",
        "console": "node/supervisor.py tests/unit/node/test_supervisor.py",
        "console_port": "node/supervisor.py tests/unit/node/test_console_door.py",
        "metrics_port": "node/lineup.py",
        "metrics_address": "node/lineup.py",
        "keep_ended_jobs": HANDED_ON,
        "keep_events_s": "node/start.py",
        "keep_events_mb": "node/start.py",
        "log_file_mb": "node/settings.py tests/unit/node/test_log_limits.py",
        "log_files": "node/settings.py tests/unit/node/test_log_limits.py",
        "state_cache_mb": HANDED_ON,
        "state_buffer_mb": HANDED_ON,
        "spark_keep_batches": HANDED_ON,
        "spark_checkpoints": HANDED_ON,
        "registry_url": "log/kafka/registry.py tests/unit/client/test_registry_fields.py",
        "plugins": "node/supervisor.py",
        "files": HANDED_ON,
        "databases": HANDED_ON,
        "spark_master": HANDED_ON,
        "spark_memory": HANDED_ON,
        "spark_state_mb": HANDED_ON,
        "spark_executor_memory": HANDED_ON,
        "spark_cores": HANDED_ON,
        "traces": HANDED_ON,
        "log_level": "worker/process/main.py",
    },
    ControllerSettings: EVERYBODY
    | {
        "controller": "controller/__main__.py",
        "acls": "controller/__main__.py tests/integration/test_rights.py",
        "plugins": "hosting/settings.py",
        "replication_factor": "process/decider.py",
        "min_insync_replicas": "process/decider.py",
        "heartbeat_interval_ms": "controller/__main__.py",
        "trim_after_s": "controller/__main__.py",
        "keep_ended_jobs": "controller/__main__.py tests/unit/decisions/test_jobs.py",
    },
    RecoverySettings: EVERYBODY
    | {
        "recovery": "recovery/__main__.py",
        "replication_factor": "process/decider.py",
        "min_insync_replicas": "process/decider.py",
        "heartbeat_interval_ms": "recovery/__main__.py",
        "trim_after_s": "recovery/__main__.py",
        "balance_calm_s": "recovery/__main__.py",
        "grace": "recovery/__main__.py tests/unit/recovery/test_detector.py",
        "reassign": "recovery/__main__.py tests/unit/recovery/test_reassigning.py",
        "reassign_least_ms": "recovery/__main__.py tests/unit/recovery/test_reassigning.py",
        "proof_batches": "recovery/__main__.py",
    },
    WorkerSettings: HOSTS
    | {
        "worker": "worker/process/main.py",
        "slots": "worker/process/main.py",
        "standbys": "worker/process/main.py tests/unit/recovery/test_sharing.py",
        "leave_s": "worker/process/main.py tests/unit/hosting/test_ending.py",
        "state_dir": "worker/process/main.py",
        "files": "worker/process/main.py tests/unit/worker/test_parquet_sink.py",
        "databases": "worker/process/main.py tests/unit/worker/test_sql_sink.py",
        "traces": "worker/process/main.py tests/unit/worker/test_spans.py",
        "state_cache_mb": "worker/process/main.py tests/unit/worker/test_rocks.py",
        "state_buffer_mb": "worker/process/main.py tests/unit/worker/test_rocks.py",
    },
    SparkSettings: HOSTS
    | {
        "driver": "spark/process.py",
        "leave_s": "spark/process.py tests/unit/hosting/test_ending.py",
        "spark_master": "spark/session.py",
        "spark_jars": "spark/session.py",
        "spark_memory": "spark/session.py",
        "spark_state_mb": "spark/session.py",
        "spark_executor_memory": "spark/session.py",
        "spark_cores": "spark/session.py",
        "spark_shuffle_partitions": "spark/session.py",
        "spark_dir": "spark/process.py",
        "spark_keep_batches": "spark/session.py",
        "spark_checkpoints": "spark/process.py tests/unit/spark/test_query_files.py",
    },
}
"""By process and variable: where it is read under services."""


def test_every_field_of_a_job_file_has_a_line_here() -> None:
    own = ((part, name) for part in parts(JobPart) for name in part.__annotations__ if name in part.model_fields)
    fields = {f"{part.__name__}.{name}" for part, name in own}
    assert fields == JOB.keys()


def test_every_variable_has_a_line_here() -> None:
    assert {model: model.model_fields.keys() for model in VARIABLES} == {
        model: fields.keys() for model, fields in VARIABLES.items()
    }


@pytest.mark.parametrize("field", [field for field, where in JOB.items() if where not in (WARNED, PART)])
def test_a_field_is_read_where_the_table_says(field: str) -> None:
    read_in(field.partition(".")[2], JOB[field])


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, name) for model, fields in VARIABLES.items() for name, where in fields.items() if where != HANDED_ON],
)
def test_a_variable_is_read_where_the_table_says(model: type[BaseModel], name: str) -> None:
    read_in(name, VARIABLES[model][name])


def test_each_setting_that_is_handed_on_is_one_of_the_process_that_is_given_it() -> None:
    handed_on = {name for name, where in VARIABLES[Settings].items() if where == HANDED_ON}
    assert handed_on == {name for many in settings.HANDED_ON.values() for one in many for name in one.model_fields}
    readers = {"recovery": RecoverySettings, "controller": ControllerSettings, "worker": WorkerSettings}
    for kind, model in {**readers, "spark": SparkSettings}.items():
        assert [one for one in settings.HANDED_ON[kind] if not issubclass(model, one)] == []


def test_a_setting_that_is_warned_of_has_a_line_with_a_value() -> None:
    alone = {field for field, where in JOB.items() if where == WARNED and not field.startswith(WITH_THEIR_OWNER)}
    assert alone == ASKED.keys()


@pytest.mark.parametrize("field", ASKED)
def test_asking_for_what_has_no_effect_is_warned_of(field: str) -> None:
    path, value = ASKED[field]
    raw: dict[str, Any] = job({"o": {"filter": "x > 1", "input": "s"}}, {"s": source()}, {"q": query("o")})
    assert not [warning for warning in warnings(raw) if warning.startswith(path)]
    at = raw
    *owners, last = path.split(".")
    for owner in owners:
        at = at.setdefault(owner, {})
    at[last] = value
    assert [warning for warning in warnings(raw) if warning.startswith(f"{path}: ")]


def warnings(raw: dict[str, Any]) -> list[str]:
    return check(interpret(raw), ()).warnings


def read_in(name: str, where: str) -> None:
    """The file mentions the name as an attribute, or as a key; its test is there."""
    file, _, test = where.partition(" ")
    path = ROOT / file if file.startswith("schemas/") else ROOT / "services" / file
    assert re.search(rf"""[.\["']{name}\b|\bHOLDFAST_{name.upper()}\b""", path.read_text()), (
        f"{file} does not read {name}"
    )
    assert not test or (ROOT / test).is_file(), f"there is no {test}"


def parts(of: type[JobPart]) -> Iterator[type[JobPart]]:
    for part in of.__subclasses__():
        if part.__module__.startswith("holdfast.schemas."):
            yield part
            yield from parts(part)


@pytest.mark.parametrize("kind", [ControllerSettings, RecoverySettings, SparkSettings, WorkerSettings, Settings])
def test_settings_that_are_joined_of_several_classes_still_read_their_variables(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CLUSTER", "another")
    monkeypatch.setenv("HOLDFAST_HEARTBEAT_INTERVAL_MS", "")
    assert kind().cluster == "another"

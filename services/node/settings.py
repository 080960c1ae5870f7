"""Settings of a cluster, from HOLDFAST_* variables; `holdfast settings` lists them."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.diagnostics.settings import LogSettings
from holdfast.services.kernel.liveness.grace import ADAPTIVE, Grace
from holdfast.services.log.kafka.client_settings import CLIENT_PREFIX, REGISTRY_PREFIX, client_settings, is_secret
from holdfast.services.log.patience import PATIENCE_S
from holdfast.services.node.machine.log_limits import MIB, LogLimits
from holdfast.services.node.machine.metrics_ports import MOST
from holdfast.services.recovery.settings import RecoverySettings
from holdfast.services.spark.settings import SparkSettings
from holdfast.services.worker.process.settings import WorkerSettings

PREFIX = "HOLDFAST_"
HINT = "a property of librdkafka, such as ..._SASL_MECHANISM; of a secret also its file: ..._SASL_PASSWORD_FILE"
REGISTRY_HINT = (
    "login and TLS of the registry, a property of confluent-kafka's client, such as ..._SSL_CA_LOCATION; "
    "..._BASIC_AUTH_USER_INFO_FILE names a file with user:password"
)
OF_OTHERS = frozenset(
    {
        *("HOLDFAST_CACHE", "HOLDFAST_PYTHON", "HOLDFAST_SHARED_DATA"),
        *("HOLDFAST_TEST_FORMAT", "HOLDFAST_TEST_MINUTES", "HOLDFAST_TEST_VERSIONS"),
        *("HOLDFAST_CONSOLE_ADDRESS", "HOLDFAST_CONSOLE_NAMES", "HOLDFAST_CONSOLE_PORT", "HOLDFAST_CONSOLE_READ_ONLY"),
        *("HOLDFAST_UID", "HOLDFAST_KAFKA_UID", "HOLDFAST_SECURITY", "HOLDFAST_SPARK_KAFKA", "HOLDFAST_RECOVERY"),
        *("HOLDFAST_GRAFANA_PORT", "HOLDFAST_PROMETHEUS_PORT", "HOLDFAST_PROMETHEUS_URL"),
    }
)
"""Variables that scripts, tests, the console and Compose files read."""


class Settings(LogSettings):
    """Settings of the `holdfast` command; options of a command go before variables."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", env_ignore_empty=True)

    home: Path = Field(Path(".holdfast"), description="directory of the local cluster: its data, its logs, who runs")
    kafka: str | None = Field(None, description="bootstrap servers of your Kafka; without, `up` starts an embedded one")
    kafka_port: int = Field(
        0, ge=0, le=65_534, description="port of the embedded Kafka, the next one is taken too; 0 = any that is free"
    )
    brokers: int | None = Field(
        None,
        ge=1,
        le=9,
        description="brokers of the embedded Kafka, three keep three replicas; as its data say, else 1",
    )
    cluster: str = Field(
        "holdfast",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="prefix of every topic and group, so that clusters can share a Kafka",
    )
    cluster_secret: SecretStr | None = Field(
        None, description="seals the records of the cluster's topics; several, comma separated; off: no seals"
    )
    cluster_secret_file: Path | None = Field(None, description="file with the secret, readable by its owner alone")
    replication_factor: int = Field(1, ge=1, le=15, description="replicas of each topic that holdfast creates")
    min_insync_replicas: int = Field(
        1, ge=1, le=15, description="replicas that must have a record before it counts; 2 of 3 when deployed"
    )
    slots: int = Field(8, ge=1, le=1024, description="units a worker takes before it counts as full")
    standbys: int = Field(
        -1, ge=-1, le=1024, description="standbys that a worker takes at most; -1: as many as are given"
    )
    host: str = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9_-]{0,62})?$",
        description="with a Kafka of your own, what the names of all processes started here begin with, and another on "
        "each host; empty: the machine's name",
    )
    zone: str = Field(
        "",
        description="failure domain of the workers started here; empty: with a Kafka of your own the host, else one of "
        "three for each worker",
    )
    recoveries: int = Field(1, ge=1, le=16, description="recovery replicas started here; all but one can be lost")
    heartbeat_interval_ms: int = Field(100, ge=20, le=10_000, description="time between two heartbeats of a worker")
    loop_patience_s: float = Field(
        5.0,
        ge=0.5,
        le=3600,
        description="a worker whose loop hangs for longer counts as silent, and ends after twice that; six times "
        "longer while a copy is loaded, restored or does its first batch",
    )
    call_patience_s: float = Field(
        60.0,
        ge=1,
        le=86_400,
        description="a transaction, trim or restore that hangs for so long is given up",
    )
    command_patience_s: float = Field(
        PATIENCE_S,
        ge=1,
        le=3600,
        description="a command waits so long for Kafka to answer, as when a partition has no leader for a while",
    )
    memory_mb: int = Field(
        0,
        ge=0,
        description="resident memory of a worker, MiB, of which it alone takes about 200: near it the worker ends, "
        "before the kernel ends any process; 0: no limit",
    )
    spare: bool = Field(
        True,
        description="a spare process, 70 MiB, has loaded what a worker needs and becomes the next worker that ended: "
        "without it a restart takes ten seconds on a full machine",
    )
    leave_s: float = Field(
        10.0,
        ge=0,
        le=3600,
        description="on SIGTERM a worker or Spark driver waits so long for others to take over; 0: it ends at once",
    )
    grace: Grace = ADAPTIVE
    balance_calm_s: float = Field(
        10.0,
        ge=0,
        le=86_400,
        description="calm needed before a unit moves off a worker with more than its share; 0: none ever does",
    )
    reassign: Literal["half", "literal", "off"] = Field(
        "half",
        description="standbys that move to other workers once a rebalance period: half of the difference between two "
        "backup groups, all of it (literal: as the paper prints it, to and fro), or none (off)",
    )
    reassign_least_ms: float = Field(
        50.0, ge=0, le=3_600_000, description="expected recovery by which two backup groups must differ for that"
    )
    trim_after_s: float = Field(
        600.0,
        ge=0,
        le=7 * 86_400,
        description="age at which snapshots of assignments and jobs take the place of the records below; 0: never",
    )
    exit_notices: bool = Field(
        True, description="report to the cluster at once when a worker's process ends; off: its heartbeats are missed"
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535 - MOST,
        description="of http://<metrics_address>:<port>/metrics of recovery-1 for Prometheus; the other processes have "
        "the ports after it; 0: none",
    )
    metrics_address: str = Field("127.0.0.1", description="address of this machine at which metrics are served")
    console: bool = Field(
        True, description="`holdfast up` serves the console, which starts once a browser asks for it; off: it does not"
    )
    console_port: int = Field(
        8460, ge=0, le=65_535, description="of the console at 127.0.0.1; another one if it is taken, or 0"
    )
    traces: bool = Field(
        False,
        description="workers send a span of each unit and batch by OpenTelemetry; OTEL_EXPORTER_OTLP_ENDPOINT and the "
        "like say where to",
    )
    keep_ended_jobs: int = Field(50, ge=1, le=1000, description="jobs that are over and still listed, the newest ones")
    keep_events_s: float = Field(
        7 * 86_400.0, ge=60, le=366 * 86_400, description="how long events are kept, also of a topic that is there"
    )
    keep_events_mb: int = Field(256, ge=1, le=1024 * 1024, description="the oldest events go when there are more, MiB")
    log_file_mb: int = Field(16, ge=1, le=4096, description="size at which a process's log is renamed, MiB")
    log_files: int = Field(1, ge=0, le=100, description="former logs kept of each process, besides the present one")
    state_cache_mb: int = Field(
        64, ge=1, le=1024 * 1024, description="memory of a worker for what it has read of its images on disk, MiB"
    )
    state_buffer_mb: int = Field(
        64, ge=1, le=1024 * 1024, description="memory of a worker for what is not yet in its images on disk, MiB"
    )
    registry_url: str = Field(
        "",
        description="of the Schema Registry for records of avro and json-schema; several, comma separated",
    )
    plugins: str = Field("", description="modules that operators may come from, comma separated")
    files: str = Field("", description="folders in which jobs may write files, separated by colons; empty: none")
    spark_master: str = Field("", description="Spark's master; empty: local, with all cores of this machine")
    spark_memory: str = Field("1g", description="memory of a Spark driver's JVM")
    spark_executor_memory: str = Field("1g", description="memory of each of its executors, with a Spark master")
    spark_cores: int = Field(
        0,
        ge=0,
        le=10_000,
        description="cores that a Spark driver takes of the master's; 0: all, which leaves no standby any",
    )
    spark_keep_batches: int = Field(
        100, ge=2, le=100_000, description="micro-batches of a query that its checkpoint directory keeps, the newest"
    )

    @property
    def log_limits(self) -> LogLimits:
        return LogLimits(self.log_file_mb * MIB, self.log_files)

    @model_validator(mode="after")
    def _replicas_suffice(self) -> Self:
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"HOLDFAST_MIN_INSYNC_REPLICAS={self.min_insync_replicas} can never be met by "
                f"HOLDFAST_REPLICATION_FACTOR={self.replication_factor}"
            )
        return self


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable as a person sees it; secrets are masked."""

    variable: str
    value: str
    default: str
    description: str


def described(settings: Settings) -> list[Setting]:
    """Every setting with its present value, then the Kafka client's own settings that are passed through."""
    ours = [
        Setting(
            f"{PREFIX}{name.upper()}", _shown(getattr(settings, name)), _shown(field.default), field.description or ""
        )
        for name, field in Settings.model_fields.items()
    ]
    passed = [
        Setting(
            CLIENT_PREFIX + name.upper().replace(".", "_"), masked(name, value), "", f"{name} of every Kafka client"
        )
        for name, value in sorted(client_settings().items())
    ]
    hint = Setting(f"{CLIENT_PREFIX}*", "", "", HINT)
    to_registry = [
        Setting(
            REGISTRY_PREFIX + name.upper().replace(".", "_"),
            masked(name, value),
            "",
            f"{name} of the registry's client",
        )
        for name, value in sorted(client_settings(prefix=REGISTRY_PREFIX).items())
    ]
    to_registry = to_registry or [Setting(f"{REGISTRY_PREFIX}*", "", "", REGISTRY_HINT)]
    return [*ours, *(passed or [hint]), *to_registry]


def unknown_variables() -> dict[str, str | None]:
    """HOLDFAST_* variables that nothing reads, each with the one that may be meant."""
    models: tuple[type[BaseSettings], ...] = (
        Settings,
        ControllerSettings,
        RecoverySettings,
        WorkerSettings,
        SparkSettings,
    )
    known = OF_OTHERS | {f"{PREFIX}{name.upper()}" for model in models for name in model.model_fields}
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and not name.startswith((CLIENT_PREFIX, REGISTRY_PREFIX)) and name not in known
    )
    return {name: next(iter(difflib.get_close_matches(name, known, 1)), None) for name in unknown}


def masked(name: str, value: str) -> str:
    return "***" if is_secret(name) else value


def _shown(value: object) -> str:
    return "" if value is None else str(value)

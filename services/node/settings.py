"""Settings of a cluster, from HOLDFAST_* variables; `holdfast settings` lists them."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from holdfast.services.controller.settings import ControllerOptions, ControllerSettings
from holdfast.services.diagnostics.settings import PREFIX, LogSettings, Variables
from holdfast.services.hosting.settings import HostOptions, PluginOptions
from holdfast.services.log.kafka.client_settings import CLIENT_PREFIX, REGISTRY_PREFIX, client_settings, is_secret
from holdfast.services.log.patience import PATIENCE_S
from holdfast.services.node.machine.log_limits import MIB, LogLimits
from holdfast.services.node.machine.metrics_ports import MOST
from holdfast.services.process.settings import HeartbeatOptions, MetricsSettings, TrimmingOptions
from holdfast.services.recovery.settings import RecoveryOptions, RecoverySettings
from holdfast.services.spark.settings import SparkOptions, SparkSettings
from holdfast.services.worker.process.settings import WorkerOptions, WorkerSettings

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
HANDED_ON = {
    "recovery": (RecoveryOptions, HeartbeatOptions, TrimmingOptions),
    "controller": (ControllerOptions, TrimmingOptions),
    "worker": (WorkerOptions, HostOptions, HeartbeatOptions),
    "spark": (SparkOptions, HostOptions, HeartbeatOptions),
}
"""Settings that a cluster passes to its processes, by kind of process."""


class Settings(
    LogSettings,
    RecoveryOptions,
    ControllerOptions,
    SparkOptions,
    WorkerOptions,
    PluginOptions,
    HostOptions,
    HeartbeatOptions,
    TrimmingOptions,
    MetricsSettings,
):
    """Settings of the `holdfast` command; options of a command go before variables."""

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
    command_patience_s: float = Field(
        PATIENCE_S,
        ge=1,
        le=3600,
        description="a command waits so long for Kafka to answer, as when a partition has no leader for a while",
    )
    fork_server: bool = Field(
        True,
        description="a process, 70 MiB, loads what those of a cluster need, and each is a fork of it; off: each start "
        "takes a second of a core, on a full machine ten",
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
    console: bool = Field(
        True, description="`holdfast up` serves the console, which starts once a browser asks for it; off: it does not"
    )
    console_port: int = Field(
        8460, ge=0, le=65_535, description="of the console at 127.0.0.1; another one if it is taken, or 0"
    )
    keep_events_s: float = Field(
        7 * 86_400.0, ge=60, le=366 * 86_400, description="how long events are kept, also of a topic that is there"
    )
    keep_events_mb: int = Field(256, ge=1, le=1024 * 1024, description="the oldest events go when there are more, MiB")
    log_file_mb: int = Field(16, ge=1, le=4096, description="size at which a process's log is renamed, MiB")
    log_files: int = Field(1, ge=0, le=100, description="former logs kept of each process, besides the present one")
    registry_url: str = Field(
        "",
        description="of the Schema Registry for records of avro and json-schema; several, comma separated",
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
    """Every setting with its present value, the cluster's own before those of its processes, then the Kafka client's
    own settings that are passed through.
    """
    fields = Settings.model_fields
    ours = [
        Setting(
            f"{PREFIX}{name.upper()}",
            _shown(getattr(settings, name)),
            _shown(fields[name].default),
            fields[name].description or "",
        )
        for name in dict.fromkeys((*Settings.__annotations__, *fields))
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
    models: tuple[type[Variables], ...] = (
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

"""A compose project of its own: built, started on ports of its own, asked, taken down with all it holds."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.services.node.machine.ports import RANGE, is_free

COMPOSE = Path(__file__).parents[2] / "compose"
BUILD_S, UP_S, PATIENCE_S = 1800, 600, 240.0
OWNER = 10_001
"""The user of the images."""
BROKERS = 3
SILENT = 0
"""Log level of Kafka's client, which would report the absent brokers that are measured."""


class DockerFailed(Exception):
    """A docker command has failed; the message has the command and its output."""


def no_engine() -> str:
    """Reason why no engine can be used; empty if one answers."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    done = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return "docker has no compose plugin"
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer within 20 s"
    return "" if done.returncode == 0 else f"no Docker engine answers: {done.stderr.strip()[:200]}"


class Project:
    """A compose project, created by `build` and `up`.

    Args:
        folder: folder for its secret.
        files: files of the directory `compose`, or paths of others.
        variables: variables of its environment.
    """

    def __init__(self, folder: Path, *files: str | Path, variables: dict[str, str] | None = None) -> None:
        self._files = [word for file in files for word in ("-f", str(COMPOSE / file))]
        self.secret = folder / "cluster.secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o400)
        root = os.getuid() == 0
        if root:
            os.chown(self.secret, OWNER, OWNER)
        ports = random.sample([port for port in random.sample(RANGE, 100) if is_free(port)], BROKERS)
        numbered = {f"HOLDFAST_KAFKA_PORT_{number}": str(port) for number, port in enumerate(ports, 1)}
        self.name = f"holdfast-{os.getpid()}-{secrets.token_hex(2)}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
            "COMPOSE_PROJECT_NAME": self.name,
            "HOLDFAST_CLUSTER_SECRET_FILE": str(self.secret),
            "HOLDFAST_KAFKA_PORT": str(ports[0]),
            **numbered,
            "HOLDFAST_UID": str(OWNER if root else os.getuid()),
            **(variables or {}),
        }
        self._ports = ports
        self._admin: AdminClient | None = None

    @property
    def bootstrap_servers(self) -> str:
        brokers = sum(service.startswith("kafka") for service in self.services())
        return ",".join(f"127.0.0.1:{port}" for port in self._ports[:brokers])

    def build(self, *words: str) -> float:
        """Every image, that of the commands, too. Seconds that it took. Raises DockerFailed."""
        began_s = time.monotonic()
        self.compose("--profile", "cli", "build", *words, seconds=BUILD_S)
        return time.monotonic() - began_s

    def images(self) -> set[str]:
        """Images of the project, built or pulled."""
        return set(self.compose("--profile", "cli", "config", "--images").split())

    def up(self) -> float:
        """Seconds until every service is healthy. Raises DockerFailed."""
        began_s = time.monotonic()
        self.compose("up", "--wait", seconds=UP_S)
        return time.monotonic() - began_s

    def down(self) -> None:
        """Removes the project, also paused containers, which compose cannot stop."""
        if paused := self.compose("ps", "--status", "paused", "--quiet").split():
            self.docker("unpause", *paused)
        self.compose("--profile", "cli", "down", "--volumes", "--timeout", "1")

    def services(self) -> list[str]:
        """Services that `up` starts."""
        return sorted(self.compose("config", "--services").split())

    def hosts(self) -> dict[str, str]:
        """Service by HOLDFAST_HOST."""
        services = json.loads(self.compose("config", "--format", "json"))["services"]
        named = {name: one.get("environment", {}).get("HOLDFAST_HOST") for name, one in services.items()}
        return {host: name for name, host in named.items() if host is not None}

    def inspected(self) -> dict[str, Any]:
        """Container of each service as the engine describes it."""
        containers = self.compose("ps", "--all", "--quiet").split()
        found = json.loads(self.docker("inspect", *containers))
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def running(self) -> dict[str, str]:
        """The container of each running service, by one command."""
        named = '{{.Label "com.docker.compose.service"}} {{.ID}}'
        lines = self.docker("ps", *self._mine(), "--format", named).splitlines()
        return dict(sorted(tuple(line.split(None, 1)) for line in lines))  # type: ignore[misc]

    def healthy(self, service: str) -> bool:
        return is_healthy(json.loads(self.docker("inspect", self.container(service)))[0])

    def out_of_sync(self) -> list[str]:
        """Partitions of which a replica is not in sync: none if another broker may be lost."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": SILENT})
        try:
            found = self._admin.list_topics(timeout=5.0)
        except KafkaException as error:
            return [f"no broker says so: {error}"]
        return [
            f"{name}[{index}]: {sorted(one.isrs)} of {sorted(one.replicas)}"
            for name, topic in sorted(found.topics.items())
            for index, one in sorted(topic.partitions.items())
            if set(one.isrs) != set(one.replicas)
        ]

    def logs(self, lines: int = 60) -> str:
        """The last of each container."""
        return self.compose("logs", "--no-color", "--timestamps", "--tail", str(lines))

    def container(self, service: str) -> str:
        """Asked of docker: compose, which reads its files first, takes ten times as much of a core."""
        return self.docker("ps", "--all", "--quiet", "--no-trunc", *self._mine(service=service)).strip()

    def _mine(self, **labels: str) -> list[str]:
        """Filters of `docker ps`."""
        wanted = {"project": self.name, **labels}
        return [word for name, one in wanted.items() for word in ("--filter", f"label=com.docker.compose.{name}={one}")]

    def inside(self, service: str, script: str) -> str:
        return self.compose("exec", "-T", service, "sh", "-c", script)

    def compose(self, *words: str, seconds: float = PATIENCE_S) -> str:
        return self._run(["docker", "compose", *self._files, *words], seconds)

    def docker(self, *words: str) -> str:
        return self._run(["docker", *words], PATIENCE_S)

    def _run(self, command: list[str], seconds: float) -> str:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=seconds, env=self.environment
            )
        except subprocess.TimeoutExpired as late:
            raise DockerFailed(f"{' '.join(command)}: not done after {seconds:g} s") from late
        if done.returncode:
            raise DockerFailed(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def is_healthy(inspected: Mapping[str, Any]) -> bool:
    state = inspected["State"]
    return bool(state["Running"] and state.get("Health", {}).get("Status", "healthy") == "healthy")

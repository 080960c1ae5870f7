"""Clusters of containers for tests: compose files built, started, and asked for what a test needs to know."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.topics import ClusterTopics
from services.node.ports import choose_pair
from tests.support.cluster import Cluster

COMPOSE = Path(__file__).parents[2] / "compose"
BUILD_S, UP_S, PATIENCE_S = 1800, 600, 240.0
OWNER = 10_001


def no_engine() -> str:
    """Why no engine can be used; empty if one answers."""
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


class Containers(Cluster):
    """A project of its own, on a port of its own.

    Args:
        folder: for its secret. files: of the directory `compose`.
    """

    def __init__(self, folder: Path, *files: str) -> None:
        super().__init__(ClusterTopics(), PATIENCE_S)
        self._files = [word for file in files for word in ("-f", str(COMPOSE / file))]
        self.secret = folder / "cluster.secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o400)
        root = os.getuid() == 0
        if root:
            os.chown(self.secret, OWNER, OWNER)
        self.port = choose_pair()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
            "COMPOSE_PROJECT_NAME": f"holdfast-test-{os.getpid()}",
            "HOLDFAST_CLUSTER_SECRET_FILE": str(self.secret),
            "HOLDFAST_KAFKA_PORT": str(self.port),
            "HOLDFAST_UID": str(OWNER if root else os.getuid()),
        }

    def compose(self, *words: str, seconds: float = PATIENCE_S) -> str:
        command = ["docker", "compose", *self._files, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, env=self._environment
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def up(self) -> None:
        self.began_s = time.monotonic()
        self.compose("build", seconds=BUILD_S)
        built_s = time.monotonic()
        self.compose("up", "--wait", seconds=UP_S)
        print(f"\nbuilt in {built_s - self.began_s:.1f} s, up and healthy {time.monotonic() - built_s:.1f} s later")
        self.connect(f"127.0.0.1:{self.port}")

    def down(self) -> None:
        """Also where a test has left a container paused, which nothing else can stop."""
        if paused := self.compose("ps", "--status", "paused", "--quiet").split():
            self.docker("unpause", *paused)
        self.compose("--profile", "cli", "down", "--volumes", "--timeout", "1")

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--tail", "60")

    def container(self, service: str) -> str:
        return self.compose("ps", "--all", "--quiet", service).strip()

    def docker(self, *words: str) -> str:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def inside(self, service: str, script: str) -> str:
        return self.compose("exec", "-T", service, "sh", "-c", script)


@contextmanager
def running_containers(folder: Path, *files: str) -> Iterator[Containers]:
    """Built, up and healthy; skips the test where no engine answers. Its logs are printed if anything fails."""
    if why := no_engine():
        pytest.skip(why)
    made = Containers(folder, *files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CLUSTER_SECRET", made.secret.read_text())
        try:
            made.up()
            yield made
            made.close()
        except BaseException:
            print(made.logs())
            raise
        finally:
            made.down()

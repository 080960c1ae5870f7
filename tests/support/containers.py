"""Clusters of containers for tests: compose files built, started, and asked for what a test needs to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pytest

from bench.compose.project import BUILD_S, PATIENCE_S, Project, no_engine
from holdfast.schemas.topics import ClusterTopics
from tests.support.cluster import Cluster

__all__ = ["BUILD_S", "PATIENCE_S", "Containers", "build", "running_containers"]
NONE: Mapping[str, str] = MappingProxyType({})
_built: set[str] = set()


def build(project: Project) -> float:
    """Its images, once in a process, whatever projects use them: to find that nothing has changed takes seconds, too.

    Returns how long it took, s. Raises DockerFailed.
    """
    images = project.images()
    took_s = 0.0 if images <= _built else project.build()
    _built.update(images)
    return took_s


class Containers(Cluster):
    """A project of its own, on ports of its own."""

    def __init__(self, project: Project) -> None:
        super().__init__(ClusterTopics(), PATIENCE_S)
        self.project = project
        self.compose, self.docker, self.inside = project.compose, project.docker, project.inside
        self.container = project.container

    def up(self) -> None:
        built_s = build(self.project)
        print(f"\nbuilt in {built_s:.1f} s, up and healthy {self.project.up():.1f} s later")


_C = TypeVar("_C", bound=Containers)


@contextmanager
def running_containers(folder: Path, *files: str | Path, variables: Mapping[str, str] = NONE) -> Iterator[Containers]:
    """Built, up and healthy; skips the test where no engine answers. Its logs are printed if anything fails.

    Args:
        variables: of the project's environment.
    """
    if why := no_engine():
        pytest.skip(why)
    with running(Containers(Project(folder, *files, variables=dict(variables)))) as made:
        yield made


@contextmanager
def running(made: _C) -> Iterator[_C]:
    """The same of a project that has not been built yet, where an engine answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CLUSTER_SECRET", made.project.secret.read_text().strip())
        try:
            made.up()
            made.connect(made.project.bootstrap_servers)
            yield made
            made.close()
        except BaseException:
            print(made.project.logs())
            raise
        finally:
            made.project.down()

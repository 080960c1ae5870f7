"""The cluster of a compose project, for measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from bench.compose.project import DockerFailed, Project
from bench.rig.cluster import BenchCluster
from holdfast.services.log.door import open_log


class ContainerCluster(BenchCluster):
    """Once `connect` was called."""

    def __init__(self, folder: Path, project: Project, say: Callable[[str], None]) -> None:
        super().__init__(folder, say)
        self.project = project

    def connect(self) -> None:
        self.bootstrap_servers = self.project.bootstrap_servers
        self._log = open_log(self.bootstrap_servers, self.topics.prefix, "bench")
        self.appender = self._log.appender("bench")

    def stop(self) -> None:
        """Removes the containers and volumes; the images stay."""
        if self._log is not None:
            self._log.close()
        self.project.down()


@contextmanager
def containers(folder: Path, project: Project, say: Callable[[str], None]) -> Iterator[ContainerCluster]:
    """A cluster that is not built yet, removed at the end in any case; after an error, the containers' logs are printed
    first.
    """
    cluster = ContainerCluster(folder, project, say)
    with mock.patch.dict("os.environ", {"HOLDFAST_CLUSTER_SECRET": project.secret.read_text()}):
        try:
            yield cluster
        except BaseException:
            try:
                say(project.logs())
            except DockerFailed as error:
                say(str(error))
            raise
        finally:
            cluster.stop()

"""Door: a Kafka that has answered, and the cluster on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.schemas.topics import ClusterTopics
from holdfast.services.log.patience import PATIENCE_S, Patience
from holdfast.services.log.protocol import Log


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The place of a cluster.

    data_dir: directory of the local cluster, whether one runs or not.
    local: true if the cluster runs there, with this secret_file.
    """

    data_dir: Path
    bootstrap_servers: str
    prefix: str
    local: bool
    secret_file: str = ""


def _say_nothing(_: str) -> None:
    """Drops the message: no person waits."""


UNTOLD = Patience(PATIENCE_S, _say_nothing)


@dataclass(frozen=True, slots=True)
class Door:
    """A Kafka that has answered, and the names of the cluster on it.

    present: number of partitions, by topic.
    patience: the log's patience, for a command's waits that are not calls of the log.
    """

    log: Log
    topics: ClusterTopics
    present: dict[str, int]
    where: Whereabouts
    patience: Patience = UNTOLD

"""The peers, and their runtimes: pinned versions, installed on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.measures.peers.environment import environment_of
from holdfast.services.node.machine.artifacts import INFRA, ensure, read_set
from holdfast.services.node.machine.java import find_java

PROGRAMS = INFRA / "peers"
KAFKA_STREAMS = "kafka-streams"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another stream processor.

    at_most: number of records that it gets, since slow peers take too long for all.
    brought: returns the start of a command, to which bootstrap servers, the topic read and the topic written are added;
        raises PeerMissing, ArtifactsMissing or JavaMissing.
    """

    name: str
    version: str
    at_most: int
    brought: Callable[[], list[str]]


def _python(program: str, *requirements: str) -> Callable[[], list[str]]:
    return lambda: [str(environment_of(requirements)), str(PROGRAMS / program)]


def kafka_streams(program: str = "running-count") -> list[str]:
    """Java compiles a single source file by itself, if it is a JDK. Raises ArtifactsMissing or JavaMissing."""
    return [find_java().path, "-cp", ensure(KAFKA_STREAMS).class_path, str(PROGRAMS / "StreamsPeer.java"), program]


PEERS = (
    Peer("kafka_streams", read_set(KAFKA_STREAMS).coordinates[0].revision, 2_000_000, kafka_streams),
    Peer("bytewax", "0.21.1", 1_000_000, _python("bytewax_count.py", "bytewax[kafka]==0.21.1")),
    Peer("quix", "3.28.1", 500_000, _python("quix_count.py", "quixstreams==3.28.1")),
    Peer("faust", "0.15.3", 30_000, _python("faust_count.py", "faust-streaming==0.15.3")),
)

"""Names of all objects on Kafka: topics, transactional ids, and the settings with which each topic is created.

Source: PROTOCOL 1.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
"""Names that a job, source, operator or query may have."""

_OF_A_JOB = re.compile(rf"(?P<job>{NAME.pattern})\.(?P<generation>\d+-[0-9a-f]{{6}})\.(?P<kind>[a-z-]+)(\..+)?")
"""The part that follows the prefix in the name of a topic of a job."""

SEGMENT_BYTES = 16 * 1024 * 1024
CUT_SEGMENT_BYTES = 4 * 1024 * 1024
"""Segment size of the cut log, of which an hour of a busy job is 100 MB: a trim frees whole segments."""
KEPT_LETTERS_BYTES = 1024**3
KEPT_EVENTS_BYTES = 256 * 1024**2
ROLLS_PER_S, SHORTEST_ROLL_MS = 4, 1_000
"""Largest rate of new segments for the frames, and for the checkpoints, of a job, and least time between two of one
partition. Measured: a segment takes the broker 3.5 ms of CPU, and an append that waits for it longer."""
_MINUTES_MS = 60_000
_DAYS_MS = 24 * 60 * _MINUTES_MS


class Partition(NamedTuple):
    """A partition of a topic. A tuple, since it is hashed for every record."""

    topic: str
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.topic}[{self.index}]"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it is to be created.

    replicas: -1: the broker's default.
    """

    name: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)
    replicas: int = -1


def _trimmed() -> dict[str, str]:
    """Settings of a topic that is kept until DeleteRecords trims it, which frees whole segments only."""
    return {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": str(SEGMENT_BYTES)}


def _rolled(partitions: int) -> dict[str, str]:
    """Settings of a topic that is trimmed all the time: the disk holds the kept records and the open segment.

    Segments roll by time and not by size, so that many records make large segments and not many.

    partitions: number of partitions with these settings.
    """
    roll_ms = max(SHORTEST_ROLL_MS, partitions * 1000 // ROLLS_PER_S)
    return _trimmed() | {"segment.ms": str(roll_ms), "file.delete.delay.ms": "100"}


def _decided() -> dict[str, str]:
    return _trimmed() | {"flush.messages": "1"}


def _for_a_while(ms: int) -> dict[str, str]:
    """Settings of a topic whose segments are deleted by age: the disk holds the kept records, and an eighth more."""
    roll_ms = max(ms // 8, _MINUTES_MS)
    aged = {"cleanup.policy": "delete", "retention.ms": str(ms), "segment.ms": str(roll_ms)}
    return aged | {"segment.bytes": str(SEGMENT_BYTES)}


def _eighth(kept_bytes: int) -> int:
    """Returns the segment size of a topic that is bounded in bytes, from which whole segments are deleted."""
    return min(max(kept_bytes // 8, 1024 * 1024), SEGMENT_BYTES)


def _cut() -> dict[str, str]:
    """Settings of a topic that is trimmed to a snapshot from time to time."""
    rolls = {"segment.bytes": str(CUT_SEGMENT_BYTES), "segment.ms": str(10 * _MINUTES_MS)}
    return _trimmed() | rolls | {"file.delete.delay.ms": "100"}


def _latest() -> dict[str, str]:
    """Settings of a compacted topic.

    Compaction leaves the open segment alone, so that segment must not live for ever. Compaction also keeps the marks of
    transactions, 78 bytes each, for `delete.retention.ms`: by default a day.
    """
    kept = {"segment.bytes": str(SEGMENT_BYTES), "segment.ms": str(_MINUTES_MS), "file.delete.delay.ms": "100"}
    marks = {"delete.retention.ms": str(10 * _MINUTES_MS)}
    return {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", **kept, **marks}


@dataclass(frozen=True)
class ClusterTopics:
    """The topics that all jobs of a cluster share. Names are made once, as loops use them with every record."""

    prefix: str = "holdfast"

    @cached_property
    def submit(self) -> str:
        return f"{self.prefix}.jobs.submit"

    @cached_property
    def plans(self) -> str:
        return f"{self.prefix}.jobs.plans"

    @cached_property
    def status(self) -> str:
        return f"{self.prefix}.jobs.status"

    @cached_property
    def assignments(self) -> str:
        return f"{self.prefix}.assignments"

    @cached_property
    def heartbeats(self) -> str:
        return f"{self.prefix}.heartbeats"

    @cached_property
    def events(self) -> str:
        return f"{self.prefix}.events"

    def specs(self, keep_events_ms: int = 7 * _DAYS_MS, keep_events_bytes: int = KEPT_EVENTS_BYTES) -> list[TopicSpec]:
        """Returns every cluster topic with its settings."""
        events = _for_a_while(keep_events_ms) | {"retention.bytes": str(keep_events_bytes)}
        return [
            TopicSpec(self.submit, 1, _decided()),
            TopicSpec(self.plans, 1, _decided()),
            TopicSpec(self.status, 1, _latest()),
            TopicSpec(self.assignments, 1, _decided()),  # a late reader begins at a snapshot near the end
            TopicSpec(self.heartbeats, 1, _for_a_while(10 * _MINUTES_MS)),
            TopicSpec(self.events, 1, events | {"segment.bytes": str(_eighth(keep_events_bytes))}),
        ]

    @cached_property
    def savepoints(self) -> str:
        """Prefix of the topics of savepoints with which jobs begin."""
        return f"{self.prefix}.savepoints."

    def savepoint(self, id: str) -> TopicSpec:
        """Returns the topic of one savepoint; kept for as long as the job that began with it exists."""
        return TopicSpec(f"{self.savepoints}{id}", 1, _trimmed())

    def job(self, job: str, generation: str) -> JobTopics:
        return JobTopics(self.prefix, job, generation)

    def owner(self, topic: str) -> str | None:
        """Returns the owner of a topic: "cluster" if all jobs share it, "job@generation", or None for a topic of
        others.
        """
        if self._shared(topic) or topic.startswith(self.savepoints):
            return "cluster"
        found = self._of_a_job(topic)
        return None if found is None else f"{found['job']}@{found['generation']}"

    def sealed(self, partition: Partition) -> bool:
        """True if records of the partition count only with the seal of the cluster.

        False for records that people write (`jobs.submit`, their own topics) and for those that Spark reads and writes
        by itself, one for each row (`rows`, and all but the first partition of `commits`).
        """
        if self._shared(partition.topic) or partition.topic.startswith(self.savepoints):
            return partition.topic != self.submit
        found = self._of_a_job(partition.topic)
        return found is not None and found["kind"] != "rows" and (found["kind"] != "commits" or partition.index == 0)

    def _shared(self, topic: str) -> bool:
        return any(topic == spec.name for spec in self.specs())

    def _of_a_job(self, topic: str) -> re.Match[str] | None:
        return _OF_A_JOB.fullmatch(topic, len(self.prefix) + 1) if topic.startswith(f"{self.prefix}.") else None


@dataclass(frozen=True)
class JobTopics:
    """The topics of one generation of one job."""

    prefix: str
    job: str
    generation: str

    @cached_property
    def root(self) -> str:
        return f"{self.prefix}.{self.job}.{self.generation}"

    @cached_property
    def cuts(self) -> str:
        return f"{self.root}.cuts"

    @cached_property
    def checkpoints(self) -> str:
        return f"{self.root}.checkpoints"

    @property
    def progress(self) -> str:
        return f"{self.root}.progress"

    @property
    def delivered(self) -> str:
        return f"{self.root}.delivered"

    @property
    def dead_letters(self) -> str:
        return f"{self.root}.dead-letters"

    @property
    def replayed(self) -> TopicSpec:
        """The topic with the offsets up to which dead letters were sent back; the first resend creates it."""
        return TopicSpec(f"{self.root}.replayed", 1, _latest())

    @property
    def recorded(self) -> frozenset[str]:
        """Topics of a job that `holdfast replay` reads; with `keep_cuts` they outlive the job."""
        return frozenset({self.cuts, self.delivered, self.progress, self.dead_letters})

    @property
    def all_data(self) -> str:
        """Prefix of the names of the job's data topics; for those of Spark operators: all_commits, all_rows,
        all_query_files."""
        return f"{self.root}.data."

    @property
    def all_commits(self) -> str:
        return f"{self.root}.commits."

    @property
    def all_rows(self) -> str:
        return f"{self.root}.rows."

    @property
    def all_query_files(self) -> str:
        return f"{self.root}.query-files."

    def data(self, operator: str, number: int) -> str:
        """The topic of one operator's output under one partitioning."""
        return f"{self.all_data}{operator}.{number}"

    def commits(self, operator: str) -> str:
        """Returns the topic with the output of a Spark operator, and the commits that name its valid part."""
        return f"{self.all_commits}{operator}"

    def rows(self, operator: str) -> str:
        """Returns the topic with the plain input of a Spark operator that does not follow a source directly."""
        return f"{self.all_rows}{operator}"

    def query_files(self, operator: str) -> str:
        """Returns the topic with the files of the checkpoint of a Spark operator's query."""
        return f"{self.all_query_files}{operator}"

    def transactional_id(self, unit: str) -> str:
        """Returns the transactional id of a unit: its sink rows, dead letters and position commit together."""
        return f"{self.root}.{unit}"

    def specs(
        self,
        units: int,
        data: dict[str, int],
        keep_letters_ms: int = 7 * _DAYS_MS,
        keep_letters_bytes: int = KEPT_LETTERS_BYTES,
    ) -> list[TopicSpec]:
        """Returns every topic of the generation.

        Args:
            units: number of units (partitions of checkpoints and delivered).
            data: partitions of each data topic, by topic name.
            keep_letters_ms, keep_letters_bytes: longest age and largest size of kept dead letters.
        """
        letters = _for_a_while(keep_letters_ms) | {"retention.bytes": str(keep_letters_bytes)}
        shared = [
            TopicSpec(self.cuts, 1, _cut()),
            TopicSpec(self.checkpoints, units, _rolled(units)),
            TopicSpec(self.progress, 1, _latest()),
            TopicSpec(self.delivered, units, _latest()),
            TopicSpec(self.dead_letters, 1, letters | {"segment.bytes": str(_eighth(keep_letters_bytes))}),
        ]
        frames = {name: count for name, count in data.items() if name.startswith(f"{self.root}.data.")}
        rolled = _rolled(sum(frames.values()))  # topics without trims would get many small segments

        def config(name: str) -> dict[str, str]:
            if name.startswith(self.all_query_files):
                return _latest()
            return rolled if name in frames else _trimmed()

        return shared + [TopicSpec(name, n, config(name)) for name, n in sorted(data.items())]


def edge(topic: str) -> str:
    """Returns the name of a topic of `JobTopics.data` for people and statistics: `<operator>.<number>`."""
    return topic.rpartition(".data.")[2]


def generation(offset: int, timestamp_ms: int, record: bytes) -> str:
    """Returns the generation of a job: offset of its JobSpec and six hex digits of its timestamp and bytes.

    A broker that lost its tail can give the same offset twice; the digits distinguish the two.
    """
    digest = hashlib.sha256(timestamp_ms.to_bytes(8, "big", signed=True) + record).hexdigest()
    return f"{offset}-{digest[:6]}"


def generation_number(text: str) -> int:
    """Returns a generation as the 64-bit number of frame headers: 40 bits of offset, 24 of hash."""
    offset, digits = text.split("-")
    return (int(offset) & (2**40 - 1)) << 24 | int(digits, 16)

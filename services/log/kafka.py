"""`Log` on a Kafka cluster, through confluent-kafka.

One suite holds it and services/log/memory.py to the same contract: tests/contract/test_log.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec, OffsetSpec, TimestampSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from schemas.topics import Partition, TopicSpec
from services.kernel.errors import Retriable, StateCorrupted, Torn
from services.log.kafka_appender import KafkaAppender
from services.log.kafka_client import ANSWER_S, MAX_MESSAGE_BYTES, Cluster, error_of
from services.log.kafka_reader import KafkaReader
from services.log.kafka_scan import Scanner
from services.log.kafka_transactor import KafkaTransactor
from services.log.protocol import At, Described, Message

SETTLED_S = 20.0
"""How long topics may take to be led, or to be gone, on a broker that answers."""

OPEN_S = 8.0
"""Longer than the broker leaves any transaction open: its time-out, and the interval at which it looks."""

FIRST_STRETCH = 64
_LOOK_AGAIN_S = 0.01
_NONE_SINCE = -1
_START = EarliestSpec()  # type: ignore[no-untyped-call]
_END = LatestSpec()  # type: ignore[no-untyped-call]
_COMMITTED = IsolationLevel.READ_COMMITTED


_MOVED = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._NOENT,
)
"""A topic just made, or a broker just back: its leaders are not settled, or not the ones the client knows."""
_TORN = (
    "Kafka has declared a transaction complete and left it open in {partition}, offsets {stable} to {end}: what it "
    "wrote elsewhere may be committed or not. Kafka 4.3 does that when a partition is without a leader while a "
    "transaction ends there (a broker whose partitions have no other replica restarts). End it with "
    "kafka-transactions.sh (find-hanging, abort), compare the last rows of the job's sinks, and submit the job again"
)
_LARGE = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_T = TypeVar("_T")
_Asked = dict[TopicPartition, Future[Any]]


class _Moved(Retriable):
    """Another broker, or the same one in another life, leads the partition."""


class KafkaLog:
    """Implements Log; one for a process, and all of its methods may be called from any thread.

    Args:
        bootstrap_servers: host:port, several separated by commas.
        client_settings: what the user sets for every client, such as security.protocol.
        name: of the process, in the names of its clients.
    """

    def __init__(self, bootstrap_servers: str, client_settings: Mapping[str, str] | None, name: str) -> None:
        self._cluster = Cluster(bootstrap_servers, dict(client_settings or {}))
        self._name = name
        self._admin = self._cluster.admin(f"{name}-admin")
        self._scanner = Scanner(self._cluster, name)

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Returns once every partition has a leader that takes records.

        Metadata names it some milliseconds before. A producer's first request is refused then, and if the next, which
        is under way already, is not, the library takes the first for delivered too: its records are lost.
        """
        wanted = {spec.name: spec for spec in topics}
        present = self.topics()
        missing = [spec for name, spec in wanted.items() if name not in present]
        if missing:
            new = [NewTopic(s.name, s.partitions, s.replicas, config=_LARGE | s.config) for s in missing]
            created = self._admin.create_topics(new, operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
            for name, future in created.items():
                self._answer(f"create {name}", future, KafkaError.TOPIC_ALREADY_EXISTS)
        self._await(f"create {sorted(wanted)}", lambda: wanted.keys() <= self._led())
        present = self.topics()
        self.offsets([Partition(name, index) for name in wanted for index in range(present.get(name, 0))], "end")

    def delete(self, names: Iterable[str]) -> None:
        """Returns once they are gone."""
        gone = set(names) & self.topics().keys()
        if gone:
            deleted = self._admin.delete_topics(sorted(gone), operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
            for name, future in deleted.items():
                self._answer(f"delete {name}", future, KafkaError.UNKNOWN_TOPIC_OR_PART)
            self._await(f"delete {sorted(gone)}", lambda: gone.isdisjoint(self.topics()))

    def topics(self) -> dict[str, int]:
        found = self._metadata().items()
        return {name: len(topic.partitions) for name, topic in found if not name.startswith("__")}

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """Raises Retriable."""
        names = sorted(set(topics))
        if not names:
            return {}
        found = {}
        asked = self._admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_S)
        for name, future in asked.items():
            topic = self._answer(f"describe {name}", future, *_NO_TOPIC)
            if topic is not None:
                found[name] = Described(_id(topic), len(topic.partitions))
        return found

    def config(self, topic: str) -> dict[str, str]:
        """Every setting, also those at their default; empty if there is no such topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=ANSWER_S)[resource]
        entries = self._answer(f"describe {topic}", future, KafkaError.UNKNOWN_TOPIC_OR_PART) or {}
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        """A time after the last record gives the end."""
        wanted = list(partitions)
        if at == "start":
            return self._list_offsets(wanted, _START)
        if at == "end":
            return self._list_offsets(wanted, _END)
        found = self._list_offsets(wanted, TimestampSpec(at))
        late = [p for p, offset in found.items() if offset == _NONE_SINCE]
        return found | self._list_offsets(late, _END)

    def start_group(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Where a consumer group that has no members yet begins to read. Raises Retriable."""
        where = [TopicPartition(p.topic, p.index, offset) for p, offset in positions.items()]
        asked = ConsumerGroupTopicPartitions(group, where)
        (future,) = self._admin.alter_consumer_group_offsets([asked], request_timeout=ANSWER_S).values()
        self._answer(f"start group {group}", future)

    def trim(self, upto: Mapping[Partition, int]) -> None:
        """Raises StateCorrupted for an offset above the end: the log has lost its tail."""
        if not upto:
            return
        self._follow(lambda: self._trim(upto))

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Raises StateCorrupted while it is read, if the log was trimmed above the position."""
        begin, end = self._bounds(partition)
        return self._scanner.scan(partition, begin if start is None else start, end)

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        start, end = self._settled_bounds(partition) if settled else self._bounds(partition)
        stretch = FIRST_STRETCH
        while start < end:
            begin = max(start, end - stretch)
            found: Message | None = None
            for found in self._scanner.scan(partition, begin, end):  # noqa: B007
                pass
            if found is not None or begin == start:
                return found
            stretch *= 2
        return None

    def reader(self, name: str) -> KafkaReader:
        return KafkaReader(self._cluster, f"{self._name}-{name}")

    def appender(self, name: str) -> KafkaAppender:
        return KafkaAppender(self._cluster, f"{self._name}-{name}")

    def transactor(self, transactional_id: str) -> KafkaTransactor:
        return KafkaTransactor(self._cluster, transactional_id)

    def close(self) -> None:
        self._scanner.close()

    def _trim(self, upto: Mapping[Partition, int]) -> None:
        asked = [TopicPartition(p.topic, p.index, offset) for p, offset in upto.items()]
        for where, future in self._admin.delete_records(asked, request_timeout=ANSWER_S).items():
            partition = Partition(where.topic, where.partition)
            if self._answer(f"trim {partition}", future, KafkaError.OFFSET_OUT_OF_RANGE) is None:
                raise StateCorrupted(f"{partition}: cannot trim up to {upto[partition]}, which is above the end")

    def _metadata(self) -> dict[str, Any]:
        try:
            found = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as exception:
            raise self._cluster.unanswered("list topics", error_of(exception).str()) from exception
        return {name: topic for name, topic in found.items() if topic.error is None}

    def _led(self) -> set[str]:
        """Topics of which every partition has a leader."""
        found = self._metadata().items()
        return {
            name
            for name, topic in found
            if topic.partitions and all(p.error is None and p.leader >= 0 for p in topic.partitions.values())
        }

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        """Start and last stable offset."""
        start, stable = self._at_once(partition, (_START, _COMMITTED), (_END, _COMMITTED))
        return start, stable

    def _settled_bounds(self, partition: Partition) -> tuple[int, int]:
        """The same; raises Torn when what lies behind the last stable offset stays there.

        Not at once: to a copy that was fenced since, and does not know it yet, a successor's transactions look alike.
        """
        deadline, first = time.monotonic() + OPEN_S, None
        while True:
            start, stable, end = self._at_once(
                partition, (_START, _COMMITTED), (_END, _COMMITTED), (_END, IsolationLevel.READ_UNCOMMITTED)
            )
            first = stable if first is None else first
            if stable == end or stable != first:
                return start, stable
            if time.monotonic() > deadline:
                raise Torn(_TORN.format(partition=partition, stable=stable, end=end))
            time.sleep(_LOOK_AGAIN_S)

    def _at_once(self, partition: Partition, *ends: tuple[OffsetSpec, IsolationLevel]) -> list[int]:
        """Several ends of a partition, for the time that one takes."""

        def ask() -> list[int]:
            asked = [self._ask_offsets([partition], *end) for end in ends]
            return [self._answer_offsets(futures)[partition] for futures in asked]

        return self._follow(ask)

    def _list_offsets(self, partitions: list[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        if not partitions:
            return {}
        return self._follow(lambda: self._answer_offsets(self._ask_offsets(partitions, spec, _COMMITTED)))

    def _ask_offsets(self, partitions: list[Partition], spec: OffsetSpec, isolation: IsolationLevel) -> _Asked:
        """For read_committed readers the end is the last stable offset."""
        return self._admin.list_offsets(
            {TopicPartition(p.topic, p.index): spec for p in partitions},
            isolation_level=isolation,
            request_timeout=ANSWER_S,
        )

    def _answer_offsets(self, asked: _Asked) -> dict[Partition, int]:
        found = {}
        for where, future in asked.items():
            partition = Partition(where.topic, where.partition)
            found[partition] = self._answer(f"list offsets of {partition}", future).offset
        return found

    def _follow(self, ask: Callable[[], _T]) -> _T:
        """Asks again, with fresh metadata, while leaders move: after a restart what the client knows is outdated."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                return ask()
            except _Moved:
                if time.monotonic() > deadline:
                    raise
            self._metadata()
            time.sleep(_LOOK_AGAIN_S)

    def _answer(self, what: str, future: Future[Any], *harmless: int) -> Any:
        """The answer, or None for a harmless error."""
        try:
            return future.result(ANSWER_S + 0.5)
        except KafkaException as exception:
            error = error_of(exception)
            if error.code() in harmless:
                return None
            kind = _Moved if error.code() in _MOVED else Retriable
            raise kind(str(self._cluster.unanswered(what, error.str()))) from exception
        except TimeoutError as error:
            raise self._cluster.unanswered(what, "no answer") from error

    def _await(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLED_S
        while not reached():
            if time.monotonic() > deadline:
                raise Retriable(f"Kafka at {self._cluster.bootstrap_servers} took over {SETTLED_S:g} s to {what}")
            time.sleep(_LOOK_AGAIN_S)


def _id(topic: Any) -> str:
    """Of a described topic; empty if the broker names none."""
    id = topic.topic_id
    return "" if id is None or id.get_most_significant_bits() == id.get_least_significant_bits() == 0 else str(id)

"""`Log` on a Kafka cluster, through confluent-kafka.

One suite, tests/contract, holds this log and services/log/memory.py to the same contract.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import PositionGone, Retriable, StateCorrupted
from holdfast.services.log import answers
from holdfast.services.log.answers import Moved
from holdfast.services.log.kafka.appender import KafkaAppender
from holdfast.services.log.kafka.client import ANSWER_S, MAX_MESSAGE_BYTES, Cluster, error_of
from holdfast.services.log.kafka.offsets import Offsets
from holdfast.services.log.kafka.reader import LONG_WAIT_MS, WAIT_MS, KafkaReader
from holdfast.services.log.kafka.requests import (
    FORBIDDEN,
    LOOK_AGAIN_S,
    LOOK_SELDOM_S,
    MOVED,
    NO_TOPIC,
    Absent,
    NotAllowed,
    Requests,
)
from holdfast.services.log.kafka.scan import Scanner
from holdfast.services.log.kafka.transactor import KafkaTransactor
from holdfast.services.log.protocol import At, Described, Message

SETTLED_S = 20.0
"""Longest time in seconds for new topics to get leaders, or for deleted ones to disappear, on a broker that answers."""

ABSENT_S = 3.0
"""Seconds, longer than a broker runs without news from Kafka's controller about topics, in the project's broker
settings.
"""

FIRST_STRETCH = 64
_UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_CONTROLLER)
_SET = AlterConfigOpType.SET
_LARGE = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}

PATIENT_BYTES = 64 * 1024
"""Bytes for which a patient reader waits, at most for WAIT_MS of reader.py."""


class KafkaLog:
    """Implements Log; a process has one, and all of its methods may be called from any thread.

    Args:
        bootstrap_servers: host:port, several separated by commas.
        client_settings: the user's settings for every client, such as security.protocol.
        name: name of the process, part of its clients' names.
    """

    def __init__(self, bootstrap_servers: str, client_settings: Mapping[str, str] | None, name: str) -> None:
        self._cluster = Cluster(bootstrap_servers, dict(client_settings or {}))
        self._name = name
        self._requests = Requests(self._cluster, name)
        self._offsets = Offsets(self._requests, self._cluster.known)
        self._scanner = Scanner(self._cluster, name)

    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Creates missing topics; returns once every partition has a leader that accepts records.

        Metadata names a leader some milliseconds before. Then a producer's first request is refused; if the next
        request, already under way, is accepted, the library counts the first one as delivered too, and its records are
        lost.
        """
        wanted = {spec.name: spec for spec in topics}
        present = self.topics()
        missing = [spec for name, spec in wanted.items() if name not in present]
        refused: NotAllowed | None = None
        if missing:
            new = [NewTopic(s.name, s.partitions, s.replicas, config=_LARGE | s.config) for s in missing]
            try:
                self._requests.follow(lambda _: self._create(new))
            except NotAllowed as error:  # if only the controller may create topics, wait for its topics
                refused = error
        try:
            self._await(f"create {sorted(wanted)}", lambda: self._usable(wanted.keys()))
        except Retriable as late:
            raise late if refused is None else NotAllowed(f"{refused}. Nor has another process made them") from late

    def delete(self, names: Iterable[str]) -> None:
        """Deletes topics; returns once Kafka's controller no longer has them. A broker's metadata may be outdated."""
        gone = sorted(set(names))
        if gone:
            deleted = self._requests.admin.delete_topics(gone, operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
            for name, future in answers.all_of("delete", gone, deleted).items():
                self._requests.answer(f"delete {name}", future, KafkaError.UNKNOWN_TOPIC_OR_PART)
            self._await(f"delete {gone}", lambda: self.topics().keys().isdisjoint(gone))
            self._cluster.known.forget(set(gone))

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        found = self._counted()
        absent = [name for name in needed if name not in found]
        if absent:
            self._confirm_absent(absent)
        return found

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """Descriptions of topics; a topic is left out only once Kafka's controller confirms that it does not exist."""
        names = sorted(set(topics))
        found = self._requests.follow(lambda left_s: self._describe(names, left_s)) if names else {}
        if absent := [name for name in names if name not in found]:
            self._confirm_absent(absent)
        return found

    def config(self, topic: str) -> dict[str, str]:
        """Every setting of a topic, with its defaults; empty if there is no such topic."""
        return self._requests.follow(lambda left_s: self._config(topic, left_s))

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        """Changes settings as `Log.configure`. Raises Retriable, also when the user may not change settings."""
        for spec in topics:
            present = self.config(spec.name)
            differ = {name: value for name, value in spec.config.items() if present.get(name) != value}
            if differ:
                self._requests.follow(lambda left_s, name=spec.name, new=differ: self._alter(name, new, left_s))  # type: ignore[misc]

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        return self._offsets.at(list(partitions), at)

    def start_group(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Sets the positions at which a consumer group without members begins to read. Raises Retriable."""
        where = [TopicPartition(p.topic, p.index, offset) for p, offset in positions.items()]
        asked = ConsumerGroupTopicPartitions(group, where)
        futures = self._requests.admin.alter_consumer_group_offsets([asked], request_timeout=ANSWER_S)
        future = answers.all_of("start group", [group], futures)[group]
        started = self._requests.answer(f"start group {group}", future).topic_partitions or []
        refused = [f"{one.topic}[{one.partition}]: {one.error}" for one in started if one.error is not None]
        if refused or {Partition(one.topic, one.partition) for one in started} != positions.keys():
            raise Retriable(f"group {group} does not begin where it is to: {'; '.join(refused) or 'not answered'}")

    def trim(self, upto: Mapping[Partition, int]) -> None:
        """Trims as `Log.trim`. Raises StateCorrupted for an offset above the end: the log has lost its tail."""
        if upto:
            self._requests.follow(lambda left_s: self._trim(upto, left_s))

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Scans as `Log.scan`. Raises StateCorrupted during the scan if the log was trimmed above the position, or ends
        below it.
        """
        begin, end = self._offsets.bounds(partition)
        if start is not None and start > end:
            raise PositionGone(partition, start, f"it ends at {end}")
        return self._scanner.scan(partition, begin if start is None else start, end)

    def last(self, partition: Partition, settled: bool = False) -> Message | None:
        found = self.tail(partition, settled)
        return found[-1] if found else None

    def tail(self, partition: Partition, settled: bool = False) -> Sequence[Message]:
        start, end = self._offsets.settled_bounds(partition) if settled else self._offsets.bounds(partition)
        stretch = FIRST_STRETCH
        while start < end:
            begin = max(start, end - stretch)
            found = list(self._scanner.scan(partition, begin, end))
            if found or begin == start:
                return found
            stretch *= 2
        return ()

    def reader(
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> KafkaReader:
        least_bytes = PATIENT_BYTES if patient else 1
        wait_ms = LONG_WAIT_MS if waits_long else WAIT_MS
        return KafkaReader(self._cluster, f"{self._name}-{name}", wait_ms, least_bytes, on_demand=on_demand)

    def appender(self, name: str) -> KafkaAppender:
        return KafkaAppender(self._cluster, f"{self._name}-{name}")

    def transactor(self, transactional_id: str, batch_bytes: int | None = None) -> KafkaTransactor:
        return KafkaTransactor(self._cluster, transactional_id, batch_bytes)

    def close(self) -> None:
        self._scanner.close()

    def _create(self, new: list[NewTopic]) -> None:
        created = self._requests.admin.create_topics(new, operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
        for name, future in answers.all_of("create", [one.topic for one in new], created).items():
            self._requests.answer(f"create {name}", future, KafkaError.TOPIC_ALREADY_EXISTS)

    def _trim(self, upto: Mapping[Partition, int], left_s: float) -> None:
        where = [TopicPartition(p.topic, p.index, offset) for p, offset in upto.items()]
        asked = self._requests.admin.delete_records(where, request_timeout=left_s)
        for place, future in answers.all_of("trim", where, asked).items():
            partition = Partition(place.topic, place.partition)
            answer = self._requests.answer(f"trim {partition}", future, KafkaError.OFFSET_OUT_OF_RANGE)
            if answer is None:
                self._refused_trim(partition, upto[partition], left_s)
            answers.offset(partition, answer.low_watermark, upto[partition])

    def _refused_trim(self, partition: Partition, upto: int, left_s: float) -> NoReturn:
        """Raises the error of a refused trim: StateCorrupted if the partition ends below it, else Moved.

        A new leader does not know its end at first.
        """
        end = self._offsets.open_end(partition, left_s)
        if end < upto:
            raise StateCorrupted(f"{partition}: cannot trim up to {upto}, which is above the end {end}")
        raise Moved(f"{partition}: trimming to {upto} was refused, but it ends at {end}")

    def _describe(self, names: list[str], left_s: float) -> dict[str, Described]:
        asked = self._requests.admin.describe_topics(TopicCollection(names), request_timeout=left_s)
        found = {}
        for name, future in answers.all_of("describe", names, asked).items():
            topic = self._requests.answer(f"describe {name}", future, *NO_TOPIC)
            if topic is not None:
                count = answers.partitions(name, [one.id for one in topic.partitions])
                found[name] = Described(_id(topic), count, min(len(one.isr) for one in topic.partitions))
        return found

    def _config(self, topic: str, left_s: float) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._requests.admin.describe_configs([resource], request_timeout=left_s)
        future = answers.all_of("describe", [resource], asked)[resource]
        entries = self._requests.answer(f"describe {topic}", future, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if entries is None:
            return {}
        found = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        if not found:
            raise Moved(f"describe {topic}: it exists, but its settings are not listed")
        return found

    def _alter(self, topic: str, config: Mapping[str, str], left_s: float) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=_SET) for name, value in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        asked = self._requests.admin.incremental_alter_configs([resource], request_timeout=left_s)
        self._requests.answer(f"configure {topic}", answers.all_of("configure", [resource], asked)[resource])

    def _counted(self) -> dict[str, int]:
        """Partition counts by topic; asks again while leaders of a topic are being elected."""

        def ask(left_s: float) -> dict[str, int]:
            counts = {}
            for name, topic in self._requests.metadata(left_s).items():
                if topic.error is None and not name.startswith("__"):
                    counts[name] = answers.partitions(name, topic.partitions)
                elif topic.error is not None and topic.error.code() in MOVED:
                    raise Moved(f"list topics: {name}: {topic.error.str()}")
            return counts

        return self._requests.follow(ask)

    def _confirm_absent(self, names: list[str]) -> None:
        """Returns if Kafka's controller would create topics of these names. Raises Moved if one exists already.

        A topic that a broker does not list may still exist, if the broker is cut off or has just started.
        """
        asked = self._requests.admin.create_topics([NewTopic(name, 1) for name in names], request_timeout=ANSWER_S,
                                          validate_only=True)  # fmt: skip
        for name, future in answers.all_of("look for", names, asked).items():
            try:
                future.result(ANSWER_S + 0.5)
            except TimeoutError as late:
                raise self._cluster.unanswered(f"look for {name}", "no answer") from late
            except KafkaException as exception:
                error = error_of(exception)
                if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    raise Moved(f"{name} exists, but the broker that was asked does not know it yet") from exception
                if error.retriable() or error.code() in (*MOVED, *_UNANSWERED):
                    raise self._cluster.unanswered(f"look for {name}", error.str()) from exception
                if error.code() in FORBIDDEN:
                    self._await_absent(name)

    def _await_absent(self, name: str) -> None:
        """Returns once every asked broker has lacked the topic for ABSENT_S. Raises Moved if one lists it.

        Without the right to create topics, Kafka's controller gives no answer: a topic that no broker lists for this
        time, and that this user may not see, counts as absent.
        """
        deadline = time.monotonic() + ABSENT_S
        while time.monotonic() < deadline:
            if name in self._requests.metadata():
                raise Moved(f"{name} exists, but the broker that was asked did not know it yet")
            time.sleep(LOOK_SELDOM_S)

    def _usable(self, wanted: Collection[str]) -> bool:
        """True if every partition has a leader that accepts records."""
        found = self._requests.metadata()
        if not set(wanted) <= {name for name, topic in found.items() if _led(topic)}:
            return False
        try:
            self._offsets.ends([Partition(name, index) for name in wanted for index in found[name].partitions])
        except (Absent, Moved):  # the partition's leader does not know it yet, or is still being elected
            return False
        return True

    def _await(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLED_S
        while not reached():
            if time.monotonic() > deadline:
                raise Retriable(f"Kafka at {self._cluster.bootstrap_servers} took over {SETTLED_S:g} s to {what}")
            time.sleep(LOOK_AGAIN_S)


def _id(topic: Any) -> str:
    """The id of a described topic; empty if the broker names none."""
    id = topic.topic_id
    return "" if id is None or id.get_most_significant_bits() == id.get_least_significant_bits() == 0 else str(id)


def _led(topic: Any) -> bool:
    """True if every partition has a leader."""
    partitions = topic.partitions.values()
    return topic.error is None and bool(partitions) and all(p.error is None and p.leader >= 0 for p in partitions)

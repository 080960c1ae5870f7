"""`Log` on a Kafka cluster, through confluent-kafka.

One suite holds it and services/log/memory.py to the same contract: tests/contract/test_log.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import EarliestSpec, LatestSpec, OffsetSpec, TimestampSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from schemas.topics import Partition, TopicSpec
from services.kernel.errors import PositionGone, Retriable, StateCorrupted, Torn
from services.log import answers
from services.log.answers import Moved, WentBack
from services.log.kafka_appender import KafkaAppender
from services.log.kafka_client import ANSWER_S, MAX_MESSAGE_BYTES, Cluster, error_of
from services.log.kafka_reader import KafkaReader
from services.log.kafka_scan import Scanner
from services.log.kafka_transactor import KafkaTransactor
from services.log.login import LoginRefused
from services.log.protocol import At, Described, Message

SETTLED_S = 20.0
"""Longest time that topics take to get leaders, or to disappear, on a broker that answers."""

OPEN_S = 8.0
"""Longer than the broker leaves any transaction open: its time-out, and the interval at which it looks."""

ABSENT_S = 3.0
"""Longer than a broker lives without hearing from Kafka's controller what topics there are, as we set brokers up."""

FIRST_PATIENCE_S, PATIENCE_GROWTH = 0.25, 1.5
FIRST_STRETCH = 64
_LOOK_AGAIN_S, _LOOK_SELDOM_S = 0.01, 0.2
_NONE_SINCE = -1
_START = EarliestSpec()  # type: ignore[no-untyped-call]
_END = LatestSpec()  # type: ignore[no-untyped-call]
_COMMITTED = IsolationLevel.READ_COMMITTED


_MOVED = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._NOENT,
)
"""A topic just made, or a broker just gone or back: its leaders are not settled, or not the ones the client knows.

OFFSET_NOT_AVAILABLE is said by a leader that has just been chosen and does not know yet what was committed;
INVALID_REPLICATION_FACTOR while too few brokers are back; _TIMED_OUT by the client, whose request waits for a dead one.
"""
_TORN = (
    "Kafka has declared a transaction complete and left it open in {partition}, offsets {stable} to {end}: what it "
    "wrote elsewhere may be committed or not. Kafka 4.3 does that when a partition is without a leader while a "
    "transaction ends there (a broker whose partitions have no other replica restarts). End it with "
    "kafka-transactions.sh (find-hanging, abort), compare the last rows of the job's sinks, and submit the job again"
)
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_UNANSWERED = (KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_CONTROLLER)
_LEAST_S = 0.1
_SET = AlterConfigOpType.SET
_LARGE = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
_T = TypeVar("_T")
_Asked = dict[TopicPartition, Future[Any]]


class NotAllowed(Retriable):
    """Kafka does not let this process do that: its user lacks the right. Somebody may give it meanwhile."""


class Absent(Retriable):
    """The broker that was asked does not know the topic or partition."""


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
        refused: NotAllowed | None = None
        if missing:
            new = [NewTopic(s.name, s.partitions, s.replicas, config=_LARGE | s.config) for s in missing]
            try:
                self._follow(lambda _: self._create(new))
            except NotAllowed as error:  # where only the controller may, it is waited for
                refused = error
        try:
            self._await(f"create {sorted(wanted)}", lambda: self._usable(wanted.keys()))
        except Retriable as late:
            raise late if refused is None else NotAllowed(f"{refused}. Nor has another process made them") from late

    def delete(self, names: Iterable[str]) -> None:
        """Returns once they are gone.

        Whether a topic is there says Kafka's controller, not what a broker knows of it: that may be old.
        """
        gone = sorted(set(names))
        if gone:
            deleted = self._admin.delete_topics(gone, operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
            for name, future in answers.all_of("delete", gone, deleted).items():
                self._answer(f"delete {name}", future, KafkaError.UNKNOWN_TOPIC_OR_PART)
            self._await(f"delete {gone}", lambda: self.topics().keys().isdisjoint(gone))
            self._cluster.known.forget(set(gone))

    def topics(self, needed: Iterable[str] = ()) -> dict[str, int]:
        found = self._counted()
        absent = [name for name in needed if name not in found]
        if absent:
            self._confirm_absent(absent)
        return found

    def describe(self, topics: Iterable[str]) -> dict[str, Described]:
        """A topic is left out only once Kafka's controller says that there is none."""
        names = sorted(set(topics))
        found = self._follow(lambda left_s: self._describe(names, left_s)) if names else {}
        if absent := [name for name in names if name not in found]:
            self._confirm_absent(absent)
        return found

    def config(self, topic: str) -> dict[str, str]:
        """Every setting, also those at their default; empty if there is no such topic."""
        return self._follow(lambda left_s: self._config(topic, left_s))

    def configure(self, topics: Iterable[TopicSpec]) -> None:
        """Raises Retriable, as when the user of the cluster may not change settings."""
        for spec in topics:
            present = self.config(spec.name)
            differ = {name: value for name, value in spec.config.items() if present.get(name) != value}
            if differ:
                self._follow(lambda left_s, name=spec.name, new=differ: self._alter(name, new, left_s))  # type: ignore[misc]

    def offsets(self, partitions: Iterable[Partition], at: At) -> dict[Partition, int]:
        """A time after the last record gives the end, as it was before the time was asked for."""
        wanted = list(partitions)
        if at == "start":
            return self._list_offsets(wanted, _START)
        ends = self._ends(wanted)
        if at == "end":
            return ends
        found = self._list_offsets(wanted, TimestampSpec(at), _NONE_SINCE)
        return {p: ends[p] if offset == _NONE_SINCE else offset for p, offset in found.items()}

    def start_group(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Where a consumer group that has no members yet begins to read. Raises Retriable."""
        where = [TopicPartition(p.topic, p.index, offset) for p, offset in positions.items()]
        asked = ConsumerGroupTopicPartitions(group, where)
        futures = self._admin.alter_consumer_group_offsets([asked], request_timeout=ANSWER_S)
        future = answers.all_of("start group", [group], futures)[group]
        started = self._answer(f"start group {group}", future).topic_partitions or []
        refused = [f"{one.topic}[{one.partition}]: {one.error}" for one in started if one.error is not None]
        if refused or {Partition(one.topic, one.partition) for one in started} != positions.keys():
            raise Retriable(f"group {group} does not begin where it is to: {'; '.join(refused) or 'not answered'}")

    def trim(self, upto: Mapping[Partition, int]) -> None:
        """Raises StateCorrupted for an offset above the end: the log has lost its tail."""
        if upto:
            self._follow(lambda left_s: self._trim(upto, left_s))

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        """Raises StateCorrupted while it is read, if the log was trimmed above the position, or ends below it."""
        begin, end = self._bounds(partition)
        if start is not None and start > end:
            raise PositionGone(partition, start, f"it ends at {end}")
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

    def _create(self, new: list[NewTopic]) -> None:
        created = self._admin.create_topics(new, operation_timeout=ANSWER_S, request_timeout=ANSWER_S)
        for name, future in answers.all_of("create", [one.topic for one in new], created).items():
            self._answer(f"create {name}", future, KafkaError.TOPIC_ALREADY_EXISTS)

    def _trim(self, upto: Mapping[Partition, int], left_s: float) -> None:
        where = [TopicPartition(p.topic, p.index, offset) for p, offset in upto.items()]
        asked = self._admin.delete_records(where, request_timeout=left_s)
        for place, future in answers.all_of("trim", where, asked).items():
            partition = Partition(place.topic, place.partition)
            answer = self._answer(f"trim {partition}", future, KafkaError.OFFSET_OUT_OF_RANGE)
            if answer is None:
                self._refused_trim(partition, upto[partition], left_s)
            answers.offset(partition, answer.low_watermark, upto[partition])

    def _refused_trim(self, partition: Partition, upto: int, left_s: float) -> NoReturn:
        """Certain only if the leader knows what was committed: a new leader does not at first."""
        (end,) = self._asked([partition], (_END, IsolationLevel.READ_UNCOMMITTED), left_s=left_s)
        if end[partition] < upto:
            raise StateCorrupted(f"{partition}: cannot trim up to {upto}, which is above the end {end[partition]}")
        raise Moved(f"{partition}: trimming to {upto} was refused, but it ends at {end[partition]}")

    def _describe(self, names: list[str], left_s: float) -> dict[str, Described]:
        asked = self._admin.describe_topics(TopicCollection(names), request_timeout=left_s)
        found = {}
        for name, future in answers.all_of("describe", names, asked).items():
            topic = self._answer(f"describe {name}", future, *_NO_TOPIC)
            if topic is not None:
                found[name] = Described(_id(topic), answers.partitions(name, [one.id for one in topic.partitions]))
        return found

    def _config(self, topic: str, left_s: float) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin.describe_configs([resource], request_timeout=left_s)
        future = answers.all_of("describe", [resource], asked)[resource]
        entries = self._answer(f"describe {topic}", future, KafkaError.UNKNOWN_TOPIC_OR_PART)
        if entries is None:
            return {}
        found = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        if not found:
            raise Moved(f"describe {topic}: it exists, but its settings are not listed")
        return found

    def _alter(self, topic: str, config: Mapping[str, str], left_s: float) -> None:
        entries = [ConfigEntry(name, value, incremental_operation=_SET) for name, value in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        asked = self._admin.incremental_alter_configs([resource], request_timeout=left_s)
        self._answer(f"configure {topic}", answers.all_of("configure", [resource], asked)[resource])

    def _metadata(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """A broker's metadata of all topics; metadata without any broker is no answer."""
        try:
            found = self._admin.list_topics(timeout=timeout_s)
        except KafkaException as exception:
            raise self._unanswered("list topics", error_of(exception)) from exception
        if not found.brokers:
            raise Moved(f"list topics: Kafka at {self._cluster.bootstrap_servers} names no broker")
        return dict(found.topics)

    def _counted(self) -> dict[str, int]:
        """Partitions by topic; one whose leaders are being chosen is there, and asked for again."""

        def ask(left_s: float) -> dict[str, int]:
            counts = {}
            for name, topic in self._metadata(left_s).items():
                if topic.error is None and not name.startswith("__"):
                    counts[name] = answers.partitions(name, topic.partitions)
                elif topic.error is not None and topic.error.code() in _MOVED:
                    raise Moved(f"list topics: {name}: {topic.error.str()}")
            return counts

        return self._follow(ask)

    def _confirm_absent(self, names: list[str]) -> None:
        """Kafka's controller would make a topic of that name; raises Retriable if there is one already.

        A topic that a broker does not list may still exist, if the broker is cut off or has just started.
        """
        asked = self._admin.create_topics([NewTopic(name, 1) for name in names], request_timeout=ANSWER_S,
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
                if error.retriable() or error.code() in (*_MOVED, *_UNANSWERED):
                    raise self._cluster.unanswered(f"look for {name}", error.str()) from exception
                if error.code() in _FORBIDDEN:
                    self._await_absent(name)

    def _await_absent(self, name: str) -> None:
        """Without the right to create topics Kafka's controller says nothing: what every broker lacks for so long, and
        what this user may not see, is not there. Raises Moved if it is.
        """
        deadline = time.monotonic() + ABSENT_S
        while time.monotonic() < deadline:
            if name in self._metadata():
                raise Moved(f"{name} exists, but the broker that was asked did not know it yet")
            time.sleep(_LOOK_SELDOM_S)

    def _usable(self, wanted: Collection[str]) -> bool:
        """Every partition has a leader, which takes records."""
        found = self._metadata()
        if not set(wanted) <= {name for name, topic in found.items() if _led(topic)}:
            return False
        try:
            self._ends([Partition(name, index) for name in wanted for index in found[name].partitions])
        except (Absent, Moved):  # its leader does not know it yet, or is not settled
            return False
        return True

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
        """Several ends of a partition, from the start on, for the time that one takes."""
        return self._follow(lambda left_s: [one[partition] for one in self._asked([partition], *ends, left_s=left_s)])

    def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        """Last stable offsets. One below what was appended here is believed if the log reaches that far."""

        def ask(left_s: float) -> dict[Partition, int]:
            (stable,) = self._asked(partitions, (_END, _COMMITTED), left_s=left_s)
            if open_ones := [p for p, end in stable.items() if end < self._cluster.known.appended(p)]:
                self._asked(open_ones, (_END, IsolationLevel.READ_UNCOMMITTED), left_s=left_s)
            return stable

        return self._follow(ask) if partitions else {}

    def _list_offsets(self, partitions: list[Partition], spec: OffsetSpec, least: int = 0) -> dict[Partition, int]:
        if not partitions:
            return {}
        return self._follow(lambda left_s: self._asked(partitions, (spec, _COMMITTED), left_s=left_s, least=least)[0])

    def _asked(
        self, partitions: list[Partition], *ends: tuple[OffsetSpec, IsolationLevel], left_s: float, least: int = 0
    ) -> list[dict[Partition, int]]:
        """Answers that may be true, by end and partition; all are asked for at once, from the start on.

        Raises Moved for any other.
        """
        asked = [self._ask_offsets(partitions, spec, isolation, left_s) for spec, isolation in ends]
        found = [self._answer_offsets(partitions, futures, least) for futures in asked]
        for partition in partitions:
            answers.bounds(partition, *(offsets[partition] for offsets in found))
        for (spec, isolation), offsets in zip(ends, found, strict=True):
            if spec is _END:
                self._compare(offsets, isolation is _COMMITTED)
        return found

    def _compare(self, ends: Mapping[Partition, int], stable: bool) -> None:
        """With what is known. Raises WentBack."""
        known = self._cluster.known
        for partition, end in ends.items():
            least = known.stable(partition) if stable else max(known.stable(partition), known.appended(partition))
            if end < least:
                raise WentBack(partition, end, least)
            if stable:
                known.read(partition, end)

    def _ask_offsets(
        self, partitions: list[Partition], spec: OffsetSpec, isolation: IsolationLevel, left_s: float
    ) -> _Asked:
        """For read_committed readers the end is the last stable offset."""
        return self._admin.list_offsets(
            {TopicPartition(p.topic, p.index): spec for p in partitions},
            isolation_level=isolation,
            request_timeout=left_s,
        )

    def _answer_offsets(self, partitions: list[Partition], asked: _Asked, least: int) -> dict[Partition, int]:
        futures = {Partition(where.topic, where.partition): future for where, future in asked.items()}
        answers.all_of("list offsets", partitions, futures)
        return {
            p: answers.offset(p, self._answer(f"list offsets of {p}", futures[p]).offset, least) for p in partitions
        }

    def _follow(self, ask: Callable[[float], _T]) -> _T:
        """Asks again, with fresh metadata, while leaders move: after a restart what the client knows is outdated.

        ask: gets the seconds to wait for an answer, more with each try: a request to a broker that has died waits until
        the broker is back, though another one leads by then. An end that stays below a known one is a log that has lost
        its tail: StateCorrupted, once; then what is there is where it begins again.
        """
        deadline, pause_s, patience_s = time.monotonic() + ANSWER_S, _LOOK_AGAIN_S, FIRST_PATIENCE_S
        while True:
            try:
                return ask(min(patience_s, max(_LEAST_S, deadline - time.monotonic())))
            except Moved as moved:
                if time.monotonic() > deadline:
                    self._fail_if_lost(moved)
                    raise
            with suppress(Retriable):
                self._metadata(max(_LEAST_S, min(patience_s, deadline - time.monotonic())))
            time.sleep(pause_s)
            pause_s, patience_s = min(2 * pause_s, _LOOK_SELDOM_S), PATIENCE_GROWTH * patience_s

    def _fail_if_lost(self, moved: Moved) -> None:
        if isinstance(moved, WentBack):
            self._cluster.known.forget({moved.partition.topic})
            raise StateCorrupted(
                f"{moved} for {ANSWER_S:g} s: the log has lost its tail, or the topic was deleted and created again. "
                "What was acknowledged may be gone: check the brokers' disks, and unclean.leader.election.enable"
            ) from moved

    def _answer(self, what: str, future: Future[Any], *harmless: int) -> Any:
        """The answer, or None for a harmless error."""
        try:
            return future.result(ANSWER_S + 0.5)
        except KafkaException as exception:
            error = error_of(exception)
            if error.code() in harmless:
                return None
            raise self._unanswered(what, error) from exception
        except TimeoutError as error:
            raise self._cluster.unanswered(what, "no answer") from error

    def _unanswered(self, what: str, error: KafkaError) -> Retriable:
        """The error, by what it asks for. A login that is refused is refused at every try."""
        self._admin.poll(0)  # has the library call back with what happened to its connections
        failure, code = self._cluster.unanswered(what, error.str()), error.code()
        if isinstance(failure, LoginRefused):
            return failure
        if code in _FORBIDDEN:
            who = self._cluster.settings.get("sasl.username", "")
            return NotAllowed(f"Kafka does not let {f'user {who!r}' if who else 'this process'} {what}: {error.str()}")
        kind = Moved if code in _MOVED else Absent if code in _NO_TOPIC else Retriable
        return kind(str(failure))

    def _await(self, what: str, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLED_S
        while not reached():
            if time.monotonic() > deadline:
                raise Retriable(f"Kafka at {self._cluster.bootstrap_servers} took over {SETTLED_S:g} s to {what}")
            time.sleep(_LOOK_AGAIN_S)


def _id(topic: Any) -> str:
    """The id of a described topic; empty if the broker names none."""
    id = topic.topic_id
    return "" if id is None or id.get_most_significant_bits() == id.get_least_significant_bits() == 0 else str(id)


def _led(topic: Any) -> bool:
    """Every partition has a leader."""
    partitions = topic.partitions.values()
    return topic.error is None and bool(partitions) and all(p.error is None and p.leader >= 0 for p in partitions)

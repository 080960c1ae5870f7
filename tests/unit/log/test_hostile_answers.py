"""What KafkaLog makes of answers that cannot be true: it asks again, and never takes them for values.

The client library stands aside; `Library` answers as librdkafka 2.16 was seen to, and worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import PositionGone, Retriable, StateCorrupted
from holdfast.services.log.answers import EndsSeen
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.log import KafkaLog
from holdfast.services.log.kafka.reader import KafkaReader
from holdfast.services.log.protocol import Chunk

WHERE, OTHER = Partition("t", 0), Partition("t", 1)
INVALID = -1001
"""RD_KAFKA_OFFSET_INVALID: a partition whose leader has just died."""

Answer = int | KafkaError | None


def done(answer: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, KafkaError):
        future.set_exception(KafkaException(answer))
    else:
        future.set_result(answer)
    return future


class Library:
    """Stands in for the AdminClient. For each kind of end: what is answered, one after the other, the last for ever.

    None: the partition is not in the answer.
    """

    def __init__(self) -> None:
        self.ends: dict[str, list[Answer]] = {"start": [0], "stable": [10], "end": [10], "time": [-1]}
        self.partitions: list[Any] = [[0, 1]]
        self.brokers: list[dict[int, object]] = [{1: object()}]
        self.topic_error: list[KafkaError | None] = [None]
        self.trims: list[Answer] = [10]
        self.settings: list[Any] = [{"max.message.bytes": SimpleNamespace(value="7")}]
        self.created: Any = {}
        self.deleted: list[str] = []
        self.asked: list[str] = []

    def list_offsets(self, asked: dict[TopicPartition, Any], *, isolation_level: Any, request_timeout: float) -> Any:
        assert 0 < request_timeout <= 4.0
        found = {}
        for where, spec in asked.items():
            kind = {"EarliestSpec": "start", "TimestampSpec": "time"}.get(type(spec).__name__)
            kind = kind or ("stable" if isolation_level.name.removeprefix("READ_") == "COMMITTED" else "end")
            self.asked.append(kind)
            answer = next_of(self.ends[kind])
            if answer is not None:
                found[where] = done(answer if isinstance(answer, KafkaError) else SimpleNamespace(offset=answer))
        return found

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, timeout: float) -> Any:
        self.asked.append("topics")
        partition = SimpleNamespace(error=None, leader=1)
        topic = SimpleNamespace(
            error=next_of(self.topic_error), partitions=dict.fromkeys(next_of(self.partitions), partition)
        )
        return SimpleNamespace(brokers=next_of(self.brokers), topics={"t": topic})

    def delete_records(self, asked: list[TopicPartition], request_timeout: float) -> Any:
        answer = next_of(self.trims)
        if answer is None:
            return {}
        answer = answer if isinstance(answer, KafkaError) else SimpleNamespace(low_watermark=answer)
        return {one: done(answer) for one in asked}

    def describe_configs(self, asked: list[Any], request_timeout: float) -> Any:
        settings = next_of(self.settings)
        return {} if settings is None else {one: done(settings) for one in asked}

    def describe_topics(self, asked: Any, request_timeout: float) -> Any:
        if (indices := next_of(self.partitions)) is None:
            return {"t": done(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))}
        return {
            "t": done(
                SimpleNamespace(topic_id=None, partitions=[SimpleNamespace(id=index, isr=[1]) for index in indices])
            )
        }

    def create_topics(self, asked: list[Any], **_: Any) -> Any:
        return {one.topic: done(self.created.get(one.topic)) for one in asked}

    def delete_topics(self, names: list[str], **_: Any) -> Any:
        self.deleted += names
        return {name: done(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) for name in names}

    def alter_consumer_group_offsets(self, asked: list[Any], request_timeout: float) -> Any:
        answered = [TopicPartition(one.topic, one.partition, one.offset) for one in asked[0].topic_partitions]
        return {asked[0].group_id: done(SimpleNamespace(topic_partitions=answered[1:]))}


class Clock:
    """Each pause takes its time at once."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


def next_of(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(Cluster, "admin", lambda self, name: library)
    monkeypatch.setattr("holdfast.services.log.kafka.requests.time", Clock())
    return library


@pytest.fixture
def log(library: Library) -> Iterator[KafkaLog]:
    log = KafkaLog("nowhere:1", None, "test")
    yield log
    log.close()


def known_of(log: KafkaLog) -> EndsSeen:
    return log._cluster.known


LYING: list[list[Answer]] = [[INVALID], [-1], [-2], [None], [KafkaError(KafkaError.LEADER_NOT_AVAILABLE)]]
ONCE: list[list[Answer]] = [[one[0], 7] for one in LYING]


@pytest.mark.parametrize("lie", ONCE, ids=str)
@pytest.mark.parametrize("at", ["start", "end"])
def test_an_offset_that_is_none_is_asked_for_again(log: KafkaLog, library: Library, at: Any, lie: list[Answer]) -> None:
    library.ends["start" if at == "start" else "stable"] = list(lie)
    assert log.offsets([WHERE], at) == {WHERE: 7}
    assert library.asked[1] == "topics", "with fresh metadata"


@pytest.mark.parametrize("lie", LYING, ids=str)
@pytest.mark.parametrize("kind", ["start", "stable"])
def test_an_offset_that_is_none_is_never_believed(
    log: KafkaLog, library: Library, kind: str, lie: list[Answer]
) -> None:
    library.ends[kind] = list(lie)
    calls: list[Callable[[], object]] = [
        lambda: log.offsets([WHERE], "start" if kind == "start" else "end"),
        lambda: log.last(WHERE),
        lambda: log.last(WHERE, settled=True),
        lambda: list(log.scan(WHERE)),
    ]
    for call in calls:
        with pytest.raises(Retriable, match=r"t\[0\]"):
            call()


def test_a_bad_answer_of_two_spoils_both(log: KafkaLog, library: Library) -> None:
    library.ends["stable"] = [5, INVALID, 5, 6]
    assert log.offsets([WHERE, OTHER], "end") == {WHERE: 5, OTHER: 6}


@pytest.mark.parametrize("offset", [INVALID, -2, None])
def test_minus_one_alone_means_that_no_record_came_since_a_time(
    log: KafkaLog, library: Library, offset: Answer
) -> None:
    library.ends["time"] = [-1]
    assert log.offsets([WHERE], 123) == {WHERE: 10}
    assert library.asked == ["stable", "time"], "the end as it was before"
    library.ends["time"] = [offset]
    with pytest.raises(Retriable):
        log.offsets([WHERE], 123)


@pytest.mark.parametrize(("start", "stable", "end"), [(5, 4, 10), (0, 11, 10), (11, 10, 10)])
def test_ends_in_the_wrong_order_are_no_answer(
    log: KafkaLog, library: Library, start: int, stable: int, end: int
) -> None:
    library.ends |= {"start": [start], "stable": [stable], "end": [end]}
    with pytest.raises(Retriable, match="start and end"):
        log.last(WHERE, settled=True)


def test_last_is_none_only_of_a_log_whose_start_is_its_end(log: KafkaLog, library: Library) -> None:
    library.ends |= {"start": [INVALID, 10], "stable": [INVALID, 10], "end": [10]}
    assert log.last(WHERE) is None
    assert log.last(WHERE, settled=True) is None


def test_an_end_that_went_back_is_an_old_answer_until_it_stays_so(log: KafkaLog, library: Library) -> None:
    library.ends["stable"] = [10, 9, 9, 12]
    assert log.offsets([WHERE], "end") == {WHERE: 10}
    assert log.offsets([WHERE], "end") == {WHERE: 12}
    library.ends["stable"] = [9]
    with pytest.raises(StateCorrupted, match="said to be 9, but 12 was seen"):
        log.offsets([WHERE], "end")
    assert log.offsets([WHERE], "end") == {WHERE: 9}, "said loudly once; from there the log continues"


def test_an_end_below_what_was_read_is_not_believed(log: KafkaLog, library: Library) -> None:
    known_of(log).read(WHERE, 11)
    for call in (lambda: log.offsets([WHERE], "end"), lambda: log.last(WHERE), lambda: log.scan(WHERE)):
        with pytest.raises(StateCorrupted):
            call()
        known_of(log).read(WHERE, 11)


def test_an_end_below_what_was_appended_counts_if_a_transaction_is_open_there(log: KafkaLog, library: Library) -> None:
    acknowledged = {WHERE: 19}
    known_of(log).opened(acknowledged)
    library.ends |= {"stable": [10], "end": [20]}
    assert log.offsets([WHERE], "end") == {WHERE: 10}
    library.ends["end"] = [19]
    with pytest.raises(StateCorrupted, match="said to be 19, but 20 was seen"):
        log.offsets([WHERE], "end")
    assert log.offsets([WHERE], "end") == {WHERE: 10}
    acknowledged[WHERE] = 30
    with pytest.raises(StateCorrupted):
        log.offsets([WHERE], "end")
    known_of(log).closed(acknowledged)
    assert log.offsets([WHERE], "end") == {WHERE: 10}


def test_a_scan_from_behind_the_end_is_a_truncated_log(log: KafkaLog) -> None:
    with pytest.raises(PositionGone, match="position 11"):
        log.scan(WHERE, 11)


@pytest.mark.parametrize("indices", [[], [1], [0, 2]])
def test_a_topic_of_which_partitions_are_missing_is_asked_for_again(
    log: KafkaLog, library: Library, indices: list[int]
) -> None:
    library.partitions = [indices, [0, 1, 2]]
    assert log.topics() == {"t": 3}
    library.partitions = [indices]
    with pytest.raises(Retriable, match="t: only partitions"):
        log.topics()


def test_metadata_of_no_broker_are_no_metadata(log: KafkaLog, library: Library) -> None:
    library.brokers = [{}, {1: object()}]
    assert log.topics() == {"t": 2}
    library.brokers = [{}]
    with pytest.raises(Retriable, match="names no broker"):
        log.topics()


def test_a_topic_whose_leaders_are_being_chosen_is_there(log: KafkaLog, library: Library) -> None:
    library.topic_error = [KafkaError(KafkaError.LEADER_NOT_AVAILABLE), None]
    assert log.topics() == {"t": 2}


def test_absence_is_certain_once_the_controller_says_so(log: KafkaLog, library: Library) -> None:
    assert log.topics(["t", "absent"]) == {"t": 2}
    library.created = {"unlisted": KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)}
    with pytest.raises(Retriable, match="unlisted exists"):
        log.topics(["unlisted"])
    library.created = {"unlisted": KafkaError(KafkaError.NOT_CONTROLLER)}
    with pytest.raises(Retriable):
        log.topics(["unlisted"])
    library.created = {"odd name": KafkaError(KafkaError.TOPIC_EXCEPTION)}
    assert log.topics(["odd name"]) == {"t": 2}


def test_a_described_topic_has_all_its_partitions_and_is_absent_only_for_certain(
    log: KafkaLog, library: Library
) -> None:
    library.partitions = [[], [1], [0, 1, 2]]
    assert log.describe(["t"])["t"].partitions == 3
    library.partitions = [None]
    assert log.describe(["t"]) == {}
    library.created = {"t": KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)}
    with pytest.raises(Retriable, match="t exists"):
        log.describe(["t"])


def test_a_topic_that_a_broker_does_not_list_is_deleted_anyway(log: KafkaLog, library: Library) -> None:
    log.delete(["unlisted"])
    assert library.deleted == ["unlisted"]


def test_a_created_topic_is_used_once_its_leaders_know_it(log: KafkaLog, library: Library) -> None:
    library.ends["stable"] = [KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), INVALID, 0]
    log.create([TopicSpec("t")])


@pytest.mark.parametrize("lie", [INVALID, -1, 4, None], ids=str)
def test_a_trim_counts_once_the_log_starts_there(log: KafkaLog, library: Library, lie: Answer) -> None:
    library.trims = [lie, 5]
    log.trim({WHERE: 5})
    library.trims = [lie]
    with pytest.raises(Retriable):
        log.trim({WHERE: 5})


def test_a_refused_trim_is_a_truncated_log_only_if_the_log_ends_below(log: KafkaLog, library: Library) -> None:
    """A leader that has just been chosen refuses what lies above what it knows to be committed."""
    refused = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    library.trims = [refused, 5]
    log.trim({WHERE: 5})
    library.trims, library.ends["end"] = [refused], [4]
    with pytest.raises(StateCorrupted, match="above the end 4"):
        log.trim({WHERE: 5})


@pytest.mark.parametrize("lie", [{}, None], ids=str)
def test_a_topic_without_settings_is_asked_for_again(log: KafkaLog, library: Library, lie: Any) -> None:
    library.settings = [lie, *library.settings]
    assert log.config("t") == {"max.message.bytes": "7"}
    library.settings = [KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)]
    assert log.config("t") == {}


def test_a_group_of_which_a_position_was_not_taken_has_not_started(log: KafkaLog) -> None:
    with pytest.raises(Retriable, match="does not begin"):
        log.start_group("g", {WHERE: 1, OTHER: 2})


# -- ends that readers meet -------------------------------------------------------------------------------------------


class Event:
    """An end of a partition as the library reports it, or a record."""

    def __init__(self, offset: int | None, record: bool = False) -> None:
        self._offset, self._record = offset, record

    def error(self) -> KafkaError | None:
        return None if self._record else KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        return WHERE.topic

    def partition(self) -> int:
        return WHERE.index

    def offset(self) -> int | None:
        return self._offset


class Consumer:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def poll(self, timeout_s: float) -> Event | None:
        return self.events.pop(0) if self.events else None

    def consume(self, count: int, timeout_s: float) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    consumer = Consumer()
    monkeypatch.setattr(Cluster, "consumer", lambda *_: consumer)
    monkeypatch.setattr("holdfast.services.log.kafka.reader.KafkaMessage", Event)
    monkeypatch.setattr("holdfast.services.log.kafka.reader.ANSWER_S", 0.05)
    reader = KafkaReader(Cluster("nowhere:1"), "test")
    reader.assign({WHERE: 5})
    return reader


def met(reader: KafkaReader, events: Iterable[Event]) -> list[int | None]:
    """The ends of the chunks that come."""
    reader._consumer.events = list(events)  # type: ignore[attr-defined]
    chunks: list[Chunk] = reader.poll(0.0)
    return [chunk.end for chunk in chunks]


@pytest.mark.parametrize("offset", [INVALID, -1, 0, 4, None])
def test_an_end_below_the_position_is_none(reader: KafkaReader, offset: int | None) -> None:
    assert met(reader, [Event(offset)]) == []
    assert met(reader, [Event(5)]) == [5]


def test_an_end_below_one_that_is_known_is_none_while_more_may_come(reader: KafkaReader) -> None:
    reader._cluster.known.read(WHERE, 7)
    assert met(reader, [Event(5)]) == []
    assert met(reader, [Event(5, record=True), Event(6, record=True), Event(7)]) == [7]
    assert met(reader, []) == []


def test_an_end_below_one_that_is_known_is_believed_in_the_end(reader: KafkaReader) -> None:
    """A topic that was deleted and created again has another end."""
    reader._cluster.known.read(WHERE, 7)
    assert met(reader, [Event(5)]) == []
    ends: list[int | None] = []
    while not ends:
        ends = met(reader, [])
    assert ends == [5]


def test_a_position_that_was_read_is_known(reader: KafkaReader) -> None:
    met(reader, [Event(5, record=True), Event(6, record=True)])
    assert reader._cluster.known.stable(WHERE) == 7
    met(reader, [Event(9)])
    assert reader._cluster.known.stable(WHERE) == 9

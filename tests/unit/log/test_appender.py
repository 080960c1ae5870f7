"""The appender believes an answer only where the library cannot be mistaken."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.answers import EndsSeen
from holdfast.services.log.kafka import appender as kafka_appender
from holdfast.services.log.kafka.appender import KafkaAppender
from holdfast.services.log.kafka.client import Cluster
from holdfast.services.log.kafka.cluster_seen import ClusterSeen

WHERE = Partition("t", 0)


class Answer:
    """A record as the library reports it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return WHERE.topic

    def partition(self) -> int:
        return WHERE.index

    def offset(self) -> int:
        return self._offset


class Library:
    """Stands in for a cluster and its producer: answers all that was appended at the next flush."""

    def __init__(self) -> None:
        self.answered: list[Callable[[Any, Any], None]] = []
        self.offsets: list[int] = []
        self.known = EndsSeen()
        self.seen = ClusterSeen("here:1")

    def __len__(self) -> int:
        return len(self.answered)

    def producer(self, name: str, own: object) -> Library:
        return self

    def unanswered(self, what: str, why: str) -> Retriable:
        return Retriable(f"{what}: {why}")

    def produce(self, topic: str, value: bytes, key: None, index: int, answered: Any, *more: object) -> None:
        self.answered.append(answered)

    def list_topics(self, *args: object, **kwargs: object) -> Any:
        return SimpleNamespace(brokers={}, topics={})

    def poll(self, timeout_s: float) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        for answered, offset in zip(self.answered, self.offsets, strict=True):
            answered(None, Answer(offset))
        self.answered, self.offsets = [], []
        return 0


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def appender(library: Library) -> KafkaAppender:
    return KafkaAppender(library, "test")  # type: ignore[arg-type]


def append(appender: KafkaAppender, library: Library, *offsets: int) -> list[tuple[bool, int]]:
    """Whether each record is said to be there, and where."""
    told: list[tuple[bool, int]] = []
    library.offsets = list(offsets)
    for _ in offsets:
        appender.append(WHERE, b"x", done=lambda error, offset: told.append((error is None, offset)))
    appender.poll()
    with suppress(Retriable):
        appender.flush(1.0)
    return told


def test_a_first_record_whose_place_nobody_knows_may_be_lost(appender: KafkaAppender, library: Library) -> None:
    assert append(appender, library, -1, 0, 1) == [(False, -1), (True, 0), (True, 1)]


def test_a_waiting_caller_hears_that_a_record_may_be_lost(appender: KafkaAppender, library: Library) -> None:
    appender.append(WHERE, b"x")
    library.offsets = [-1]
    with pytest.raises(Retriable, match="may be lost"):
        appender.flush(1.0)


def test_later_the_broker_would_have_refused_a_gap(appender: KafkaAppender, library: Library) -> None:
    assert append(appender, library, 7) == [(True, 7)]
    assert append(appender, library, -1, 9) == [(True, -1), (True, 9)]


def test_acknowledged_offsets_are_known_until_the_appender_is_closed(appender: KafkaAppender, library: Library) -> None:
    append(appender, library, 7, 8)
    assert library.known.appended(WHERE) == 9
    appender.close()
    assert library.known.appended(WHERE) == 0


def test_an_appender_has_one_request_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idempotent one with a higher limit may spin while it is reached; nothing that a user sets changes that."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("holdfast.services.log.kafka.client.Producer", lambda settings, **_: made.append(settings))
    monkeypatch.setattr(kafka_appender, "connect", lambda *_: None)
    KafkaAppender(Cluster("127.0.0.1:1", {"max.in.flight.requests.per.connection": "5"}), "test")
    assert [one["max.in.flight.requests.per.connection"] for one in made] == [1]


def test_a_producer_of_the_library_is_gone_with_its_appender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for a collection: a process that opens appenders again would gather their threads."""
    monkeypatch.setattr(kafka_appender, "CONNECT_S", 0.1)
    gc.disable()
    try:
        appender = KafkaAppender(Cluster("127.0.0.1:1"), "test")
        former = weakref.ref(appender)
        appender.close()
        del appender
        assert former() is None
    finally:
        gc.enable()


class Forbidden(Library):
    """A producer that may write nothing: each wait raises, until its records are given up."""

    def __init__(self, raised: Exception) -> None:
        super().__init__()
        self.raised = raised

    def flush(self, timeout_s: float) -> int:
        if self.answered:
            raise self.raised
        return 0

    def purge(self) -> None:
        self.answered = []


@pytest.mark.parametrize("raised", [KafkaException("no right"), SystemError("a callback raised")])
def test_a_producer_without_rights_is_an_error_of_the_log_and_is_closed(raised: Exception) -> None:
    library = Forbidden(raised)
    appender = KafkaAppender(library, "test")  # type: ignore[arg-type]
    appender.append(WHERE, b"x")
    with pytest.raises(Retriable, match=r"no right|a callback raised"):
        appender.flush(1.0)
    appender.close()
    assert not library.answered


CAUSE = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no id for this login")


class Ended(Library):
    """A producer that has ended: its next wait alone says why, and every call fails with words that name no cause."""

    def __init__(self) -> None:
        super().__init__()
        self.said = False

    def produce(self, *args: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, timeout_s: float) -> int:
        if not self.said:
            self.said = True
            raise KafkaException(CAUSE)
        return 0


@pytest.mark.parametrize("polled", [False, True])
def test_each_error_of_a_producer_that_has_ended_names_the_cause(polled: bool) -> None:
    appender = KafkaAppender(Ended(), "test")  # type: ignore[arg-type]
    if polled:
        with pytest.raises(Retriable, match="no id for this login"):
            appender.poll()
    for _ in range(2):
        with pytest.raises(Retriable, match="no id for this login"):
            appender.append(WHERE, b"x")


def test_the_answer_to_a_record_of_an_ended_producer_names_the_cause() -> None:
    library = Ended()
    appender = KafkaAppender(library, "test")  # type: ignore[arg-type]
    appender._answered(KafkaError(KafkaError._FATAL), Answer(-1))  # type: ignore[arg-type]
    with pytest.raises(Retriable, match="no id for this login"):
        appender.flush(1.0)

"""The end of a topic that is followed until nothing comes: what is there is shown first, however slow Kafka is."""

from __future__ import annotations

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable
from holdfast.services.view.tail import read_topic, read_topics
from tests.support.slow_log import ROWS, SlowLog

IDLE_S = 1.0


def slow(empty_polls: int) -> SlowLog:
    """A log of which the first polls give nothing."""
    return SlowLog(lambda poll: poll > empty_polls)


def test_idle_is_a_topic_of_which_everything_there_was_has_been_shown() -> None:
    log = slow(empty_polls=30)
    shown = read_topic(log, ROWS.topic, 1, until_idle_s=IDLE_S, clock=log.clock)
    assert [message.value() for _, message in shown] == [b"1", b"2", b"3"]


def test_an_empty_topic_is_idle_at_once() -> None:
    log = slow(empty_polls=0)
    log.trim({ROWS: 3})
    assert list(read_topic(log, ROWS.topic, 1, until_idle_s=IDLE_S, clock=log.clock)) == []


def test_a_topic_of_which_kafka_gives_nothing_is_not_waited_for_without_end() -> None:
    log = slow(empty_polls=10_000)
    with pytest.raises(Retriable, match="its end is not reached"):
        list(read_topic(log, ROWS.topic, 1, clock=log.clock))
    assert log.now_s < 60


def test_topics_that_are_followed_are_shown_as_their_records_come_none_after_the_other() -> None:
    log = slow(empty_polls=0)
    log.create([TopicSpec("more", 2)])
    appender = log.appender("test")
    appender.append(Partition("more", 1), b"4")
    shown = read_topics(log, {"rows": 1, "more": 2}, follow=True, clock=log.clock)
    found = [next(shown) for _ in range(4)]
    for home in (Partition("more", 0), ROWS):
        appender.append(home, home.topic.encode())
        found.append(next(shown))
    values = [(home.topic, message.value()) for home, message in found]
    assert sorted(values[:4]) == [("more", b"4"), ("rows", b"1"), ("rows", b"2"), ("rows", b"3")]
    assert values[4:] == [("more", b"more"), ("rows", b"rows")]

"""The end of a topic that is followed until nothing comes: what is there is shown first, however slow Kafka is."""

from __future__ import annotations

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk, Reader
from holdfast.services.view.tailing import read_topic, read_topics

ROWS = Partition("rows", 0)
IDLE_S = 1.0


class Slow(MemoryLog):
    """Its readers get nothing at their first polls. now_s: a second later with each poll."""

    def __init__(self, empty_polls: int) -> None:
        super().__init__(lambda: 0)
        self.empty_polls, self.now_s = empty_polls, 0.0
        self.create([TopicSpec(ROWS.topic)])
        appender = self.appender("test")
        for value in (b"1", b"2", b"3"):
            appender.append(ROWS, value)
        appender.flush(1)

    def reader(  # type: ignore[override]
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> Reader:
        made = super().reader(name)
        poll = made.poll

        def slowly(timeout_s: float, max_messages: int = 1) -> list[Chunk]:
            self.now_s += 1
            self.empty_polls -= 1
            return [] if self.empty_polls >= 0 else poll(0, 1)

        made.poll = slowly  # type: ignore[method-assign]
        return made


def test_idle_is_a_topic_of_which_everything_there_was_has_been_shown() -> None:
    log = Slow(empty_polls=30)
    shown = read_topic(log, ROWS.topic, 1, until_idle_s=IDLE_S, clock=lambda: log.now_s)
    assert [message.value() for _, message in shown] == [b"1", b"2", b"3"]


def test_an_empty_topic_is_idle_at_once() -> None:
    log = Slow(empty_polls=0)
    log.trim({ROWS: 3})
    assert list(read_topic(log, ROWS.topic, 1, until_idle_s=IDLE_S, clock=lambda: log.now_s)) == []


def test_a_topic_of_which_kafka_gives_nothing_is_not_waited_for_without_end() -> None:
    log = Slow(empty_polls=10_000)
    with pytest.raises(Retriable, match="its end is not reached"):
        list(read_topic(log, ROWS.topic, 1, clock=lambda: log.now_s))
    assert log.now_s < 60


def test_topics_that_are_followed_are_shown_as_their_records_come_none_after_the_other() -> None:
    log = Slow(empty_polls=0)
    log.create([TopicSpec("more", 2)])
    appender = log.appender("test")
    appender.append(Partition("more", 1), b"4")
    shown = read_topics(log, {"rows": 1, "more": 2}, follow=True, clock=lambda: log.now_s)
    found = [next(shown) for _ in range(4)]
    for home in (Partition("more", 0), ROWS):
        appender.append(home, home.topic.encode())
        found.append(next(shown))
    values = [(home.topic, message.value()) for home, message in found]
    assert sorted(values[:4]) == [("more", b"4"), ("rows", b"1"), ("rows", b"2"), ("rows", b"3")]
    assert values[4:] == [("more", b"more"), ("rows", b"rows")]

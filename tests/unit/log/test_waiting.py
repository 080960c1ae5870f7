"""WaitingLog: a call waits up to the limit and tells the person after a second; what time does not mend fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import Retriable, TopicGone
from holdfast.services.log.answers import Moved
from holdfast.services.log.kafka.login import LoginRefused
from holdfast.services.log.kafka.requests import Absent, NotAllowed
from holdfast.services.log.kafka.waiting_log import WaitingLog
from holdfast.services.log.late.expected_records import ANSWER_S, ExpectedRecords
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.patience import FIRST_WORD_S, LOOK_AGAIN_S, Patience, Wait
from holdfast.services.log.protocol import Chunk, Message

WHERE = Partition("t", 0)


class Clock:
    """A pause takes its time at once. due: timers that were armed and not cancelled, by the time when they go off."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.due: list[Timer] = []

    def patience(self, limit_s: float = 5.0) -> Patience:
        return Patience(limit_s, self.said.append, lambda: self.now_s, self.pass_, self.timer)

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds
        for one in [one for one in self.due if one.at_s <= self.now_s]:
            self.due.remove(one)
            one.call()

    def timer(self, seconds: float, call: Callable[[], None]) -> Timer:
        return Timer(self, self.now_s + seconds, call)


class Timer:
    def __init__(self, clock: Clock, at_s: float, call: Callable[[], None]) -> None:
        self.clock, self.at_s, self.call = clock, at_s, call

    def start(self) -> None:
        self.clock.due.append(self)

    def cancel(self) -> None:
        if self in self.clock.due:
            self.clock.due.remove(self)


def refusing(times: int, error: Exception) -> Callable[[], str]:
    left = iter(range(times))

    def call() -> str:
        if next(left, None) is not None:
            raise error
        return "answer"

    return call


def test_a_short_wait_says_nothing() -> None:
    clock = Clock()
    assert clock.patience().ask("Kafka to answer", refusing(4, Moved("away"))) == "answer"
    assert (clock.said, clock.due) == ([], [])


def test_a_longer_wait_says_once_what_it_waits_for_and_why() -> None:
    clock = Clock()
    assert clock.patience().ask("Kafka to answer", refusing(20, Moved("its leader is away"))) == "answer"
    assert clock.said == ["waiting up to 5 s for Kafka to answer: its leader is away"]


def test_the_limit_ends_it_with_what_was_waited_for() -> None:
    clock = Clock()
    with pytest.raises(
        Retriable, match=r"gave up after 5 s of waiting for Kafka to answer: its leader is away\. Check that"
    ):
        clock.patience().ask("Kafka to answer", refusing(1000, Moved("its leader is away")))
    assert 5.0 <= clock.now_s < 5.0 + 2 * LOOK_AGAIN_S


@pytest.mark.parametrize("kind", [LoginRefused, NotAllowed, TopicGone])
def test_an_error_that_a_person_must_mend_is_not_waited_for(kind: type[Retriable]) -> None:
    clock = Clock()
    with pytest.raises(kind):
        clock.patience().ask("Kafka to answer", refusing(1000, kind("no")))
    assert clock.now_s == 0.0


def test_a_call_that_does_not_return_is_reported_too() -> None:
    clock = Clock()

    def call() -> str:
        clock.pass_(FIRST_WORD_S)
        assert clock.said == ["waiting up to 5 s for Kafka to answer"]
        return "answer"

    assert clock.patience().ask("Kafka to answer", call) == "answer"


def test_a_real_timer_reports_a_call_that_does_not_return() -> None:
    told = threading.Event()
    patience = Patience(60.0, lambda _: told.set())
    assert patience.ask("Kafka to answer", lambda: told.wait(60.0))


def test_time_that_the_caller_takes_is_no_wait() -> None:
    clock = Clock()
    with Wait(clock.patience(), "Kafka to answer") as wait:
        wait.rest()
        clock.pass_(30.0)
        wait.begin()
        clock.pass_(FIRST_WORD_S / 2)
        assert clock.said == []
        clock.pass_(FIRST_WORD_S)
    assert clock.said == ["waiting up to 5 s for Kafka to answer"]
    assert clock.due == []


class Breaking(MemoryLog):
    """Each scan breaks off behind two records, as when the leader is lost meanwhile."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.scans: list[int | None] = []

    def scan(self, partition: Partition, start: int | None = None) -> Iterator[Message]:
        self.scans.append(start)
        messages = list(super().scan(partition, start))

        def broken() -> Iterator[Message]:
            yield from messages[:2]
            if len(messages) > 2:
                raise Moved("its leader is away")

        return broken()


def test_a_scan_continues_behind_the_record_that_it_gave_last() -> None:
    log, clock = Breaking(), Clock()
    log.create([TopicSpec("t")])
    for number in range(7):
        log.put(WHERE, str(number).encode(), None, None)
    found = [message.value() for message in WaitingLog(log, clock.patience()).scan(WHERE)]
    assert found == [str(number).encode() for number in range(7)]
    assert log.scans == [None, 2, 4, 6]
    assert clock.due == []


class Unknowing(MemoryLog):
    """A broker that does not know a topic at first, or never."""

    left = 3

    def offsets(self, partitions: Iterable[Partition], at: Any) -> dict[Partition, int]:
        self.left -= 1
        if self.left >= 0:
            raise Absent("list offsets of t[0]: unknown topic")
        return super().offsets(partitions, at)


def test_a_topic_that_one_broker_does_not_know_yet_is_waited_for() -> None:
    log, clock = Unknowing(lambda: 0), Clock()
    log.create([TopicSpec("t")])
    assert WaitingLog(log, clock.patience()).offsets([WHERE], "end") == {WHERE: 0}


def test_a_topic_that_does_not_exist_is_not_waited_for() -> None:
    log, clock = Unknowing(lambda: 0), Clock()
    log.create([TopicSpec("t")])
    with pytest.raises(TopicGone, match=r"t\[7\] does not exist"):
        WaitingLog(log, clock.patience()).offsets([Partition("t", 7)], "end")
    assert clock.now_s == 0.0


class Silent:
    """A reader of which nothing comes, each poll of which takes its time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def poll(self, timeout_s: float, max_messages: int = 10_000) -> list[Chunk]:
        self.clock.pass_(timeout_s)
        return []


def expecting(log: MemoryLog, clock: Clock) -> ExpectedRecords:
    return ExpectedRecords(WaitingLog(log, clock.patience()), Silent(clock), lambda: clock.now_s)  # type: ignore[arg-type]


def poll(reading: ExpectedRecords, times: int) -> None:
    for _ in range(times):
        reading.poll([WHERE], 0.1)


def test_records_that_must_come_and_do_not_are_a_leader_to_wait_for() -> None:
    log, clock = MemoryLog(lambda: 0), Clock()
    log.create([TopicSpec("t")])
    log.away.add(WHERE)
    reading = expecting(log, clock)
    with pytest.raises(Retriable, match=r"gave up after 5 s of waiting for Kafka to say where t\[0\] ends"):
        poll(reading, 100)
    assert len(clock.said) == 1


def test_a_leader_that_answers_and_sends_nothing_is_an_error_in_the_end() -> None:
    log, clock = MemoryLog(lambda: 0), Clock()
    log.create([TopicSpec("t")])
    reading = expecting(log, clock)
    with pytest.raises(Retriable, match=r"t\[0\]: nothing came for 30 s, though its leader answers"):
        poll(reading, 1000)
    assert ANSWER_S <= clock.now_s < ANSWER_S + 2.0


def test_nobody_is_asked_if_nothing_need_come() -> None:
    log, clock = MemoryLog(lambda: 0), Clock()
    reading = expecting(log, clock)
    for _ in range(1000):
        reading.poll([], 0.1)
    assert clock.said == []

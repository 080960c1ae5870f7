"""The time that a generator's caller takes is no silence of Kafka: no deadline of a generator counts it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.schemas.topics import ClusterTopics, Partition
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.kafka.client import ANSWER_S
from holdfast.services.log.kafka.scan import Scanner
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk, Message
from holdfast.services.log.silence import Silence
from holdfast.services.view.reader import Watch
from holdfast.services.view.tail import read_topic
from tests.support.slow_log import ROWS, SlowLog

ROOT = Path(__file__).parents[3]
WORK_S = 100 * ANSWER_S

CLOCKS = {"monotonic", "time", "perf_counter", "monotonic_ns", "clock", "clock_s", "_clock", "_clock_s", "clock_ms"}
ALLOWED = {
    "services/client/writer.py:paced": "the rate of records counts the writing, which is the caller's",
    "services/client/backups.py:back_up": "a schedule by the time of day, in which the caller's time passes too",
    "bench/measures/startup.py:measured": "a bench measures time",
    "bench/measures/disk.py:sampled": "a sample is due by the time since the start, whatever the caller takes",
    "services/worker/checkpoint/pieces.py:timed_pieces": "the clock is read before each yield alone",
}
"""Generators that read a clock, and why the caller's time is meant to count there."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def tired() -> SlowLog:
    """A log of which every second poll gives nothing."""
    return SlowLog(lambda poll: poll % 2 == 0)


def scanned(log: SlowLog, end: int) -> Iterator[Message]:
    class Unanswering:
        def unanswered(self, what: str, why: str) -> Retriable:
            return Retriable(f"{what}: {why}")

    scanner = Scanner(cast(Any, Unanswering()), "test", log.clock)
    scanner._idle.append(cast(Any, log.reader("scan")))
    return scanner.scan(ROWS, 0, end)


def test_a_scan_waits_as_long_as_its_caller_works() -> None:
    log, seen = tired(), []
    for message in scanned(log, end=3):
        seen.append(message.value())
        log.now_s += WORK_S
    assert seen == [b"1", b"2", b"3"]


def test_a_scan_whose_kafka_is_silent_says_so() -> None:
    log = tired()
    records = scanned(log, end=9)
    with pytest.raises(Retriable, match="nothing came"):
        list(records)
    assert log.now_s <= 2 * (3 + ANSWER_S) + 2


def test_a_topic_is_followed_to_its_end_however_slowly_its_rows_are_shown() -> None:
    log, seen = tired(), []
    for _, message in read_topic(log, ROWS.topic, 1, until_idle_s=3.0, clock=log.clock):
        seen.append(message.value())
        log.now_s += WORK_S
    assert seen == [b"1", b"2", b"3"]


def test_a_watch_gives_every_record_that_came_while_its_caller_worked() -> None:
    clock = Clock()
    topics = ClusterTopics("test")
    log = MemoryLog(lambda: 0)
    log.create(topics.specs())
    from holdfast.schemas.events import Event, encode

    with Watch(log, topics, clock) as watch:
        appender = log.appender("test")
        for batch in range(3):
            appender.append(Partition(topics.events, 0), encode(Event(time_ms=batch, kind="seen")))
        appender.flush(1)
        seen = []
        poll = watch._reader.poll

        def one_by_one(timeout_s: float, max_messages: int = 1) -> list[Chunk]:
            clock.now_s += 0.1
            return poll(0, 1)

        watch._reader.poll = one_by_one  # type: ignore[method-assign]
        for record in watch.records(2.0):
            seen.append(record)
            clock.now_s += WORK_S
    assert [one.time_ms for one in cast(Any, seen)] == [0, 1, 2]


def test_silence_counts_waits_only() -> None:
    clock = Clock()
    silence = Silence(clock)

    def wait(found: list[int]) -> list[int]:
        clock.now_s += 1.0
        return found

    for expected_s in (1.0, 2.0):
        silence.during(lambda: wait([]))
        clock.now_s += WORK_S
        assert silence.silent_s == expected_s
    silence.during(lambda: wait([1]))
    assert (silence.silent_s, silence.waited_s) == (0.0, 3.0)


def own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def reading_generators(source: str) -> Iterator[str]:
    """Names of generators that read a clock themselves; a context manager yields once, and is none."""
    if "yield" not in source:  # to parse all files takes seconds
        return
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any("contextmanager" in ast.unparse(one) for one in function.decorator_list):
            continue
        nodes = list(own_nodes(function))
        called = {getattr(one.func, "attr", getattr(one.func, "id", "")) for one in nodes if isinstance(one, ast.Call)}
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in nodes) and called & CLOCKS:
            yield function.name


def test_the_lint_sees_a_deadline_around_a_yield() -> None:
    bad = "def f():\n    deadline = time.monotonic() + 4\n    while time.monotonic() < deadline:\n        yield 1\n"
    assert list(reading_generators(bad)) == ["f"]


def test_no_generator_compares_a_clock_with_a_deadline() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for folder in ("services", "holdfast", "schemas", "bench")
        for path in (ROOT / folder).rglob("*.py")
        for name in reading_generators(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED), "a generator that waits measures its waits with services/log/silence.py"

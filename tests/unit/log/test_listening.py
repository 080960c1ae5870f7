"""Heartbeats beside an app's agents: each is read once, in order, whatever the reader meets; an error ends the app."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from unittest import mock

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import PositionGone, Retriable
from holdfast.services.log.faust.heartbeat_listener import follow, listen
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk

BEATS = Partition("heartbeats", 0)


def memory() -> MemoryLog:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec(BEATS.topic, 1)])
    return log


class Moody:
    """A reader of a few records at a time, that raises what it is told to behind the first ones."""

    def __init__(self, reader: Any, moods: Iterable[Exception]) -> None:
        self._reader, self._moods, self._news = reader, list(moods), threading.Event()
        self._polls = 0
        self.assigned: list[Mapping[Partition, int]] = []

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self.assigned.append(dict(positions))
        self._reader.assign(positions)

    def poll(self, timeout_s: float) -> list[Chunk]:
        self._polls += 1
        if self._moods and self._polls > 1:
            raise self._moods.pop(0)
        chunks: list[Chunk] = self._reader.poll(0, 7)
        if not chunks:
            self._news.wait(0.001)
        return chunks

    def close(self) -> None:
        self._reader.close()


def heard(count: int, moods: Iterable[Exception] = (), wrong: int = -1) -> tuple[list[int], Moody]:
    """What is read of so many records, half of which come while it listens. wrong: the record that cannot be read."""
    log = memory()
    appender = log.appender("worker")
    read: list[int] = []

    async def run() -> Moody:
        for number in range(count // 2):
            appender.append(BEATS, b"%d" % number)
        moody = Moody(log.reader("x"), moods)
        all_read = asyncio.Event()

        def take(partition: Partition, offset: int, timestamp_ms: int, value: bytes | None) -> None:
            if offset == wrong:
                raise ValueError("cannot be read")
            read.append(int(value or b""))
            if len(read) == count // 2:
                for number in range(count // 2, count):
                    appender.append(BEATS, b"%d" % number)
            if len(set(read)) == count:
                all_read.set()

        with mock.patch.object(log, "reader", return_value=moody):
            listener = asyncio.ensure_future(follow(log, "beats", {BEATS: 0}, take))
            done, _ = await asyncio.wait(
                [listener, asyncio.ensure_future(all_read.wait())], timeout=300, return_when=asyncio.FIRST_COMPLETED
            )
            assert done
            if listener in done:
                listener.result()
            listener.cancel()
        return moody

    return read, asyncio.run(run())


def test_every_record_is_read_once_and_in_order() -> None:
    assert heard(40)[0] == list(range(40))


def test_a_listener_asks_again_from_its_position_if_kafka_does_not_answer() -> None:
    read, reader = heard(40, [Retriable("no answer"), Retriable("no answer")])
    assert read == list(range(40))
    assert len(reader.assigned) == 3


def test_records_deleted_by_age_are_no_error() -> None:
    read, _ = heard(40, [PositionGone(BEATS, 3, "deleted")])
    assert sorted(set(read)) == list(range(40))


def test_an_error_in_the_core_ends_the_app() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        heard(40, wrong=5)


def test_an_app_runs_it_as_one_of_its_tasks() -> None:
    app = mock.Mock()
    listen(app, memory(), "beats", {BEATS: 0}, mock.Mock())
    ((task,), _) = app.task.call_args
    assert asyncio.iscoroutinefunction(task)

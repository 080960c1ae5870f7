"""A log in memory from which little comes at a time."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.log.memory import MemoryLog
from holdfast.services.log.protocol import Chunk, Reader

ROWS = Partition("rows", 0)


class SlowLog(MemoryLog):
    """Three records, one a poll.

    gives: says by its number whether a poll gives one.
    now_s: time; each poll takes a second.
    """

    def __init__(self, gives: Callable[[int], bool] = lambda poll: True) -> None:
        super().__init__(lambda: 0)
        self._gives, self._polls, self.now_s = gives, 0, 0.0
        self.create([TopicSpec(ROWS.topic)])
        appender = self.appender("test")
        for value in (b"1", b"2", b"3"):
            appender.append(ROWS, value)
        appender.flush(1)

    def clock(self) -> float:
        return self.now_s

    def reader(  # type: ignore[override]
        self, name: str, *, on_demand: bool = False, patient: bool = False, waits_long: bool = False
    ) -> Reader:
        made = super().reader(name)
        poll = made.poll

        def slowly(timeout_s: float, max_messages: int = 1) -> list[Chunk]:
            self.now_s += 1.0
            self._polls += 1
            return poll(0, 1) if self._gives(self._polls) else []

        made.poll = slowly  # type: ignore[method-assign]
        return made

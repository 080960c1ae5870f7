"""Agents of Faust notice records that were trimmed before they were read."""

from __future__ import annotations

import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import PositionGone
from holdfast.services.log.faust.catching_up import Unbroken
from holdfast.services.log.memory import MemoryLog

DECIDED, AGED = Partition("decided", 0), Partition("aged", 0)


class Agents:
    """Began to read at 3 of a log of ten records."""

    def __init__(self) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create([TopicSpec("decided"), TopicSpec("aged")])
        for _ in range(10):
            self.log.put(DECIDED, b"", None, None)
            self.log.put(AGED, b"", None, None)
        self.seen: list[int] = []
        self.unbroken = Unbroken(
            self.log,
            {DECIDED: 3, AGED: 3},
            lambda partition, offset, *_: self.seen.append(offset),
            lambda partition, offset: self.seen.append(-offset),
            [AGED],
        )

    def read(self, *offsets: int, where: Partition = DECIDED) -> None:
        for offset in offsets:
            self.unbroken.read(where, offset, 0, b"")


def test_records_that_were_fed_already_are_dropped() -> None:
    agents = Agents()
    agents.read(1, 2, 3, 3, 4)
    agents.unbroken.passed(DECIDED, 5)
    agents.unbroken.passed(DECIDED, 5)
    assert agents.seen == [3, 4, -5]


def test_a_gap_that_was_trimmed_ends_the_process() -> None:
    agents = Agents()
    agents.log.trim({DECIDED: 7})
    with pytest.raises(PositionGone, match=r"position 3 .* it begins at 7"):
        agents.read(7)
    assert agents.seen == []


def test_offsets_without_records_are_no_gap_nor_is_what_goes_by_age() -> None:
    agents = Agents()
    agents.read(3, 6)
    agents.log.trim({AGED: 8})
    agents.read(8, where=AGED)
    assert agents.seen == [3, 6, 8]

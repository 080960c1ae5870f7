"""How far a data topic may be trimmed."""

from __future__ import annotations

from schemas.checkpoints import Position
from schemas.progress import Progress
from schemas.topics import Partition
from services.worker.core.trimming import acknowledged, later

DATA = Partition("data", 1)


def progress(unit: str, offset: int, acked: int = 1, processed: int = 1) -> Progress:
    return Progress(unit, processed, acked, (Position("data", 0, 999), Position("data", 1, offset)))


def test_a_partition_is_trimmed_to_the_slowest_readers_ack() -> None:
    known = {"a": progress("a", 40), "b": progress("b", 30)}
    assert acknowledged(DATA, ["a", "b"], known) == 30


def test_nothing_is_trimmed_while_a_reader_has_acknowledged_nothing() -> None:
    assert acknowledged(DATA, ["a", "c"], {"a": progress("a", 40)}) == 0
    assert acknowledged(DATA, ["a"], {"a": Progress("a", 5, 0)}) == 0


def test_of_two_readings_the_maximum_counts() -> None:
    old, new = progress("a", 40, acked=4, processed=9), progress("a", 30, acked=3, processed=12)
    merged = later(old, new)
    assert (merged.acked, merged.processed, merged.positions) == (4, 12, old.positions)
    assert later(new, old) == merged

"""A restore that takes long: what the unit does meanwhile is restored too, since its inputs are trimmed up to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.schemas.checkpoints import Entry, Marker, Part, encode, pack
from holdfast.schemas.decided import Id
from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.errors import StateCorrupted
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.log.memory import MemoryLog
from holdfast.services.worker.checkpoint.restore import MAX_LOOKS, rebuild

WHERE = Partition("checkpoints", 0)


class Unit:
    """Writes a valid run for each batch, and trims below it: nothing but the newest is needed."""

    def __init__(self) -> None:
        self.log = MemoryLog(lambda: 0)
        self.log.create([TopicSpec(WHERE.topic, 1)])
        self.batch = 0
        self._last: Id | None = None

    def checkpoint(self) -> None:
        self.batch += 1
        run = Id("w", self.batch)
        self._put(Part(run, 0, False, pack([(b"\0\0key", b"%d" % self.batch), (b"\0\0%d" % self.batch, b"")])))
        self._put(Marker(run, self._last, 1, self.batch - 1, self.batch, b"", None, ["t"], {}, [], None))
        self._last = run

    def _put(self, record: Part | Marker) -> None:
        self.log.put(WHERE, encode(record), None, None)


class SlowImage(MemoryImage):
    """The unit continues by so many batches whenever something is applied to it, until they run out."""

    def __init__(self, unit: Unit, steps: list[int]) -> None:
        super().__init__()
        self._unit, self._steps = unit, steps

    def apply(self, entries: Sequence[Entry]) -> None:
        super().apply(entries)
        for _ in range(self._steps.pop(0) if self._steps else 0):
            self._unit.checkpoint()


def test_runs_written_while_it_is_restored_are_restored_too() -> None:
    unit = Unit()
    unit.checkpoint()
    image = SlowImage(unit, [20, 3, 0])
    rebuilt = rebuild(unit.log, WHERE, image)
    assert rebuilt.marker is not None
    assert rebuilt.marker.b == unit.batch == 24
    assert image.get_many([b"\0\0key", b"\0\0%d" % 24, b"\0\0%d" % 2]) == [b"24", b"", b""]
    assert rebuilt.next_offset == unit.log.stored(WHERE).end


def test_a_unit_that_is_faster_than_its_restore_does_not_keep_it_for_ever() -> None:
    unit = Unit()
    unit.checkpoint()
    rebuilt = rebuild(unit.log, WHERE, SlowImage(unit, [3] * 20_000))
    assert rebuilt.marker is not None
    assert MAX_LOOKS <= rebuilt.marker.b < unit.batch
    assert rebuilt.next_offset == 2 * rebuilt.marker.b


@pytest.mark.parametrize("markers", [0, 2])
def test_a_checkpoint_log_without_a_marker_that_was_acknowledged_is_not_believed(markers: int) -> None:
    """Empty, or short: its tail is lost, or whoever answered has fallen behind."""
    unit = Unit()
    for _ in range(markers):
        unit.checkpoint()
    with pytest.raises(StateCorrupted, match="batch 3 was acknowledged"):
        rebuild(unit.log, WHERE, MemoryImage(), acked=3)
    assert rebuild(unit.log, WHERE, MemoryImage(), acked=markers).log.last_b == markers

"""The job computed again from its cuts: not only what it delivers, but each frame and each state on the way there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.schemas.frames import FLAG_END, Header, unpack
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.audit.begun import Begun
from holdfast.services.audit.recomputation import Outcome, Replay
from holdfast.services.audit.sources import ReplayedTopic, Taken
from holdfast.services.kernel.state.image import MemoryImage
from tests.simulation.observers.images import State, named

Frame = tuple[Partition, int, int, int]
"""Partition, writer, batch, part."""


def frame(partition: Partition, header: Header) -> Frame:
    return partition, header.writer, header.batch, header.part


def said(header: Header) -> tuple[int, int, int, int, int]:
    """The content of a frame, from any sender."""
    return header.payload_hash, header.parts, header.watermark, header.flags & FLAG_END, header.clock_us


class Reference(Replay):
    """frames: what every frame must say. differ: units and batches whose state is not the expected one.

    Args:
        states: as of these markers, by unit and batch. max_frame_bytes: as the workers had it.
        begun: state with which the job begins; None: with none.
    """

    def __init__(
        self,
        plan: Plan,
        topics: JobTopics,
        states: Mapping[tuple[str, int], State],
        max_frame_bytes: int,
        begun: Mapping[str, Begun] | None = None,
    ) -> None:
        super().__init__(plan, topics, max_frame_bytes, first=plan.first_batch, begun=begun)
        self._states = states
        self.frames: dict[Frame, tuple[int, int, int, int, int]] = {}
        self.differ: list[tuple[str, int]] = []

    def process(self, taken: Mapping[str, Taken]) -> list[Outcome]:
        outcomes = super().process(taken)
        self.differ += self._compare()
        return outcomes

    def begin_again(self, task: str) -> None:
        """From here on the task reads another topic: no event time of the old one counts."""
        for unit in self._units:
            source = unit._sources.get(task)
            if isinstance(source, ReplayedTopic):
                source._newest.clear()

    def _compare(self) -> Iterator[tuple[str, int]]:
        for unit in self._units:
            told = self._states.get((unit.name, self.batch))
            if told is None:
                continue
            unit._settle()
            assert isinstance(unit._store.image, MemoryImage)
            if named(unit._store.image, unit._store.names) != told:
                yield unit.name, self.batch

    def _append(self, partition: Partition, value: bytes) -> None:
        header = unpack(value)
        self.frames[frame(partition, header)] = said(header)
        super()._append(partition, value)

"""The handlers of a copy's partitions: records that are read, and positions that are lost.

Source: PROTOCOL 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.schemas.topics import Partition
from holdfast.services.log.protocol import Chunk
from holdfast.services.worker.host.subscriptions import Handler
from holdfast.services.worker.unit.checkpoints.checkpoints import Checkpoints
from holdfast.services.worker.unit.facts.steps import Steps
from holdfast.services.worker.unit.inputs.intake import Intake
from holdfast.services.worker.unit.turns.condition import Condition


class Handlers:
    """The handlers of one copy with an image.

    Args:
        hears: returns True if each frame of the partition may make a turn due.
        wake: makes a turn due.
    """

    def __init__(
        self,
        condition: Condition,
        checkpoints: Checkpoints,
        intake: Intake,
        steps: Steps,
        hears: Callable[[Partition], bool],
        wake: Callable[[], None],
    ) -> None:
        self._condition = condition
        self._checkpoints = checkpoints
        self._intake = intake
        self._steps = steps
        self._hears = hears
        self._wake = wake

    def control_positions(self) -> dict[Partition, int]:
        """The positions of the unit's checkpoint log and, for units that read it, of the job's cut log."""
        return {self._checkpoints.partition: self._checkpoints.next_offset} | self._intake.cutter.positions()

    def of(self, partition: Partition) -> Handler:
        """The handler of one of the copy's partitions."""
        if partition == self._checkpoints.partition:
            return self._read_markers
        return partial(self._read_input, self._intake.handler(partition))

    def _read_markers(self, chunk: Chunk) -> None:
        self._condition.changed()
        with self._steps.step():
            for message in chunk.messages:
                self._checkpoints.read(message.offset(), message.value() or b"")
        self._wake()

    def _read_input(self, read: Callable[[Chunk, int], bool], chunk: Chunk) -> None:
        self._condition.changed()
        news, flags = read(chunk, self._condition.batch), self._condition.flags
        works = flags.process or flags.commit or self._intake.urgent
        if works and (news or self._hears(chunk.partition)):
            self._wake()

    def position_lost(self, partition: Partition, cause: str) -> bool:
        """Handles a lost position of a user's topic. True if the copy must first check that the topic is the same."""
        if doubtful := self._intake.position_lost(partition, cause):
            self._wake()
        return doubtful

"""Frames of a unit for other units: the rows of its tasks, one batch in one frame or in several parts.

Source: PROTOCOL 2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.schemas.formats import FIRST
from holdfast.schemas.frames import FLAG_END
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.codecs.frames import MAX_FRAME_BYTES, FrameCodec, Sender
from holdfast.services.kernel.dataflow.routing import split
from holdfast.services.kernel.dataflow.unit import Sent
from holdfast.services.kernel.plans.layout import UnitLayout


class Frames:
    """An encoder of the rows that one unit sends.

    Args:
        layout: the unit as planned.
        generation: the generation number in its frames.
        max_frame_bytes: the limit for one frame; a larger batch has several parts.
    """

    def __init__(self, layout: UnitLayout, generation: int, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._codecs: Mapping[str, FrameCodec] = {
            task.name: FrameCodec(stream_schema(task.operator.fields), max_frame_bytes)
            for task in layout.tasks
            if task.outputs
        }
        self._writers = {task.name: task.index for task in layout.tasks}
        self._generation = generation

    def encode(
        self, batch: int, sent: Sequence[Sent], epoch: int, format: int = FIRST, flags: int = 0
    ) -> Iterator[tuple[Partition, bytes]]:
        """Yields every frame of a batch with its partition: one frame, or several parts, for each target partition.

        flags: replace the flags that follow from the rows.
        """
        for one in sent:
            codec = self._codecs[one.task.name]
            sender = Sender(self._writers[one.task.name], self._generation, epoch, format)
            own = flags or (FLAG_END if one.end else 0)
            for target, rows in zip(one.output.targets, split(one.rows, one.output), strict=True):
                for frame in codec.encode(rows, sender, batch, one.watermark, own, clock_us=one.clock_us):
                    yield Partition(one.output.topic, target), frame

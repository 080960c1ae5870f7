"""Deliberate bugs of frames: what a copy takes from its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.schemas.frames import HEADER_BYTES
from holdfast.schemas.frames import unpack as unpack_frame
from holdfast.services.kernel.dataflow.input_partition import InputPartition
from tests.simulation.mutants.bug import method


@method(InputPartition, "offer")
def duplicates_taken(true: Any, self: InputPartition, offset: int, frame: bytes) -> bool:
    """The rows of a frame that is there already are added once more, as long as its batch is not done."""
    header = unpack_frame(frame)
    before = header.batch in self._writers[header.writer].batches
    taken = bool(true(self, offset, frame))
    payload = memoryview(frame)[HEADER_BYTES:]
    if before and not taken and len(payload):
        self._writers[header.writer].batches[header.batch][1].append(payload)
        self.bytes += len(payload)
    return taken


@method(InputPartition, "position")
def position_behind_what_is_held(true: Any, self: InputPartition) -> int:
    """The input position of a marker is where the reader is, and not the first frame of a later batch."""
    return self._next_offset


@method(InputPartition, "take")
def highest_watermark(true: Any, self: InputPartition, batch: int) -> Any:
    """The watermark of a batch is that of the fastest writer."""
    highest = max((w.batches[batch][0] for w in self._writers.values() if batch in w.batches), default=None)
    merged = true(self, batch)
    return merged if highest is None else replace(merged, watermark=highest)


@method(InputPartition, "take")
def payloads_as_they_came(true: Any, self: InputPartition, batch: int) -> Any:
    """Not in writer order, but by who is ahead."""
    self._writers = dict(sorted(self._writers.items(), key=lambda item: -item[1].received))
    return true(self, batch)


@method(InputPartition, "rewind")
def dropped_frames_not_read_again(true: Any, self: InputPartition) -> int | None:
    """Loses frames for which there was no room while a writer was away."""
    return None


@method(InputPartition, "skip")
def jump_leaves_inputs(true: Any, self: InputPartition, batch: int, offset: int, ended: Any) -> None:
    """A copy that jumps to a marker keeps the frames up to it."""

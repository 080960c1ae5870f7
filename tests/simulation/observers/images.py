"""Images of the copies, looked at whenever one has reached another batch.

The image of a copy is the state as of a valid marker, whoever wrote it: PROTOCOL 6. Half-applied and half-settled ones
are left out, for nothing may read those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.worker.checkpoint.checkpointer import Checkpointer
from holdfast.services.worker.core.checkpoint_run import Phase
from holdfast.services.worker.process.loop import Worker

State = Mapping[tuple[str, bytes], bytes]
"""Encoded values by table name and key."""


def named(image: MemoryImage, tables: Sequence[str]) -> State:
    """The entries of an image, by the names of their tables instead of the numbers."""
    return {(tables[int.from_bytes(key[:2])], key[2:]): value for key, value in image.scan(b"")}


Held = tuple[str, Checkpointer, int]
"""A unit, who keeps the image of its copy, and the batch as of which the image is."""


class Images:
    """seen: the state by unit key and batch. wrong: where two images of the same batch were not the same."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], State] = {}
        self.wrong: list[str] = []
        self._last: dict[str, list[Held]] = {}

    def look(self, own: str, worker: Worker) -> None:
        """own: the worker's incarnation."""
        # after each turn of each worker: so few calls are made for nothing
        held = [
            (unit, checkpointer, checkpointer.image.batch)
            for unit, copy in worker._copies.here.items()
            if copy.running is not None
            for checkpointer in [copy.running.checkpoints.checkpointer]
        ]
        last = self._last.get(own, [])
        if held != last:
            self._last[own] = [one for one in held if one in last or self._seen(own, *one)]

    def _seen(self, own: str, unit: str, checkpointer: Checkpointer, batch: int) -> bool:
        """Compares the image with what is known of its batch, if it is as of one."""
        if checkpointer.applier.halfway or checkpointer.writer.phase is Phase.SETTLING:
            return False
        image = checkpointer.image.store.image
        assert isinstance(image, MemoryImage)
        state = named(image, checkpointer.image.store.names)
        if self.seen.setdefault((unit, batch), state) != state:
            self.wrong.append(f"image: that of {unit} on {own} as of batch {batch} is not that of another copy")
        return True

"""What the copies' images held, looked at whenever one has reached another batch.

The image of a copy is the state as of a valid marker, whoever wrote it: PROTOCOL 6. Half-applied and half-settled ones
are left out, for nothing may read those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.kernel.state.image import MemoryImage
from services.worker.checkpoint.checkpointer import Checkpointer
from services.worker.core.checkpointing import Phase
from services.worker.process.loop import Worker

State = Mapping[tuple[str, bytes], bytes]
"""Encoded values by table name and key."""


def named(image: MemoryImage, tables: Sequence[str]) -> State:
    """The entries of an image, by the names of their tables instead of the numbers."""
    return {(tables[int.from_bytes(key[:2])], key[2:]): value for key, value in image.scan(b"")}


class Images:
    """seen: the state by unit key and batch. wrong: where two images of the same batch were not the same."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], State] = {}
        self.wrong: list[str] = []
        self._last: dict[str, dict[str, tuple[Checkpointer, int]]] = {}

    def look(self, own: str, worker: Worker) -> None:
        """own: the worker's incarnation."""
        last = self._last.setdefault(own, {})
        for unit, copy in worker._copies.here.items():
            running = copy.running
            if running is None:
                continue
            checkpointer = running.checkpoints.checkpointer
            known = last.get(unit)
            if known is None or known[0] is not checkpointer or known[1] != checkpointer.image.batch:
                self._look(own, unit, checkpointer)

    def _look(self, own: str, unit: str, checkpointer: Checkpointer) -> None:
        batch = checkpointer.image.batch
        if checkpointer.applier.halfway or checkpointer.writer.phase is Phase.SETTLING:
            return
        self._last[own][unit] = checkpointer, batch
        image = checkpointer.image.store.image
        assert isinstance(image, MemoryImage)
        state = named(image, checkpointer.image.store.names)
        if self.seen.setdefault((unit, batch), state) != state:
            self.wrong.append(f"image: that of {unit} on {own} as of batch {batch} is not that of another copy")

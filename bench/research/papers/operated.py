"""An operator in one process: CPU time of its batches, its checkpoints and their application at a backup.

Source: MECHANISMS C10, C11 and W7. State and images are those of a worker (RocksDB). A capture forms the run: the swap,
encoding, packing. A paste is unpacking and applying. Settling, which takes the run into the leader's own image, is
counted by itself: the paper's workers have no such image.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from holdfast.schemas.checkpoints import Entry, pack, unpack
from holdfast.schemas.cuts import NO_WATERMARK
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.operators.operator import BatchContext
from holdfast.services.kernel.state.store import StateStore
from holdfast.services.kernel.state.values import bytes_of
from holdfast.services.worker.checkpoint.parts import PIECE_BYTES, PIECE_ENTRIES
from holdfast.services.worker.process.rocks import RocksImage

Fields = dict[str, str]
SETTLED = 1_000


@dataclass(frozen=True, slots=True)
class Run:
    """A checkpoint.

    created, updated, deleted: entries of the delta, compared with the image before it.
    """

    capture_ms: float
    paste_ms: float
    settle_ms: float
    created: int
    updated: int
    deleted: int
    bytes: int


class Operated:
    """Batches go in by `batch`; `checkpoint` captures what they changed and applies it at the backup."""

    def __init__(self, kind: str, params: Mapping[str, Any], inputs: Sequence[Fields], folder: Path) -> None:
        streams = [Stream(dict(fields)) for fields in inputs]
        described = catalogue.describe(kind, dict(params), streams)
        given = {**params, "input_row_key": list(streams[0].row_key)}
        plan = OperatorPlan("op", kind, 1, ("in",), given, described.fields, described.row_key)
        self._image = RocksImage(folder / "leader")
        self._backup = RocksImage(folder / "backup")
        self._store = StateStore(self._image)
        self._operator = catalogue.build(plan, [dict(fields) for fields in inputs], self._store.of_task("op-0"))
        self.schemas = [stream_schema(dict(fields)) for fields in inputs]
        self._batch = 0
        self._watermark = NO_WATERMARK

    def batch(self, frames: Sequence[pl.DataFrame], watermark: int) -> float:
        """CPU milliseconds that it took."""
        before, self._watermark = self._watermark, max(self._watermark, watermark)
        self._batch += 1
        context = BatchContext(self._batch, before, self._watermark)
        with _timed() as took_ms:
            self._operator.on_batch(frames, context)
        return took_ms()

    def checkpoint(self) -> Run:
        pieces: list[list[Entry]] = []
        with _timed() as captured_ms:
            capture = self._store.capture()
            while piece := capture.piece(PIECE_ENTRIES, PIECE_BYTES):
                pieces.append(piece)
            packed = [pack(piece) for piece in pieces]
        entries = [entry for piece in pieces for entry in piece]
        known = self._image.get_many([key for key, _ in entries])
        with _timed() as pasted_ms:
            for part in packed:
                self._backup.apply(unpack(part))
        with _timed() as settled_ms:
            for piece in pieces:
                self._image.apply(piece)
            while self._store.settle_piece(SETTLED):
                pass
        created = sum(old is None and value is not None for old, (_, value) in zip(known, entries, strict=True))
        deleted = sum(value is None for _, value in entries)
        updated = len(entries) - created - deleted
        times = captured_ms(), pasted_ms(), settled_ms()
        return Run(*times, created, updated, deleted, bytes_of(entries))

    def close(self) -> None:
        self._image.close()
        self._backup.close()


@contextmanager
def operated(kind: str, params: Mapping[str, Any], inputs: Sequence[Fields]) -> Iterator[Operated]:
    """An operator under test; its images are deleted at the end of the context."""
    with TemporaryDirectory(prefix="holdfast-operated-") as folder:
        found = Operated(kind, params, inputs, Path(folder))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def _timed() -> Iterator[Callable[[], float]]:
    """CPU milliseconds of this thread within the block."""
    began_ns, ended_ns = time.thread_time_ns(), [0]
    yield lambda: (ended_ns[0] - began_ns) / 1e6
    ended_ns[0] = time.thread_time_ns()
